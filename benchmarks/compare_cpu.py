#!/usr/bin/env python3
"""Ours against PyTorch on this machine's CPU, alternately in one run; ratios of step times, each the
median over the rounds of the median over the steps of a round.

usage: compare_cpu.py --program build/cpu-release/cli/renaissance [--torch-python python3] [--rounds 3]
                      [--seconds 6] [--threads 2] [--output benchmarks/results/<date>-cpu.json]

--torch-python: an interpreter that has torch. PyTorch's time is the best of its layouts and modes (eager and, where a
C++ compiler works, torch.compile).
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent
WORK = {
    "mlp": ["--batch", "200", "--optimizer", "adamw"],
    "cnn": ["--batch", "128", "--optimizer", "nesterov"],
    "resnet20": ["--batch", "128", "--optimizer", "nesterov", "--channels", "1", "--height", "28", "--width", "28"],
}


def run_json(command, threads):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    out = subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def cpu_name():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--torch-python", default="python3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", default=list(WORK))
    parser.add_argument("--output")
    args = parser.parse_args()

    rows = []
    for model in args.models:
        ours, peers = [], {}
        for _ in range(args.rounds):
            ours += run_json([args.program, "bench", model, *WORK[model], "--threads", str(args.threads), "--seconds", str(args.seconds),
                              "--json"], args.threads)
            for line in run_json([args.torch_python, str(HERE / "peers/torch_cpu.py"), "--models", model, "--seconds", str(args.seconds),
                                  "--threads", str(args.threads)], args.threads):
                if "error" not in line:
                    peers.setdefault(f"{line['layout']} {line['mode']}", []).append(line["median_ms"])
        our_ms = statistics.median(line["step_ms"] for line in ours)
        best, peer_ms = min(((name, statistics.median(times)) for name, times in peers.items()), key=lambda item: item[1])
        rows.append({"work": f"{model} training step, fp32", "ours": round(our_ms, 3), "peer": round(peer_ms, 3),
                     "peer_name": f"PyTorch, {best}", "ratio": round(peer_ms / our_ms, 3), "unit": "ms",
                     "all_peers": {name: round(statistics.median(times), 3) for name, times in peers.items()},
                     "all_ours": [round(line["step_ms"], 3) for line in ours]})
        print(f"{model:10}  ours {our_ms:9.3f} ms   PyTorch {peer_ms:9.3f} ms ({best})   ratio {peer_ms / our_ms:.2f}", flush=True)
    version = subprocess.run([args.torch_python, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE, text=True)
    result = {"date": datetime.date.today().isoformat(), "cpu": cpu_name(), "threads": args.threads,
              "torch": version.stdout.strip(), "rows": rows}
    if args.output:
        pathlib.Path(args.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
