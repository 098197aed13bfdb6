"""Records averaged weights and gradient accumulation of PyTorch.

usage: python3 record_averaging.py [folder]   writes averaged_weights.json and accumulation.json
The formats are in README.md.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch.optim.swa_utils import get_ema_multi_avg_fn

import record_training as base
from fill import fill, recorded

SIZE, STREAM, STEPS, DECAY = 12, 4000, 20, 0.7
# Micro-batches of two epochs; a bracket is one update.
GROUPS = [[6, 6, 6], [6, 4], [6, 6, 6], [6, 4]]
INPUT_STREAM = 5000


def averaged_weights():
    """SGD on given gradients; after each step the average follows, by torch's own function."""
    out = []
    for warmup in (False, True):
        w = torch.from_numpy(fill((SIZE,), STREAM)).requires_grad_()
        average = w.detach().clone()
        optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
        weights, averages = [], []
        for step in range(1, STEPS + 1):
            w.grad = torch.from_numpy(fill((SIZE,), STREAM + step))
            optimizer.step()
            decay = min(DECAY, (1 + step) / (10 + step)) if warmup else DECAY
            get_ema_multi_avg_fn(decay)([average], [w.detach()], step)
            weights.append([float(f"{v:.9g}") for v in w.detach().tolist()])
            averages.append([float(f"{v:.9g}") for v in average.tolist()])
        out.append({"decay": DECAY, "warmup": warmup, "size": SIZE, "stream": STREAM, "learning_rate": 0.1,
                    "momentum": 0.9, "weights": weights, "averages": averages})
    return out


def micro_batch(number, samples):
    x = torch.from_numpy(fill((samples, base.SIZE, base.SIZE, base.CHANNELS), INPUT_STREAM + number, 4.0)).double()
    labels = torch.tensor([(3 * i + number) % base.CLASSES for i in range(samples)])
    return x.permute(0, 3, 1, 2).contiguous(), labels


def accumulation():
    net = base.Net().double()
    base.fill_parameters(net)
    optimizer = torch.optim.SGD([{"params": [p for p in net.parameters() if p.dim() > 1],
                                  "weight_decay": base.WEIGHT_DECAY},
                                 {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0.0}],
                                **base.SGD)
    losses, gradients, number = [], [], 0
    for group in GROUPS:
        optimizer.zero_grad()
        for samples in group:
            x, labels = micro_batch(number, samples)
            loss = F.cross_entropy(net(x), labels)
            (loss * samples / sum(group)).backward()
            losses.append(loss.item())
            number += 1
        gradients.append({n: recorded(base.inside(n, p.grad)) for n, p in net.named_parameters()})
        optimizer.step()
    return {"groups": GROUPS, "learning_rate": base.SGD["lr"], "momentum": base.SGD["momentum"],
            "weight_decay": base.WEIGHT_DECAY, "parameter_stream": base.PARAM_STREAM,
            "parameter_scale": base.PARAM_SCALE, "input_stream": INPUT_STREAM, "input_scale": 4.0,
            "parameters": [n for n, _ in net.named_parameters()], "losses": losses, "gradients": gradients,
            "final_parameters": {n: recorded(base.inside(n, p)) for n, p in net.named_parameters()},
            "final_running_stats": {n: recorded(b) for n, b in net.named_buffers() if "running" in n}}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for name, value in [("averaged_weights.json", averaged_weights()), ("accumulation.json", accumulation())]:
        lines = ([json.dumps(v) for v in value] if isinstance(value, list) else
                 [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()])
        opening, closing = "[]" if isinstance(value, list) else "{}"
        (folder / name).write_text(f"{opening}\n" + ",\n".join(lines) + f"\n{closing}\n")


if __name__ == "__main__":
    main()
