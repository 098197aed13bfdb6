#!/usr/bin/env python3
"""Kills a training at random moments and resumes it: the weights must be those of one that nobody killed.

usage: killed.py PROGRAM [--kills 20] [--device cpu] [--seed 1]

Every case trains once without a disturbance, then again with `--kills` SIGKILLs at moments drawn over its whole
course (while it starts, trains, validates, writes checkpoints) and `train --resume` after each. A checkpoint is
written every other step, so that many of the kills fall into one. Weights, averaged weights and metrics must agree
byte for byte, times aside.
"""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

RECIPE = """\
name: killed
threads: 1
device: {device}
data: {{source: synthetic, classes: 4, train_samples: 203, val_samples: 45, channels: 3, height: 12, width: 12}}
augment: {{crop_padding: 2, horizontal_flip: true}}
model:
  layers:
    - conv: {{out_channels: 8, kernel: 3, padding: 1, bias: false}}
    - bn
    - relu
    - maxpool: [2, 2]
    - conv: {{out_channels: 16, kernel: 3, stride: 2, padding: 1}}
    - relu
    - dropout: 0.25
    - gap
    - flatten
    - fc: 4
optimizer: {{kind: nesterov, learning_rate: 0.05, weight_decay: 0.001}}
schedule: cosine
train: {{epochs: 6, batch_size: 16, seed: 11}}
checkpoint: {{every_steps: 2}}
"""

CASES = {
    "plain": [],
    "ranks": ["ranks=3", "train.batch_size=5", "optimizer=adamw", "optimizer.learning_rate=0.002"],
    "resized": ["train.low_resolution=8", "train.low_resolution_epochs=3", "train.label_smoothing=0.1"],
    "averaged": ["ema.decay=0.99", "ema.switch_epochs=2", "augment.mixup=0.4", "augment.cutmix=1.0",
                 "augment.random_erasing=0.25"],
    "accumulated": ["train.accumulate=3", "optimizer.clip_norm=1.0"],
    "bf16": ["precision=bf16", "optimizer=adam", "optimizer.learning_rate=0.002"],
    "fp16": ["precision=fp16", "train.loss_scale=1e9"],
}


def arguments(program, case, run, resume):
    command = [program, "train", "r.yaml", *CASES[case], "--quiet", "--run-dir", run]
    return command + (["--resume"] if resume else [])


def lines(run):
    """Metrics without times, by epoch."""
    result = []
    for text in (run / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        for key in ("seconds", "images_per_s"):
            line.pop(key)
        result.append(line)
    return result


def seconds_of(command, folder):
    start = time.monotonic()
    subprocess.run(command, cwd=folder, check=True)
    return time.monotonic() - start


def kill_until_done(folder, program, case, kills, most_seconds, draw):
    """Returns how many kills met a running program, how many of those that had written checkpoints, and how many a
    checkpoint that was being written."""
    met = moved = writing = 0
    checkpoints = folder / "killed" / "checkpoints"
    newest = []
    halves = set()
    resume = False  # from then on, also where it was killed before it left anything
    for _ in range(kills):
        process = subprocess.Popen(arguments(program, case, "killed", resume), cwd=folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(draw.uniform(0.0, most_seconds))
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        if process.returncode == -signal.SIGKILL:
            met += 1
            before, newest = newest, sorted(checkpoints.glob("epoch-*.safetensors"))
            moved += newest != before
            halves_before, halves = halves, {(p.name, p.stat().st_mtime_ns) for p in checkpoints.glob("*.tmp")}
            writing += bool(halves - halves_before)
        elif process.returncode != 0:
            sys.exit(f"{case}: exit code {process.returncode}: {errors.decode()}")
        resume = True
    subprocess.run(arguments(program, case, "killed", resume), cwd=folder, check=True)
    return met, moved, writing


def check(program, case, kills, device, draw):
    with tempfile.TemporaryDirectory(prefix="renaissance_killed_") as name:
        folder = pathlib.Path(name)
        (folder / "r.yaml").write_text(RECIPE.format(device=device))
        seconds = seconds_of(arguments(program, case, "whole", False), folder)
        # A finished training that is resumed only starts and ends. Each life makes its share of the way.
        idle = seconds_of(arguments(program, case, "whole", True), folder)
        met, moved, writing = kill_until_done(folder, program, case, kills, idle + 2.0 * max(seconds - idle, 0.0) / kills, draw)
        whole, killed = folder / "whole", folder / "killed"
        for file in sorted(whole.glob("weights*.safetensors")):
            if (killed / file.name).read_bytes() != file.read_bytes():
                sys.exit(f"{case}: {file.name} differs after {met} kills")
        if list((killed / "checkpoints").glob("*.tmp")):
            sys.exit(f"{case}: half-written checkpoints stay")
        if lines(killed) != lines(whole):
            sys.exit(f"{case}: metrics.jsonl differs after {met} kills")
        print(f"{case}: the same bytes after {met} kills, {moved} after new checkpoints, {writing} while one was written")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    draw = random.Random(options.seed)
    for case in options.cases:
        check(program, case, options.kills, options.device, draw)


if __name__ == "__main__":
    main()
