#!/usr/bin/env python3
"""Compares the blocks of docs/add-an-op.md with the files they show, and its count of files and lines with the blocks.

A block is introduced by a line that begins with `path`, whole … or `path`, add … and ends with a colon: the block is
the whole file, or occurs in it exactly once. Console blocks are commands, which this does not run.

usage: check_guide.py ROOT | check_guide.py --self-test
"""
import pathlib
import re
import sys
import tempfile

GUIDE = "docs/add-an-op.md"
INTRODUCTION = re.compile(r"`([^`]+)`, (whole|add)\b.*:$")
FENCE = "```"
COUNT = "{} new files with {} lines, and {} lines in {} existing files"


def blocks(text):
    """(line number, introduction, language, content) of each fenced block."""
    introduction, language, content = "", None, []
    for number, line in enumerate(text.splitlines(), 1):
        if language is None and line.startswith(FENCE):
            first, language, content = number, line[len(FENCE):], []
        elif language is None:
            introduction = line or introduction
        elif line == FENCE:
            yield first, introduction, language, "".join(content)
            introduction, language = "", None
        else:
            content.append(line + "\n")
    if language is not None:
        yield first, introduction, "an open block", ""


def check(root):
    text = (root / GUIDE).read_text()
    mistakes, whole, added = [], {}, {}
    for number, introduction, language, content in blocks(text):
        if language == "console":
            continue
        where = f"{GUIDE}:{number}"
        introduced = INTRODUCTION.match(introduction)
        if not introduced:
            mistakes.append(f"{where}: no line before the block says which file it is")
            continue
        path, kind = introduced.groups()
        lines = whole if kind == "whole" else added
        lines[path] = lines.get(path, 0) + content.count("\n")
        if not (root / path).is_file():
            mistakes.append(f"{where}: {path} does not exist")
        elif kind == "whole" and content != (root / path).read_text():
            mistakes.append(f"{where}: {path} differs from the block")
        elif kind == "add" and (times := (root / path).read_text().count(content.removesuffix("\n"))) != 1:
            mistakes.append(f"{where}: the block is in {path} {times} times, expected once")
    count = COUNT.format(len(whole), sum(whole.values()), sum(added.values()), len(added))
    if count not in text:
        mistakes.append(f"{GUIDE}: the text does not say '{count}'")
    return mistakes


def self_test():
    good = ("`a.cpp`, whole:\n```cpp\nint a;\nint b;\n```\n\n`b.cpp`, add at the end:\n\n```cpp\nint d;\n```\n"
            "```console\n$ make\n```\n1 new files with 2 lines, and 1 lines in 1 existing files\n")
    faults = {
        "": None,
        "int b;": "a.cpp differs",
        "int d;": "in b.cpp 0 times",
        "`a.cpp`, whole": "no line before",
        "`b.cpp`": "no line before",
        "with 2 lines": "does not say '1 new files with 2 lines",
        "\n$ make\n```": "no line before",
    }
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / GUIDE).parent.mkdir()
        (root / "a.cpp").write_text("int a;\nint b;\n")
        (root / "b.cpp").write_text("int c;\nint d;\n")
        for broken, message in faults.items():
            (root / GUIDE).write_text(good.replace(broken, "other") if broken else good)
            found = check(root)
            assert bool(found) == bool(message), (broken, found)
            assert message is None or any(message in m for m in found), (broken, found)
        (root / GUIDE).write_text(good)
        (root / "b.cpp").write_text("int d;\nint d;\n")
        assert "2 times" in check(root)[0]
        (root / "b.cpp").unlink()
        assert "does not exist" in check(root)[0]
    print("self-test passed")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        self_test()
    else:
        problems = check(pathlib.Path(sys.argv[1]))
        print("\n".join(problems) if problems else "the guide shows the files")
        sys.exit(1 if problems else 0)
