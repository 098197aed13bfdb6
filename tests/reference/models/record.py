"""Records what torchvision's networks compute, in float64, into <model>.json beside this script.

usage: python3 record.py [model …]   all of them without arguments
The format is in ../README.md.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from fill import fill, recorded

# Images small enough for a quick test, large enough that no batch norm sees fewer than 16 values.
SIZES = {
    "resnet18": 64, "resnet34": 64, "resnet50": 64, "resnet101": 64, "resnet152": 64,
    "resnext50_32x4d": 64, "wide_resnet50_2": 64,
    "vgg11": 32, "vgg13": 32, "vgg16": 32, "vgg19": 32,
    "vgg11_bn": 32, "vgg13_bn": 32, "vgg16_bn": 32, "vgg19_bn": 32,
    "mobilenet_v2": 64, "mobilenet_v3_small": 64, "mobilenet_v3_large": 64, "efficientnet_b0": 64,
    "densenet121": 64, "squeezenet1_0": 65, "squeezenet1_1": 65, "googlenet": 70, "convnext_tiny": 64,
}
BATCH, CLASSES, INPUT_SCALE = 4, 1000, 4.0
PARAM_STREAM = 1000
INPUT_STREAM = {"resnet34": 2}  # 1 elsewhere; that one has a ReLU within rounding of zero
PROJECTION_STREAMS = (11, 12, 13)
MOST_SAMPLES = 1 << 18


def number(value):
    return float(f"{value:.7g}")


def build(name):
    options = {"googlenet": dict(aux_logits=False, init_weights=False, transform_input=False)}.get(name, {})
    return torchvision.models.get_model(name, weights=None, **options)


def first_values(name, value, norm_bias):
    """(scale, shift, gap) of scale * u + shift, gap further from zero, for u uniform in [-0.5, 0.5). Weights have
    variance 2 / fan_in. What batch norm puts out lies some deviations from zero: a ReLU that rounding turns on or
    off would change gradients by more than the test allows. `norm_bias` is None where there is no batch norm."""
    if name.endswith("layer_scale"):
        return 0.5, 0.5, 0.0
    if value.dim() > 1:
        return number(math.sqrt(24.0 / (value.numel() / value.shape[0]))), 0.0, 0.0
    if name.endswith("weight"):
        return (0.5, 1.0, 0.0) if norm_bias is None else (0.25, 0.5, 0.0)
    return norm_bias or (0.2, 0.0, 0.0)


# On either side; but a channel that is always off has no variance for the batch norm behind a depthwise kernel.
NORM_BIAS = {"mobilenet_v2": (1.25, 1.25, 0.0)}
OTHER_NORM_BIAS = (0.2, 0.0, 1.25)


def fill_model(net, norm_bias):
    batch_norms = {name for name, _ in norms(net)}
    entries = []
    with torch.no_grad():
        for p, (name, value) in enumerate(net.named_parameters()):
            scale, shift, gap = first_values(name, value, norm_bias if name.rpartition(".")[0] in batch_norms else None)
            values = fill(tuple(value.shape), PARAM_STREAM + p, scale, shift)
            if gap:
                values = (values.astype(np.float64) + np.where(values < 0, -gap, gap)).astype(np.float32)
            value.copy_(torch.from_numpy(values))
            entries.append([name, list(value.shape), scale, shift, gap])
    return entries


def norms(net):
    return [(name, module) for name, module in net.named_modules() if isinstance(module, nn.BatchNorm2d)]


def projections(array):
    """The norm and sums weighted by streams, of at most 2^20 evenly spaced elements."""
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    step = max(1, -(-flat.size // MOST_SAMPLES))
    flat = flat[::step]
    return [number(np.sqrt((flat * flat).sum()))] + [
        number((flat * fill(flat.shape, stream).astype(np.float64)).sum()) for stream in PROJECTION_STREAMS]


def record(name):
    size, stream = SIZES[name], INPUT_STREAM.get(name, 1)
    net = build(name).double()
    parameters = fill_model(net, NORM_BIAS.get(name, OTHER_NORM_BIAS))
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, torchvision.ops.StochasticDepth):
            module.p = 0.0
    x = torch.from_numpy(fill((BATCH, size, size, 3), stream, INPUT_SCALE)).double().permute(0, 3, 1, 2).contiguous()
    labels = torch.tensor([(37 * i + 11) % CLASSES for i in range(BATCH)])
    for _, module in norms(net):
        module.running_mean.zero_()
        module.running_var.zero_()
    net.train()
    loss = F.cross_entropy(net(x), labels)
    loss.backward()
    gradients = {n: p.grad for n, p in net.named_parameters()}
    statistics = []
    for n, module in norms(net):
        statistics.append([n, module.num_features, module.momentum] + projections(module.running_mean)
                          + projections(module.running_var))
        module.running_mean /= module.momentum  # the batch's own
        module.running_var /= module.momentum
    net.eval()
    with torch.no_grad():
        logits = net(x)
    spread = ((logits - logits.mean(0)).abs().max() / logits.abs().max()).item()
    largest = max(g.norm().item() for g in gradients.values())
    print(f"{name:20} logits {logits.abs().max().item():9.3g} vary {spread:5.2f} loss {loss.item():6.3f} "
          f"gradients to {largest:.3g}")
    head = {"model": name, "batch": BATCH, "size": size, "classes": CLASSES, "input_stream": stream,
            "input_scale": INPUT_SCALE, "parameter_stream": PARAM_STREAM,
            "projection_streams": PROJECTION_STREAMS, "most_samples": MOST_SAMPLES,
            "logits": recorded(logits.numpy()), "loss": number(loss.item())}
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    for key, entries in [("parameters", [e + projections(gradients[e[0]]) for e in parameters]),
                         ("statistics", statistics)]:
        lines.append(f'"{key}": [\n' + ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries) + "\n]")
    (pathlib.Path(__file__).parent / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    for name in sys.argv[1:] or SIZES:
        record(name)


if __name__ == "__main__":
    main()
