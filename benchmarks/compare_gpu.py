#!/usr/bin/env python3
"""Measures the program and PyTorch alternately on one card and writes the ratios.

usage: compare_gpu.py PROGRAM RESULTS_FOLDER [WORK ...] | compare_gpu.py --list
"""
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# work → arguments of `renaissance bench`, peers of peers/torch_gpu.py, whether to measure it without fixed order too
WORKS = {
    "resnet50_b256_fp16": ("resnet50 --batch 256 --precision fp16", ["resnet50:256:fp16:compile"], True),
    "mlp_b200_bf16": ("mlp --batch 200 --precision bf16 --optimizer adamw",
                      ["mlp:200:bf16:eager", "mlp:200:bf16:compile_graph"], False),
    "vgg16_bn_b256_fp16": ("vgg16_bn --batch 256 --precision fp16", ["vgg16_bn:256:fp16:compile"], True),
    "resnet50_b64_bf16": ("resnet50 --batch 64 --precision bf16", ["resnet50:64:bf16:compile_graph"], True),
}
# PyTorch's steps may add up in any order; ours do only where the row says so.
ANY_ORDER = " any order"
SECONDS = "2.5"
# The same steps in fewer bytes.
RECOMPUTED = {"resnet50_b256_fp16": ["memory.budget=8GiB", "memory.recompute=cheap", "memory.budget=5GiB",
                                     "memory.recompute=auto"]}


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        print(done.stderr[-2000:], file=sys.stderr)
        raise SystemExit(f"failed with {done.returncode}: {' '.join(command)}")
    return json.loads(lines[-1])


def ours(program, arguments):
    return run_json([program, "bench", *arguments.split(), "--device", "cuda", "--seconds", SECONDS, "--json"])


def row(work, our_value, peer_value, peer_name, unit):
    return {"work": work, "ours": our_value, "peer": peer_value, "peer_name": peer_name,
            "ratio": round(our_value / peer_value, 4), "unit": unit}


def compare(program, work):
    arguments, peers, has_any_order = WORKS[work]
    ways = {work: arguments}
    if has_any_order:
        ways[work + ANY_ORDER] = arguments + " --no-deterministic"
    runs, theirs = {name: [] for name in ways}, {}
    runs[work].append(ours(program, arguments))
    for peer in peers:
        theirs[peer] = run_json([sys.executable, str(HERE / "peers" / "torch_gpu.py"), peer])
        for name, way in ways.items():
            runs[name].append(ours(program, way))
    rows = []
    for peer, result in theirs.items():
        peer_name = f"torch {result['torch']} {' '.join(peer.split(':')[2:])}"
        for name in ways:
            mine = statistics.median(run["images_per_s"] for run in runs[name])
            rows.append(row(name, mine, result["images_per_s"], peer_name, "images/s"))
        rows.append(row(f"{work} memory planned / reserved", runs[work][0]["planned_bytes"],
                        result["reserved_bytes"], peer_name, "bytes"))
    for asked in RECOMPUTED.get(work, []):
        run = ours(program, f"{arguments} {asked}")
        mine = statistics.median(known["images_per_s"] for known in runs[work])
        rows.append(row(f"{work} {asked}", run["images_per_s"], mine, "ours without", "images/s"))
        rows.append(row(f"{work} {asked} memory planned / reserved", run["planned_bytes"],
                        theirs[peers[0]]["reserved_bytes"], peers[0], "bytes"))
    last = runs[work][-1]
    rows.append(row(f"{work} memory driver before the arena / plan", last["device_overhead_bytes"],
                    last["planned_bytes"], "our plan", "bytes"))
    rows.append(row(f"{work} memory driver / plan", last["device_bytes"], last["planned_bytes"], "our plan", "bytes"))
    return rows


def card_name():
    name = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "-i", "0"],
                          capture_output=True, text=True, check=True).stdout.strip()
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def main(program, folder, works):
    unknown = [work for work in works if work not in WORKS]
    if unknown:
        raise SystemExit(f"unknown work {unknown[0]}; known: {', '.join(WORKS)}")
    file = pathlib.Path(folder) / f"{datetime.date.today()}-{card_name()}.json"
    rows = []
    for work in works or WORKS:
        rows += compare(program, work)
        # After each work, so that what was measured outlives a later failure.
        aside = file.with_suffix(".tmp")
        aside.write_text(json.dumps(rows, indent=1) + "\n")
        os.replace(aside, file)
        print(f"{work}: done", file=sys.stderr, flush=True)
    print(f"{'work':50} {'ours':>16} {'peer':>16} {'ratio':>7}  unit      peer")
    for r in rows:
        print(f"{r['work']:50} {r['ours']:16,.0f} {r['peer']:16,.0f} {r['ratio']:7.3f}  {r['unit']:9} {r['peer_name']}")
    print(f"written: {file}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(WORKS))
    elif len(sys.argv) < 3:
        sys.exit(__doc__)
    else:
        main(sys.argv[1], sys.argv[2], sys.argv[3:])
