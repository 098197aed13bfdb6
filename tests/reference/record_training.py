"""Records a small residual training and learning-rate schedules of PyTorch.

usage: python3 record_training.py [folder]   writes residual_training.json, mixed_training.json,
                                             schedules.json
The formats are in README.md.
"""
import json
import math
import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from fill import fill, recorded

BATCH, SIZE, CHANNELS, CLASSES, STEPS = 6, 8, 3, 5, 20
PARAM_STREAM, INPUT_STREAM, PARAM_SCALE = 1000, 2000, 0.5
SGD = dict(lr=0.05, momentum=0.9, nesterov=True)
WEIGHT_DECAY, SMOOTHING = 1e-4, 0.1


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(CHANNELS, 4, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.layer1 = nn.Sequential(Block(4, 4, 1))
        self.layer2 = nn.Sequential(Block(4, 8, 2))
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer2(self.layer1(x)).mean((2, 3)))


def inside(name, value):
    """A parameter in the order this library stores it: filters K,R,S,C."""
    value = value.detach()
    return value.permute(0, 2, 3, 1) if value.dim() == 4 else value


def fill_parameters(net):
    """Parameter p of the state_dict's trainable order: 0.5 * value of stream 1000 + p, + 1 for BN weights."""
    with torch.no_grad():
        for p, (name, value) in enumerate(net.named_parameters()):
            is_bn_weight = value.dim() == 1 and name.endswith("weight")
            stored = torch.from_numpy(fill(tuple(inside(name, value).shape), PARAM_STREAM + p, PARAM_SCALE,
                                           1.0 if is_bn_weight else 0.0)).to(value.dtype)
            value.copy_(stored.permute(0, 3, 1, 2) if stored.dim() == 4 else stored)


def batch(step, dtype):
    """Step s sees batch s mod 2, so that there is something to learn. Contiguous: the backward pass of
    PyTorch 2.15's channels-last 1x1 convolution with stride 2, 4 to 8 channels, corrupts the heap on AVX2 CPUs."""
    step %= 2
    x = torch.from_numpy(fill((BATCH, SIZE, SIZE, CHANNELS), INPUT_STREAM + step, 4.0)).to(dtype)
    return x.permute(0, 3, 1, 2).contiguous(), torch.tensor([(3 * i + step) % CLASSES for i in range(BATCH)])


def mix_of(step):
    """Share of the partner and, for CutMix, the box: top, left, bottom, right. Exact in FP32.
    With these no input of a ReLU comes nearer to 0 than 3e-5, where FP32 could take the other side."""
    box = [2, 1, 6, 7]
    return [(0.0, None), (0.3125, None), ((box[2] - box[0]) * (box[3] - box[1]) / SIZE ** 2, box),
            (0.6875, None)][step % 4]


def mixed(step, x, labels):
    """The batch and its soft, smoothed targets: sample i with sample BATCH - 1 - i, as timm's Mixup."""
    share, box = mix_of(step)
    if box:
        top, left, bottom, right = box
        x[:, :, top:bottom, left:right] = x.flip(0)[:, :, top:bottom, left:right].clone()
    else:
        x = (1 - share) * x + share * x.flip(0)
    target = F.one_hot(labels, CLASSES).to(x.dtype) * (1 - SMOOTHING) + SMOOTHING / CLASSES
    return x, (1 - share) * target + share * target.flip(0)


def train(dtype, mixes=False):
    net = Net().to(dtype)
    fill_parameters(net)
    weights = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() == 1]
    optimizer = torch.optim.SGD([{"params": weights, "weight_decay": WEIGHT_DECAY},
                                 {"params": others, "weight_decay": 0.0}], **SGD)
    losses, gradients = [], {}
    for step in range(1, STEPS + 1):
        x, labels = batch(step, dtype)
        optimizer.zero_grad()
        if mixes:
            x, targets = mixed(step, x, labels)
            loss = F.cross_entropy(net(x), targets)
        else:
            loss = F.cross_entropy(net(x), labels, label_smoothing=SMOOTHING)
        loss.backward()
        losses.append(loss.item())
        if step in (1, STEPS):
            gradients[str(step)] = {n: recorded(inside(n, p.grad)) for n, p in net.named_parameters()}
        optimizer.step()
    net.eval()
    x, labels = batch(1, dtype)
    logits = net(x).detach()
    return net, losses, gradients, logits, F.cross_entropy(logits, labels).item()


def residual_training():
    _, fp32_losses, *_ = train(torch.float32)
    net, losses, gradients, logits, val_loss = train(torch.float64)
    return {
        "batch": BATCH, "height": SIZE, "width": SIZE, "channels": CHANNELS, "classes": CLASSES, "steps": STEPS,
        "optimizer": {"kind": "nesterov", "learning_rate": SGD["lr"], "momentum": SGD["momentum"],
                      "weight_decay": WEIGHT_DECAY},
        "label_smoothing": SMOOTHING, "parameter_stream": PARAM_STREAM, "parameter_scale": PARAM_SCALE,
        "input_stream": INPUT_STREAM, "input_scale": 4.0,
        "parameters": [{"name": n, "shape": list(inside(n, p).shape)} for n, p in net.named_parameters()],
        "losses": losses, "losses_fp32": fp32_losses, "gradients": gradients,
        "final_parameters": {n: recorded(inside(n, p)) for n, p in net.named_parameters()},
        "final_running_stats": {n: recorded(b) for n, b in net.named_buffers() if "running" in n},
        "evaluation": {"logits": recorded(logits), "loss": val_loss},
    }


def mixed_training():
    net, losses, gradients, *_ = train(torch.float64, mixes=True)
    mixes = [mix_of(step) for step in range(1, STEPS + 1)]
    return {"mixes": [{"share": share, "box": box or [0, 0, 0, 0]} for share, box in mixes], "losses": losses,
            "gradients": gradients,
            "final_parameters": {n: recorded(inside(n, p)) for n, p in net.named_parameters()}}


def rates(make, lr, count, every=1):
    """Learning rate of steps 0 … count-1 under a scheduler that is stepped after every `every` steps."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    scheduler = make(optimizer)
    out = []
    for step in range(count):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (step + 1) % every == 0:
            scheduler.step()
    return out


def schedules():
    from torch.optim import lr_scheduler as S
    lr, per_epoch, epochs = 0.4, 5, 6
    total = per_epoch * epochs
    warmup_epochs, warmup_start, final = 2, 0.25, 0.01
    warm = warmup_epochs * per_epoch
    ramp = lambda t: warmup_start + (1 - warmup_start) * t / warm
    cosine = lambda p: final + (1 - final) * (1 + math.cos(math.pi * p)) / 2
    linear = lambda p: 1 + (final - 1) * p
    after = lambda f: lambda o: S.LambdaLR(o, lambda t: ramp(t) if t < warm else f((t - warm) / (total - warm)))
    base = {"learning_rate": lr, "steps_per_epoch": per_epoch, "epochs": epochs}
    warmed = {**base, "warmup_epochs": warmup_epochs, "warmup_start": warmup_start}
    return [
        {**base, "kind": "constant", "rates": rates(lambda o: S.ConstantLR(o, 1.0), lr, total)},
        {**base, "kind": "step", "step_epochs": 2, "gamma": 0.1,
         "rates": rates(lambda o: S.StepLR(o, 2, 0.1), lr, total, per_epoch)},
        {**base, "kind": "cosine", "final_fraction": 0.0,
         "rates": rates(lambda o: S.CosineAnnealingLR(o, total), lr, total)},
        {**base, "kind": "cosine", "final_fraction": final,
         "rates": rates(lambda o: S.CosineAnnealingLR(o, total, eta_min=lr * final), lr, total)},
        {**base, "kind": "linear", "final_fraction": final,
         "rates": rates(lambda o: S.LinearLR(o, 1.0, final, total), lr, total)},
        {**warmed, "kind": "constant", "rates": rates(lambda o: S.LinearLR(o, warmup_start, 1.0, warm), lr, total)},
        {**warmed, "kind": "cosine", "final_fraction": final, "rates": rates(after(cosine), lr, total)},
        {**warmed, "kind": "linear", "final_fraction": final, "rates": rates(after(linear), lr, total)},
    ] + more_schedules(base, lr, per_epoch, total)


def more_schedules(base, lr, per_epoch, total):
    """Every other scheduler, stepped after each step or, with interval epoch, after each epoch."""
    from torch.optim import lr_scheduler as S
    epochs, start, milestones = base["epochs"], 0.25, [1, 3, 4]
    chain = lambda warmup, main, at: lambda o: S.SequentialLR(o, [warmup(o), main(o)], [at])
    ramp = lambda n: lambda o: S.LinearLR(o, start, 1.0, n)
    flat = lambda n: lambda o: S.ConstantLR(o, start, n)
    warm, held = {**base, "warmup_epochs": 2, "warmup_start": start}, {**base, "interval": "epoch"}
    poly = lambda n, p: lambda o: S.PolynomialLR(o, n, p)
    cycle = lambda **more: lambda o: S.OneCycleLR(o, lr, total, cycle_momentum=False, **more)
    out = [
        {**base, "kind": "multi_step", "milestones": milestones, "gamma": 0.3,
         "rates": rates(lambda o: S.MultiStepLR(o, milestones, 0.3), lr, total, per_epoch)},
        {**held, "kind": "exponential", "gamma": 0.7,
         "rates": rates(lambda o: S.ExponentialLR(o, 0.7), lr, total, per_epoch)},
        {**base, "kind": "exponential", "gamma": 0.7,
         "rates": rates(lambda o: S.ExponentialLR(o, 0.7 ** (1 / per_epoch)), lr, total)},
        {**base, "kind": "polynomial", "power": 2.5, "rates": rates(poly(total, 2.5), lr, total)},
        {**held, "kind": "polynomial", "power": 0.5, "rates": rates(poly(epochs, 0.5), lr, total, per_epoch)},
        {**held, "kind": "cosine", "final_fraction": 0.1,
         "rates": rates(lambda o: S.CosineAnnealingLR(o, epochs, lr * 0.1), lr, total, per_epoch)},
        {**held, "kind": "linear", "final_fraction": 0.2,
         "rates": rates(lambda o: S.LinearLR(o, 1.0, 0.2, epochs), lr, total, per_epoch)},
        {**base, "kind": "one_cycle", "rates": rates(cycle(), lr, total)},
        {**base, "kind": "one_cycle", "pct_start": 0.45, "div_factor": 10.0, "final_div_factor": 100.0,
         "annealing": "linear",
         "rates": rates(cycle(pct_start=0.45, div_factor=10.0, final_div_factor=100.0, anneal_strategy="linear"),
                        lr, total)},
        {**base, "kind": "one_cycle", "pct_start": 0.0, "rates": rates(cycle(pct_start=0.0), lr, total)},
        {**warm, "kind": "polynomial", "power": 2.0,
         "rates": rates(chain(ramp(2 * per_epoch), poly(total - 2 * per_epoch, 2.0), 2 * per_epoch), lr, total)},
        {**warm, "kind": "cosine", "warmup": "constant", "final_fraction": 0.1,
         "rates": rates(chain(flat(2 * per_epoch), lambda o: S.CosineAnnealingLR(o, total - 2 * per_epoch, lr * 0.1),
                              2 * per_epoch), lr, total)},
        {**warm, **held, "kind": "exponential", "gamma": 0.5,
         "rates": rates(chain(ramp(2), lambda o: S.ExponentialLR(o, 0.5), 2), lr, total, per_epoch)},
        {**warm, **held, "kind": "multi_step", "warmup": "constant", "milestones": [4, 5], "gamma": 0.1,
         "rates": rates(chain(flat(2), lambda o: S.MultiStepLR(o, [2, 3], 0.1), 2), lr, total, per_epoch)},
    ]
    for first, factor in [(1, 1), (1, 2), (2, 1), (2, 3)]:
        restarts = lambda n: lambda o: S.CosineAnnealingWarmRestarts(o, n, factor, lr * 0.05)
        settings = {"kind": "cosine_restarts", "restart_epochs": first, "restart_mult": factor, "final_fraction": 0.05}
        out += [{**base, **settings, "rates": rates(restarts(first * per_epoch), lr, total)},
                {**held, **settings, "rates": rates(restarts(first), lr, total, per_epoch)}]
    return out


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    torch.use_deterministic_algorithms(True)
    for name, value in [("residual_training", residual_training()), ("mixed_training", mixed_training()),
                        ("schedules", schedules())]:
        lines = ([json.dumps(v) for v in value] if isinstance(value, list) else
                 [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()])
        opening, closing = "[]" if isinstance(value, list) else "{}"
        (folder / f"{name}.json").write_text(f"{opening}\n" + ",\n".join(lines) + f"\n{closing}\n")


if __name__ == "__main__":
    main()
