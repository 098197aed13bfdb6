#!/usr/bin/env python3
"""Runs every `renaissance …` line of the README on small synthetic data; each must exit with 0.

usage: check_readme.py ROOT PROGRAM
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

# What keeps a line short; everything else runs as it stands.
SMALL = ["data.source=synthetic", "data.train_samples=512", "data.val_samples=128"]
EXTRA = {"train": SMALL, "eval": SMALL, "bench": ["--seconds", "0.2"]}


def main():
    root, program = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    lines = []
    for block in re.findall(r"```sh\n(.*?)```", (root / "README.md").read_text(), re.S):
        lines += [shlex.split(line, comments=True) for line in block.splitlines() if line.startswith("renaissance ")]
    assert len(lines) >= 5, "the README shows fewer commands than it did; adapt this check"
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        (here / "recipes").symlink_to(root / "recipes")
        (here / "photo.jpg").symlink_to(root / "tests/reference/images/gray.jpg")
        (here / "names.txt").write_text("".join(f"class {i}\n" for i in range(10)))
        for words in lines:
            command = [str(program), *words[1:], *EXTRA.get(words[1], [])]
            done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            print("ok  " if done.returncode == 0 else "FAIL", " ".join(words))
            if done.returncode != 0:
                sys.exit(done.stderr)
        commands = ["scripts/demo.sh", "scripts/test.sh"]
        for command in commands:
            assert (root / command).stat().st_mode & 0o111, f"{command} is not executable"


if __name__ == "__main__":
    main()
