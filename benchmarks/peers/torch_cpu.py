"""PyTorch's training step on the CPU: the peer of this library's CPU backend.

Synthetic 28 x 28 x 1 data, FP32, label smoothing 0.1. One JSON line per (model, layout, mode) with the step time
in milliseconds (median, fastest, slowest) and images per second.

usage: python3 torch_cpu.py [--models mlp cnn resnet20] [--seconds 8] [--threads 2]
                            [--layouts default channels_last] [--modes eager compile]
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES, SMOOTHING = 10, 0.1


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(),
                         nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, CLASSES))


def conv_bn_relu(cin, cout):
    return [nn.Conv2d(cin, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]


def cnn():
    return nn.Sequential(*conv_bn_relu(1, 32), *conv_bn_relu(32, 32), nn.MaxPool2d(2), *conv_bn_relu(32, 64),
                         *conv_bn_relu(64, 64), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(),
                         nn.Linear(128, CLASSES))


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                                  nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout))
        self.downsample = nn.Identity()
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        return F.relu(self.body(x) + self.downsample(x))


def resnet20():
    blocks, cin = [], 16
    for width, stride in [(16, 1), (32, 2), (64, 2)]:
        for i in range(3):
            blocks.append(Block(cin, width, stride if i == 0 else 1))
            cin = width
    return nn.Sequential(*conv_bn_relu(1, 16), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-4)


# model: (network, batch, optimizer)
MODELS = {"mlp": (mlp, 200, adamw), "cnn": (cnn, 128, sgd), "resnet20": (resnet20, 128, sgd)}


def measure(name, layout, mode, seconds):
    make, batch, make_optimizer = MODELS[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    net = make().train()
    x = torch.randn(batch, 1, 28, 28)
    if layout == "channels_last":
        net, x = (v.to(memory_format=torch.channels_last) for v in (net, x))
    labels = torch.randint(0, CLASSES, (batch,))
    optimizer = make_optimizer(net.parameters())

    def loss_of(images, targets):
        return F.cross_entropy(net(images), targets, label_smoothing=SMOOTHING)

    forward = torch.compile(loss_of) if mode == "compile" else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward(x, labels).backward()
        optimizer.step()

    started = time.perf_counter()
    step()
    first_step = time.perf_counter() - started
    for _ in range(4):
        step()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        started = time.perf_counter()
        step()
        times.append((time.perf_counter() - started) * 1e3)
    median = statistics.median(times)
    return {"batch": batch, "median_ms": round(median, 3), "min_ms": round(min(times), 3),
            "max_ms": round(max(times), 3), "img_per_s": round(batch / median * 1e3, 1), "steps": len(times),
            "first_step_s": round(first_step, 2)}


def main():
    parser = argparse.ArgumentParser(description="Training step time of PyTorch on the CPU; one JSON line each.")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--layouts", nargs="+", choices=["default", "channels_last"],
                        default=["default", "channels_last"])
    parser.add_argument("--modes", nargs="+", choices=["eager", "compile"], default=["eager", "compile"])
    parser.add_argument("--seconds", type=float, default=8.0, help="measured per line, after warm-up")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.models:
        # A network without feature maps has one layout.
        for layout in options.layouts if name != "mlp" else options.layouts[:1]:
            for mode in options.modes:
                line = {"peer": "torch", "version": torch.__version__, "threads": options.threads, "model": name,
                        "layout": layout, "mode": mode}
                try:
                    line.update(measure(name, layout, mode, options.seconds))
                except Exception as error:  # a mode that this machine lacks, such as a compiler for compile
                    line["error"] = f"{type(error).__name__}: {error}"[:300]
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
