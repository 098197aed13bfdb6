"""Records steps of every optimizer over several tensors, and trainings of which a part is frozen, with PyTorch.

usage: python3 record_updates.py [folder]   writes updates.json and frozen_training.json
The formats are in README.md.
"""
import fnmatch
import json
import pathlib
import sys

import torch
import torch.nn.functional as F

from fill import fill, recorded
from record_training import (Net, PARAM_SCALE, PARAM_STREAM, SMOOTHING, STEPS, WEIGHT_DECAY, batch, fill_parameters,
                             inside)

SHAPES = {"a.weight": (4, 5), "a.bias": (4,), "b.weight": (3, 4), "b.bias": (3,)}
STREAM, FINAL_FRACTION, SHOWN = 5000, 0.5, (1, 2, 5, 10, 20)


class Lars(torch.optim.Optimizer):
    """MLPerf's reference, lars_optimizer.py of its ResNet in TensorFlow: the momentum holds scaled updates."""

    def __init__(self, groups, lr, momentum, trust_coefficient, epsilon, nesterov):
        super().__init__(groups, dict(lr=lr, momentum=momentum, eta=trust_coefficient, eps=epsilon, nesterov=nesterov))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                ratio, decay = 1.0, group["weight_decay"]
                w_norm, g_norm = p.norm(), p.grad.norm()
                if group["is_weights"] and w_norm > 0 and g_norm > 0:
                    ratio = group["eta"] * w_norm / (g_norm + decay * w_norm + group["eps"])
                update = group["lr"] * ratio * (p.grad + decay * p)
                velocity = self.state[p].setdefault("momentum", torch.zeros_like(p))
                velocity.mul_(group["momentum"]).add_(update)
                p.sub_(update + group["momentum"] * velocity if group["nesterov"] else velocity)


def make_optimizer(run, tensors):
    decay = 0.0 if run["decoupled_decay"] else run["weight_decay"]
    weights = [p for p in tensors.values() if p.dim() > 1]
    others = [p for p in tensors.values() if p.dim() == 1]
    groups = [{"params": weights, "weight_decay": decay, "is_weights": True},
              {"params": others, "weight_decay": decay if run["decay_norm_and_bias"] else 0.0, "is_weights": False}]
    kind, lr = run["kind"], run["learning_rate"]
    if kind.startswith("lars"):
        return Lars(groups, lr, run["momentum"], run["trust_coefficient"], run["epsilon"], kind == "lars_nesterov")
    if kind.startswith("adam"):
        cls = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
        return cls(groups, lr=lr, betas=(run["beta1"], run["beta2"]), eps=run["epsilon"], foreach=False)
    return torch.optim.SGD(groups, lr=lr, momentum=0.0 if kind == "sgd" else run["momentum"],
                           nesterov=kind == "nesterov", foreach=False)


def is_frozen(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def steps_of(run):
    tensors = {name: torch.from_numpy(fill(shape, STREAM + t)).requires_grad_(not is_frozen(name, run["freeze"]))
               for t, (name, shape) in enumerate(SHAPES.items())}
    optimizer = make_optimizer(run, tensors)
    shown = {}
    for step in range(1, STEPS + 1):
        for t, (name, p) in enumerate(tensors.items()):
            if p.requires_grad:
                p.grad = torch.from_numpy(fill(SHAPES[name], STREAM + 10 * step + t, 0.2 * step))
        if run["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(tensors.values(), run["clip_norm"], foreach=False)
        for group in optimizer.param_groups:
            group["lr"] = run["learning_rate"] * (1 - (1 - FINAL_FRACTION) * (step - 1) / STEPS)
            for p in group["params"] if run["decoupled_decay"] else []:
                if p.requires_grad and (group["is_weights"] or run["decay_norm_and_bias"]):
                    p.data.mul_(1 - group["lr"] * run["weight_decay"])
        optimizer.step()
        if step in SHOWN:
            shown[str(step)] = {n: [float(f"{v:.9g}") for v in p.detach().flatten().tolist()]
                                for n, p in tensors.items()}
    return {**run, "steps": STEPS, "stream": STREAM, "final_fraction": FINAL_FRACTION, "weights": shown}


def updates():
    base = {"learning_rate": 0.1, "momentum": 0.9, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "weight_decay": 0.05,
            "trust_coefficient": 0.02, "decay_norm_and_bias": False, "decoupled_decay": False, "clip_norm": 0.0,
            "freeze": []}
    def make(kind, **changes):
        rate = 0.5 if kind.startswith("lars") else 0.01 if kind.startswith("adam") else 0.1
        return steps_of({"kind": kind, **base, "learning_rate": rate, **changes})
    kinds = ["sgd", "momentum", "nesterov", "adam", "adamw", "lars", "lars_nesterov"]
    runs = [make(kind, decay_norm_and_bias=everything) for kind in kinds for everything in (False, True)]
    runs += [make(kind, decoupled_decay=True) for kind in ("sgd", "momentum", "nesterov")]
    runs += [make("nesterov", decoupled_decay=True, decay_norm_and_bias=True)]
    runs += [make(kind, clip_norm=1.5) for kind in ("sgd", "nesterov", "adamw", "lars")]
    runs += [make("momentum", freeze=["a.*"]), make("adamw", freeze=["*.bias", "b.weight"]),
             make("lars", freeze=["b.weight"]), make("nesterov", clip_norm=1.5, freeze=["a.weight", "b.b*"]),
             make("sgd", decoupled_decay=True, freeze=["a.weight"])]
    return runs


def frozen_net(dtype, patterns, statistics):
    net = Net().to(dtype)
    fill_parameters(net)
    for name, p in net.named_parameters():
        p.requires_grad_(not is_frozen(name, patterns))
    for module in net.modules() if statistics else []:
        if isinstance(module, torch.nn.BatchNorm2d) and not any(p.requires_grad for p in module.parameters()):
            # Running statistics that are not those of a new network, so that they matter.
            module.running_mean.copy_(torch.from_numpy(fill((module.num_features,), 77)))
            module.running_var.copy_(torch.from_numpy(fill((module.num_features,), 78, 1.0, 1.0)))
            module.eval()
    return net


def frozen_training(patterns, statistics, dtype=torch.float64):
    net = frozen_net(dtype, patterns, statistics)
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(
        [{"params": [p for p in trained if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
         {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}], lr=0.05, momentum=0.9, nesterov=True)
    losses = []
    for step in range(1, STEPS + 1):
        x, labels = batch(step, dtype)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), labels, label_smoothing=SMOOTHING)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return {"freeze": patterns, "freeze_statistics": statistics, "losses": losses,
            "parameter_stream": PARAM_STREAM, "parameter_scale": PARAM_SCALE,
            "parameters": [n for n, _ in net.named_parameters()],
            "final_parameters": {n: recorded(inside(n, p)) for n, p in net.named_parameters()},
            "final_running_stats": {n: recorded(b) for n, b in net.named_buffers() if "running" in n}}


def frozen_trainings():
    below = ["conv1.*", "bn1.*", "layer1.*"]
    between = ["layer2.0.bn1.*", "layer2.0.conv2.weight", "*.downsample.*", "layer1.0.bn2.*", "bn1.weight"]
    return [frozen_training(patterns, statistics) for patterns in (below, between) for statistics in (False, True)]


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    torch.use_deterministic_algorithms(True)
    for name, value in [("updates", updates()), ("frozen_training", frozen_trainings())]:
        (folder / f"{name}.json").write_text("[\n" + ",\n".join(json.dumps(v) for v in value) + "\n]\n")


if __name__ == "__main__":
    main()
