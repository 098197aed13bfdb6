#!/usr/bin/env python3
"""Packs every `id,lower,upper,size` file of a folder with `renaissance pack` and writes a table of what was reached.

usage: packing_benchmark.py FOLDER --program build/cpu-release/cli/renaissance [--output benchmarks/results/<date>.json]

Each file is packed with the default steps. One whose name holds a capacity (`name.1048576.csv`) and that does not fit
it then, is packed again with --exact --capacity; its row tells how.
"""
import argparse
import json
import pathlib
import subprocess

COLUMNS = ["instance", "how", "tensors", "lower_bound", "bytes", "ratio", "capacity", "fits", "seconds"]


def pack(program, file, options):
    command = [program, "pack", str(file), "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not done.stdout:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def rows_of(program, file):
    name, _, number = file.stem.rpartition(".")
    capacity = int(number) if name and number.isdigit() else None
    tries = [("default", [])]
    if capacity is not None:
        tries.append(("exact", ["--exact", "--capacity", str(capacity)]))
    for how, options in tries:
        result = pack(program, file, options)
        fits = None if capacity is None else result["bytes"] <= capacity
        yield {
            "instance": file.stem if capacity is None else name, "how": how, "tensors": result["tensors"], "lower_bound": result["lower_bound"],
            "bytes": result["bytes"], "ratio": round(result["bytes"] / max(result["lower_bound"], 1), 5),
            "capacity": capacity, "fits": fits, "seconds": round(result["seconds"], 4),
        }
        if fits is not False:
            return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    files = sorted(arguments.folder.glob("*.csv"))
    if not files:
        raise SystemExit(f"{arguments.folder}: no *.csv files")
    rows = [row for file in files for row in rows_of(arguments.program, file)]
    widths = {c: max(len(c), *(len(str(row[c])) for row in rows)) for c in COLUMNS}
    for row in [dict(zip(COLUMNS, COLUMNS)), *rows]:
        print("  ".join(str(row[c]).ljust(widths[c]) for c in COLUMNS))
    if arguments.output:
        arguments.output.write_text("[\n" + ",\n".join(f" {json.dumps(row)}" for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
