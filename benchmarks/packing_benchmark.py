#!/usr/bin/env python3
"""Packs every `id,lower,upper,size` file of a folder with `renaissance pack` and writes a table of what was reached.

usage: packing_benchmark.py FOLDER --program build/cpu-release/cli/renaissance [--output benchmarks/results/<date>.json]

Each file is packed with the default steps. One whose name holds a capacity (`name.1048576.csv`) is packed again with
--exact --capacity; its row tells how. Two made-up instances of no pattern follow. Seconds are the median of three runs.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess

COLUMNS = ["instance", "how", "tensors", "lower_bound", "bytes", "ratio", "capacity", "fits", "seconds"]


RUNS = 3
UNIFORM_ITEMS = (1000, 20000)
UNIFORM_TIMES, UNIFORM_BYTES = 1_000_000, 1_000_000


def pack(program, text, options):
    command = [program, "pack", "-", "--json", *options]
    results = []
    for _ in range(RUNS):
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if not done.stdout:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        results.append(json.loads(done.stdout))
    if len({result["bytes"] for result in results}) != 1:
        raise SystemExit(f"{' '.join(command)}: not the same bytes every time")
    return {**results[0], "seconds": statistics.median(result["seconds"] for result in results)}


def rows_of(program, name, text, capacity):
    tries = [("default", [])]
    if capacity is not None:
        tries.append(("exact", ["--exact", "--capacity", str(capacity)]))
    for how, options in tries:
        result = pack(program, text, options)
        yield {
            "instance": name, "how": how, "tensors": result["tensors"], "lower_bound": result["lower_bound"],
            "bytes": result["bytes"], "ratio": round(result["bytes"] / max(result["lower_bound"], 1), 5),
            "capacity": capacity, "fits": None if capacity is None else result["bytes"] <= capacity,
            "seconds": round(result["seconds"], 4),
        }


def instances(files):
    for file in files:
        name, _, number = file.stem.rpartition(".")
        has_capacity = name and number.isdigit()
        yield name if has_capacity else file.stem, file.read_text(), int(number) if has_capacity else None
    for items in UNIFORM_ITEMS:
        numbers = random.Random(items)
        lines = ["id,lower,upper,size"]
        for item in range(items):
            lower = numbers.randrange(UNIFORM_TIMES)
            upper = numbers.randint(lower + 1, UNIFORM_TIMES)
            lines.append(f"{item},{lower},{upper},{numbers.randint(1, UNIFORM_BYTES)}")
        yield f"uniform_{items}", "\n".join(lines) + "\n", None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    files = sorted(arguments.folder.glob("*.csv"))
    if not files:
        raise SystemExit(f"{arguments.folder}: no *.csv files")
    rows = [row for instance in instances(files) for row in rows_of(arguments.program, *instance)]
    widths = {c: max(len(c), *(len(str(row[c])) for row in rows)) for c in COLUMNS}
    for row in [dict(zip(COLUMNS, COLUMNS)), *rows]:
        print("  ".join(str(row[c]).ljust(widths[c]) for c in COLUMNS))
    if arguments.output:
        arguments.output.write_text("[\n" + ",\n".join(f" {json.dumps(row)}" for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
