#!/usr/bin/env python3
"""One PyTorch training step on a GPU, synthetic data on the device: median step time by CUDA events, peak memory.

usage: torch_gpu.py MODEL:BATCH:DTYPE:MODE   prints one JSON object
  MODEL resnet50, resnet18, vgg16_bn, mlp   DTYPE fp16, bf16, fp32
  MODE  eager, compile (torch.compile), graph (whole step as a CUDA graph), compile_graph (both; not fp16)
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
import torchvision.models
from torch import nn

WARM_UP_STEPS, SECONDS = 8, 3.0


def make_network(name):
    if name == "mlp":
        sizes = [784, 1024, 512, 256, 10]
        layers = [nn.Flatten()]
        for inputs, outputs in zip(sizes, sizes[1:]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1]), (1, 28, 28), 10
    return getattr(torchvision.models, name)(), (3, 224, 224), 1000


def make_step(network, optimizer, images, labels, dtype, compiled, scaler):
    amp = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(dtype)

    def loss_of(x, y):
        with torch.autocast("cuda", dtype=amp, enabled=amp is not None):
            return F.cross_entropy(network(x).float(), y, label_smoothing=0.1)

    if compiled:
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(images, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def capture(step, optimizer):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP_STEPS):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main(case):
    name, batch, dtype, mode = case.split(":")
    batch = int(batch)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(0)
    network, size, classes = make_network(name)
    network = network.cuda().train()
    images = torch.randn(batch, *size, device="cuda")
    if size[0] == 3:
        network = network.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,), device="cuda")
    if name == "mlp":
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-4, fused=True, capturable=True)
    else:
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True,
                                    fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == "fp16")
    step = make_step(network, optimizer, images, labels, dtype, mode.startswith("compile"), scaler)
    start = time.time()
    if mode.endswith("graph"):
        step = capture(step, optimizer)
    for _ in range(WARM_UP_STEPS):
        step()
    torch.cuda.synchronize()
    prepare_s = time.time() - start

    group = 50 if name == "mlp" else 10
    times, end = [], time.time() + SECONDS
    while len(times) < 5 or time.time() < end:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(group):
            step()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) / group)
    times.sort()
    step_ms = times[len(times) // 2]
    print(json.dumps({"case": case, "torch": torch.__version__, "step_ms": step_ms, "step_ms_min": times[0],
                      "step_ms_max": times[-1], "images_per_s": batch / step_ms * 1e3, "prepare_s": prepare_s,
                      "reserved_bytes": torch.cuda.max_memory_reserved(),
                      "allocated_bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
