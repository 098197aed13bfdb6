#!/usr/bin/env python3
"""Checks that includes follow the arrows of docs/architecture.md: a folder includes only folders below it.

usage: check_includes.py ROOT | check_includes.py --self-test
"""
import pathlib
import re
import sys
import tempfile

# folder → folders it may include, itself always among them
ALLOWED = {
    "core": set(),
    "tensor": {"core"},
    "data": {"core", "tensor"},
    "comm": {"core", "tensor"},
    "graph": {"core", "tensor"},
    "models": {"core", "tensor", "graph"},
    "ops": {"core", "tensor", "graph"},
    "range_ops": {"core", "tensor", "graph", "comm"},
    "backend": {"core", "tensor", "graph", "ops", "range_ops", "comm"},
    "train": {"core", "tensor", "graph", "ops", "backend", "data", "comm", "models"},
}
# What kernels of both share: vendor handles, vector types.
SHARED = {"range_ops": "ops/support/"}
# ops and range_ops are what graph's interfaces are for; train reaches operators through the catalogue only.
ALLOWED["train"].discard("ops")
VENDOR = re.compile(r"cuda|cudnn|cublas|nccl|dnnl|omp\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def folder_of(path):
    """'graph' for src/graph/x.cpp and include/renaissance/graph/x.h; 'cli', 'models' …"""
    parts = path.parts
    if parts[0] == "src":
        return parts[1]
    if parts[:2] == ("include", "renaissance"):
        return parts[2] if len(parts) > 3 else parts[2].removesuffix(".h")
    return parts[0]


def folder_included(name):
    parts = pathlib.PurePath(name).parts
    if parts[0] == "renaissance":
        return parts[1] if len(parts) > 2 else parts[1].removesuffix(".h")
    return parts[0] if len(parts) > 1 else None


def check(root):
    mistakes = []
    files = [p for top in ("src", "include", "cli", "models") for p in sorted((root / top).rglob("*")) if p.suffix in (".h", ".cpp", ".cu", ".cuh")]
    if not files:
        return [f"{root}: no sources found"]
    for file in files:
        path = file.relative_to(root)
        if path.stem.endswith("_test"):
            continue  # a test may look at anything
        folder = folder_of(path)
        public = path.parts[0] == "include"
        for kind, name in INCLUDE.findall(file.read_text()):
            if kind == "<" and not name.startswith("renaissance/"):
                if public and VENDOR.search(name):
                    mistakes.append(f"{path}: a public header includes the vendor's {name}")
                continue
            other = folder_included(name)
            if folder == "cli":
                if not name.startswith("renaissance/") and other is not None:
                    mistakes.append(f"{path}: the program stands on public headers, not on {name}")
                continue
            if public and not name.startswith("renaissance/"):
                mistakes.append(f"{path}: a public header includes the private {name}")
            if folder in SHARED and name.startswith(SHARED[folder]):
                continue
            if other in ALLOWED and other != folder and folder in ALLOWED and other not in ALLOWED[folder]:
                mistakes.append(f"{path}: {folder}/ may not include {name}")
    return mistakes


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        cases = {
            "src/graph/a.cpp": ('#include "ops/conv/conv.h"\n', 1),
            "src/core/b.cpp": ('#include "renaissance/tensor/distributed_tensor.h"\n', 1),
            "include/renaissance/graph/c.h": ('#include <dnnl.hpp>\n', 1),
            "src/train/d.cpp": ('#include "renaissance/graph/compiler.h"\n#include <vector>\n', 0),
            "src/range_ops/f.cu": ('#include "ops/support/device.cuh"\n#include "ops/conv/conv.h"\n', 1),
            "cli/e.cpp": ('#include "train/initialize.h"\n', 1),
        }
        for path, (text, _) in cases.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        found = check(root)
        for path, (_, expected) in cases.items():
            got = sum(m.startswith(path + ":") for m in found)
            assert got == expected, (path, got, expected, found)
    print("self-test passed")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        self_test()
    else:
        problems = check(pathlib.Path(sys.argv[1]))
        print("\n".join(problems) if problems else "includes follow the arrows")
        sys.exit(1 if problems else 0)
