"""Records what PyTorch computes for each operator, in float64 from FP32 inputs, into ops.json.

usage: python3 record_ops.py [ops.json]
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F

from fill import DY, PARAM, STATE, X, fill, recorded


def tensor(array):
    return torch.from_numpy(array).double().requires_grad_()


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def case_tensors(case):
    salt = case["salt"]
    return [tensor(fill(s, salt + X + i, case.get("x_scale", 1.0), case.get("x_shift", 0.0)))
            for i, s in enumerate(case["x"])]


def param(case, index, shape, shift=0.0):
    return tensor(fill(shape, case["salt"] + PARAM + index, 1.0, shift))


def differentiate(case, y, x, params):
    """Outputs of forward and backward; dy comes from its stream."""
    dy = torch.from_numpy(fill(tuple(y.shape), case["salt"] + DY)).double()
    needs = case.get("needs_dx", [True] * len(x))
    wanted = [v for v, need in zip(x, needs) if need] + params
    grads = list(torch.autograd.grad(y, wanted, dy)) if wanted else []
    out = {}
    for i, need in enumerate(needs):
        if need:
            out[f"dx{i}"] = recorded(grads.pop(0))
    for i in range(len(params)):
        out[f"dparam{i}"] = recorded(grads[i])
    return {"forward": {"y": recorded(y.detach())}, "backward": out}


def activate(case, y):
    return F.relu(y) if case["attrs"].get("activation") == "relu" else y


def conv(case):
    a, (x,) = case["attrs"], case_tensors(case)
    groups, k = a.get("groups", 1), a["kernel"]
    weight = param(case, 0, (a["out_channels"], k, k, x.shape[3] // groups))
    bias = param(case, 1, (1, 1, 1, a["out_channels"])) if a.get("bias", True) else None
    y = F.conv2d(nchw(x), nchw(weight), bias if bias is None else bias.reshape(-1), a.get("stride", 1),
                 a.get("padding", 0), a.get("dilation", 1), groups)
    return differentiate(case, activate(case, nhwc(y)), [x], [weight] + ([] if bias is None else [bias]))


def fc(case):
    a, (x,) = case["attrs"], case_tensors(case)
    flat = x.reshape(x.shape[0], -1)
    weight = param(case, 0, (a["out_features"], 1, 1, flat.shape[1]))
    bias = param(case, 1, (1, 1, 1, a["out_features"])) if a.get("bias", True) else None
    y = F.linear(flat, weight.reshape(a["out_features"], -1), bias if bias is None else bias.reshape(-1))
    y = activate(case, y.reshape(x.shape[0], 1, 1, -1))
    return differentiate(case, y, [x], [weight] + ([] if bias is None else [bias]))


def bn(case):
    a, x = case["attrs"], case_tensors(case)
    c = x[0].shape[3]
    weight, bias = param(case, 0, (1, 1, 1, c), 1.0), param(case, 1, (1, 1, 1, c))
    running = [torch.from_numpy(fill((c,), case["salt"] + STATE + i, 1.0, float(i))).double() for i in (0, 1)]

    def run(training, mean, var):
        y = nhwc(F.batch_norm(nchw(x[0]), mean, var, weight.reshape(-1), bias.reshape(-1), training,
                              a.get("momentum", 0.1), a.get("epsilon", 1e-5)))
        return activate(case, y + x[1] if a.get("residual") else y)

    inference = run(False, *running)
    following = [r.clone() for r in running]
    out = differentiate(case, run(True, *following), x, [weight, bias])
    for i, r in enumerate(following):
        out["forward"][f"next{i}"] = recorded(r.reshape(1, 1, 1, c))
    out["inference"] = {"y": recorded(inference.detach())}
    return out


def maxpool(case):
    a, (x,) = case["attrs"], case_tensors(case)
    y = F.max_pool2d(nchw(x), a["kernel"], a.get("stride") or a["kernel"], a.get("padding", 0),
                     ceil_mode=a.get("ceil", False))
    return differentiate(case, nhwc(y), [x], [])


def avgpool(case):
    a, (x,) = case["attrs"], case_tensors(case)
    y = F.avg_pool2d(nchw(x), a["kernel"], a.get("stride") or a["kernel"], a.get("padding", 0))
    return differentiate(case, nhwc(y), [x], [])


def gap(case):
    (x,) = case_tensors(case)
    return differentiate(case, x.mean((1, 2), keepdim=True), [x], [])


def relu(case):
    (x,) = case_tensors(case)
    return differentiate(case, F.relu(x), [x], [])


def leaky_relu(case):
    (x,) = case_tensors(case)
    return differentiate(case, F.leaky_relu(x, case["attrs"].get("negative_slope", 0.01)), [x], [])


def elementwise(case):
    (x,), attrs = case_tensors(case), case["attrs"]
    functions = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "silu": F.silu, "hardswish": F.hardswish,
                 "hardsigmoid": F.hardsigmoid, "relu6": F.relu6, "elu": F.elu, "gelu": F.gelu}
    return differentiate(case, functions[case["op"]](x, **attrs), [x], [])


def layer_norm(case):
    (x,) = case_tensors(case)
    c = x.shape[3]
    weight, bias = param(case, 0, (1, 1, 1, c), 1.0), param(case, 1, (1, 1, 1, c))
    y = F.layer_norm(x, (c,), weight.reshape(-1), bias.reshape(-1), case["attrs"].get("epsilon", 1e-6))
    return differentiate(case, y, [x], [weight, bias])


def layer_scale(case):
    (x,) = case_tensors(case)
    scale = param(case, 0, (1, 1, 1, x.shape[3]))
    return differentiate(case, x * scale, [x], [scale])


def add(case):
    x = case_tensors(case)
    return differentiate(case, x[0] + x[1], x, [])


def concat(case):
    x = case_tensors(case)
    return differentiate(case, torch.cat(x, 3), x, [])


def channel_scale(case):
    x = case_tensors(case)
    return differentiate(case, x[0] * x[1], x, [])


def adaptive_avgpool(case):
    (x,) = case_tensors(case)
    return differentiate(case, nhwc(F.adaptive_avg_pool2d(nchw(x), case["attrs"]["size"])), [x], [])


def unchanged(case):
    """identity, and dropout at inference."""
    (x,) = case_tensors(case)
    return {case["only"]: {"y": recorded(x.detach())}}


def softmax_cross_entropy(case):
    (x,) = case_tensors(case)
    n, classes = x.shape[0], x.shape[3]
    labels = torch.tensor(case.get("labels") or [(7 * i + case["salt"]) % classes for i in range(n)])
    logits = x.reshape(n, classes)
    counted = labels >= 0
    loss = F.cross_entropy(logits, labels, ignore_index=-1, label_smoothing=case.get("label_smoothing", 0.0))
    (dx,) = torch.autograd.grad(loss * case.get("loss_scale", 1.0), x)
    top = {}
    for k in (1, 5):
        hit = logits.topk(min(k, classes), 1).indices.eq(labels[:, None]).any(1)
        top[f"top{k}"] = recorded(hit[counted].double().mean().reshape(1, 1, 1, 1))
    plain = F.cross_entropy(logits, labels, ignore_index=-1)
    one = lambda v: recorded(v.detach().reshape(1, 1, 1, 1))
    return {
        "forward": {"dx0": recorded(dx), "loss": one(loss), **top},
        "inference": {"loss": one(plain), **top, "predicted": recorded(logits.argmax(1).reshape(n, 1, 1, 1))},
    }


def cases():
    def make(name, op, x, record, attrs=None, **more):
        return {"name": name, "op": op, "attrs": attrs or {}, "x": x, "salt": 1, **more}, record

    def c(name, x, out_channels, kernel, record=conv, **attrs):
        more = {k: attrs.pop(k) for k in ("reads_network_input", "needs_dx", "x_scale") if k in attrs}
        return make(f"conv_{name}", "conv", [x], record, {"out_channels": out_channels, "kernel": kernel, **attrs},
                    **more)

    yield c("3x3", [2, 8, 8, 16], 32, 3, padding=1, bias=False)
    yield c("3x3_bias", [2, 8, 8, 16], 16, 3, padding=1)
    yield c("3x3_stride2_odd", [3, 9, 7, 5], 7, 3, stride=2, padding=1)
    yield c("3x3_stride2_no_bias", [2, 8, 8, 16], 32, 3, stride=2, padding=1, bias=False)
    yield c("3x3_valid", [2, 6, 5, 3], 4, 3)
    yield c("1x1_odd", [2, 7, 5, 3], 5, 1)
    yield c("1x1_wide", [2, 5, 5, 128], 32, 1, bias=False)
    yield c("1x1_stride2", [2, 8, 8, 16], 32, 1, stride=2, bias=False)
    yield c("1x1_stride2_few_channels", [6, 8, 8, 4], 8, 1, stride=2, bias=False)
    yield c("1x1_stride3_over_kernel", [1, 10, 10, 4], 6, 1, stride=3)
    yield c("2x2_stride3_over_kernel", [2, 9, 8, 5], 3, 2, stride=3)
    yield c("3x3_wide", [1, 6, 6, 64], 64, 3, padding=1, bias=False)
    yield c("5x5_padding2", [1, 9, 9, 3], 8, 5, padding=2)
    yield c("7x7_stem", [2, 21, 21, 3], 16, 7, stride=2, padding=3, bias=False, reads_network_input=True)
    yield c("7x7_stem_without_dx", [2, 21, 21, 3], 16, 7, stride=2, padding=3, bias=False,
            reads_network_input=True, needs_dx=[False])
    yield c("one_channel_input", [4, 12, 12, 1], 8, 3, padding=1, bias=False, reads_network_input=True,
            needs_dx=[False])
    yield c("one_channel_input_with_dx", [4, 12, 12, 1], 8, 3, padding=1)
    yield c("one_channel_output", [2, 6, 6, 5], 1, 3, padding=1)
    yield c("one_by_one_map", [4, 1, 1, 8], 6, 1)
    yield c("one_by_one_map_padded", [4, 1, 1, 8], 6, 3, padding=1)
    yield c("kernel_covers_map", [2, 3, 3, 5], 4, 3)
    yield c("one_pixel_one_sample", [1, 1, 1, 1], 1, 1)
    yield c("dilation2", [1, 11, 11, 3], 4, 3, padding=2, dilation=2)
    yield c("dilation2_stride2", [2, 13, 9, 5], 6, 3, stride=2, padding=1, dilation=2)
    yield c("dilation3_no_padding", [1, 10, 10, 8], 8, 3, dilation=3, bias=False)
    yield c("groups2", [2, 6, 6, 8], 12, 3, padding=1, groups=2, bias=False)
    yield c("groups4_bias", [2, 6, 6, 8], 8, 3, padding=1, groups=4)
    yield c("groups_wide", [1, 5, 5, 32], 64, 3, padding=1, groups=4, bias=False)
    yield c("groups_1x1", [2, 4, 4, 12], 6, 1, groups=3)
    yield c("depthwise", [2, 7, 7, 8], 8, 3, padding=1, groups=8, bias=False)
    yield c("depthwise_stride2_bias", [2, 9, 9, 16], 16, 3, stride=2, padding=1, groups=16)
    yield c("depthwise_multiplier2", [2, 6, 6, 4], 8, 3, padding=1, groups=4)
    yield c("depthwise_odd_channels", [1, 6, 6, 3], 3, 5, padding=2, groups=3)
    yield c("depthwise_dilated", [1, 9, 9, 8], 8, 3, padding=2, dilation=2, groups=8, bias=False)
    yield c("depthwise_5x5_stride2", [2, 11, 9, 12], 12, 5, stride=2, padding=2, groups=12, bias=False)
    yield c("depthwise_7x7", [1, 9, 9, 16], 16, 7, padding=3, groups=16)
    yield c("depthwise_stride2_without_dx", [2, 8, 8, 8], 8, 3, stride=2, padding=1, groups=8, bias=False,
            needs_dx=[False])
    yield c("depthwise_dilated_stride2", [1, 11, 11, 8], 8, 3, stride=2, padding=2, dilation=2, groups=8)
    yield c("depthwise_one_pixel", [1, 1, 1, 24], 24, 3, padding=1, groups=24, bias=False)
    yield c("groups_stride2_dilated", [2, 9, 9, 16], 24, 3, stride=2, padding=2, dilation=2, groups=8)
    yield c("relu", [2, 8, 8, 16], 16, 3, padding=1, activation="relu")
    yield c("relu_no_bias", [2, 6, 7, 3], 5, 3, padding=1, bias=False, activation="relu")
    yield c("relu_without_dx", [2, 8, 8, 1], 8, 3, padding=1, activation="relu", reads_network_input=True,
            needs_dx=[False])
    yield c("relu_depthwise", [1, 6, 6, 8], 8, 3, padding=1, groups=8, activation="relu")
    yield c("relu_1x1_stride2", [2, 7, 7, 8], 16, 1, stride=2, activation="relu")

    def f(name, x, out_features, **attrs):
        more = {k: attrs.pop(k) for k in ("needs_dx", "flatten_x") if k in attrs}
        return make(f"fc_{name}", "fc", [x], fc, {"out_features": out_features, **attrs}, **more)

    yield f("small", [5, 1, 1, 7], 3)
    yield f("no_bias", [4, 1, 1, 16], 8, bias=False)
    yield f("one_sample", [1, 1, 1, 9], 4)
    yield f("one_output", [6, 1, 1, 5], 1)
    yield f("one_input", [3, 1, 1, 1], 2)
    yield f("wide", [8, 1, 1, 784], 64)
    yield f("after_map", [3, 4, 5, 2], 6, flatten_x=True)
    yield f("after_map_relu", [4, 7, 7, 16], 32, flatten_x=True, activation="relu")
    yield f("relu", [5, 1, 1, 12], 16, activation="relu")
    yield f("relu_without_dx", [6, 1, 1, 20], 8, activation="relu", needs_dx=[False])

    def b(name, x, needs_dx=None, x_scale=1.0, x_shift=0.0, **attrs):
        more = {} if needs_dx is None else {"needs_dx": needs_dx}
        return make(f"bn_{name}", "bn", [x] * (2 if attrs.get("residual") else 1), bn, attrs,
                    x_scale=x_scale, x_shift=x_shift, **more)

    yield b("plain", [4, 5, 3, 6])
    yield b("one_channel", [3, 6, 6, 1])
    yield b("three_channels", [2, 5, 5, 3])
    yield b("sixteen_channels", [2, 8, 8, 16])
    yield b("seventeen_channels", [3, 4, 4, 17])
    yield b("wide", [2, 3, 3, 136])
    yield b("one_sample", [1, 4, 3, 5])
    yield b("one_by_one_map", [6, 1, 1, 8])
    yield b("two_values", [2, 1, 1, 4], epsilon=1e-2)
    yield b("many_values", [8, 20, 20, 3])
    yield b("momentum_epsilon", [4, 4, 4, 8], momentum=0.3, epsilon=1e-3)
    yield b("momentum_one", [2, 4, 4, 4], momentum=1.0)
    yield b("scaled_inputs", [4, 6, 6, 8], x_scale=64.0)
    yield b("large_mean", [4, 6, 6, 8], x_shift=64.0)
    yield b("without_dx", [4, 4, 4, 8], needs_dx=[False])
    yield b("relu", [2, 6, 6, 16], activation="relu")
    yield b("relu_odd", [3, 5, 3, 5], activation="relu")
    yield b("residual", [2, 6, 6, 8], residual=True)
    yield b("residual_relu", [2, 6, 6, 16], residual=True, activation="relu")
    yield b("residual_relu_odd", [3, 3, 5, 5], residual=True, activation="relu")
    yield b("residual_relu_first_dx", [2, 4, 4, 8], residual=True, activation="relu", needs_dx=[True, False])
    yield b("residual_relu_second_dx", [2, 4, 4, 8], residual=True, activation="relu", needs_dx=[False, True])

    pools = [("2x2", [2, 8, 8, 16], dict(kernel=2, stride=2)),
             ("default_stride", [2, 9, 9, 4], dict(kernel=3)),
             ("3x3_stride2_padding1", [2, 9, 9, 8], dict(kernel=3, stride=2, padding=1)),
             ("3x3_stride1_padding1", [1, 6, 5, 3], dict(kernel=3, stride=1, padding=1)),
             ("odd", [2, 7, 5, 3], dict(kernel=2, stride=2)),
             ("stride3_over_kernel", [2, 10, 9, 5], dict(kernel=2, stride=3)),
             ("one_channel", [3, 6, 6, 1], dict(kernel=2, stride=2)),
             ("one_by_one_map", [3, 1, 1, 4], dict(kernel=1, stride=1)),
             ("whole_map", [2, 7, 7, 6], dict(kernel=7, stride=1)),
             ("5x5_padding2", [1, 9, 7, 17], dict(kernel=5, stride=2, padding=2))]
    for name, x, attrs in pools:
        yield make(f"maxpool_{name}", "maxpool", [x], maxpool, attrs)
        yield make(f"avgpool_{name}", "avgpool", [x], avgpool, attrs)

    for name, x, attrs in [("ceil", [2, 6, 8, 8], dict(kernel=3, stride=2, ceil=True)),
                           ("ceil_in_padding", [1, 5, 4, 3], dict(kernel=2, stride=3, padding=1, ceil=True)),
                           ("ceil_2x2", [2, 7, 5, 16], dict(kernel=2, stride=2, ceil=True)),
                           ("ceil_stride1", [1, 5, 5, 8], dict(kernel=3, stride=1, padding=1, ceil=True))]:
        yield make(f"maxpool_{name}", "maxpool", [x], maxpool, attrs)
    for name, x, size in [("smaller", [2, 10, 7, 5], 4), ("larger", [2, 2, 3, 8], 7), ("same", [1, 7, 7, 3], 7),
                          ("one", [2, 5, 4, 16], 1)]:
        yield make(f"adaptive_avgpool_{name}", "adaptive_avgpool", [x], adaptive_avgpool, {"size": size})

    for name, x in [("7x7", [2, 7, 7, 5]), ("one_by_one_map", [3, 1, 1, 4]), ("one_channel", [4, 5, 3, 1]),
                    ("wide", [2, 4, 4, 64])]:
        yield make(f"gap_{name}", "gap", [x], gap)
    for name, x in [("map", [2, 5, 5, 3]), ("one_element", [1, 1, 1, 1]), ("vector", [4, 1, 1, 33])]:
        yield make(f"relu_{name}", "relu", [x], relu)
        yield make(f"add_{name}", "add", [x, x], add)
    for name, x, attrs in [("map", [2, 5, 5, 3], {}), ("vector", [4, 1, 1, 33], {"negative_slope": 0.2}),
                           ("negative_slope", [1, 3, 2, 7], {"negative_slope": -0.5})]:
        yield make(f"leaky_relu_{name}", "leaky_relu", [x], leaky_relu, attrs)
    for op, attrs in [("sigmoid", {}), ("tanh", {}), ("silu", {}), ("hardswish", {}), ("hardsigmoid", {}),
                      ("relu6", {}), ("elu", {}), ("elu", {"alpha": 0.3}), ("elu", {"alpha": -0.7}), ("gelu", {}),
                      ("gelu", {"approximate": "tanh"})]:
        name = "_".join([op] + [str(v).replace(".", "").replace("-", "minus") for v in attrs.values()])
        yield make(f"{name}_map", op, [[2, 5, 5, 7]], elementwise, attrs, x_scale=16.0)
        yield make(f"{name}_vector", op, [[1, 1, 1, 33]], elementwise, attrs, x_scale=4.0)
    for name, x, attrs in [("map", [2, 5, 5, 7], {}), ("vector", [4, 1, 1, 33], {"epsilon": 1e-2}),
                           ("wide", [1, 3, 3, 192], {}), ("one_pixel", [1, 1, 1, 8], {}),
                           ("many_pixels", [3, 17, 13, 24], {})]:
        yield make(f"layer_norm_{name}", "layer_norm", [x], layer_norm, attrs)
    yield make("layer_norm_without_dx", "layer_norm", [[2, 3, 3, 16]], layer_norm, needs_dx=[False])
    for name, x in [("map", [2, 5, 5, 7]), ("vector", [4, 1, 1, 33]), ("one_element", [1, 1, 1, 1]),
                    ("many_pixels", [3, 17, 13, 24])]:
        yield make(f"layer_scale_{name}", "layer_scale", [x], layer_scale)
    yield make("layer_scale_without_dx", "layer_scale", [[2, 3, 3, 16]], layer_scale, needs_dx=[False])
    for name, channels, map_ in [("two", [8, 16], [2, 5, 4]), ("odd", [3, 1, 7], [2, 3, 3]), ("one", [5], [1, 2, 2]),
                                 ("vectors", [12, 20], [4, 1, 1]), ("four", [64, 128, 32, 32], [1, 3, 2])]:
        yield make(f"concat_{name}", "concat", [[*map_, c] for c in channels], concat)
    yield make("concat_without_first_dx", "concat", [[2, 3, 3, 4], [2, 3, 3, 4]], concat, needs_dx=[False, True])
    for name, x in [("map", [2, 5, 5, 8]), ("odd", [3, 4, 3, 7]), ("one_element", [1, 1, 1, 1]),
                    ("wide", [2, 9, 9, 136])]:
        yield make(f"channel_scale_{name}", "channel_scale", [x, [x[0], 1, 1, x[3]]], channel_scale)
    for name, needs in [("first", [True, False]), ("second", [False, True])]:
        yield make(f"channel_scale_{name}_dx", "channel_scale", [[2, 3, 3, 5], [2, 1, 1, 5]], channel_scale,
                   needs_dx=needs)
    yield make("identity", "identity", [[2, 3, 5, 7]], unchanged, only="forward")
    yield make("dropout_inference", "dropout", [[2, 3, 5, 7]], unchanged, {"probability": 0.5}, only="inference")
    yield make("stochastic_depth_inference", "stochastic_depth", [[2, 3, 5, 7]], unchanged, {"probability": 0.5},
               only="inference")

    def s(name, n, classes, x_scale=4.0, **more):
        return make(f"softmax_cross_entropy_{name}", "softmax_cross_entropy", [[n, 1, 1, classes]],
                    softmax_cross_entropy, x_scale=x_scale, **more)

    yield s("plain", 8, 10)
    yield s("smoothing", 8, 10, label_smoothing=0.1)
    yield s("one_sample", 1, 10, label_smoothing=0.1)
    yield s("three_classes", 6, 3, label_smoothing=0.1)
    yield s("five_classes", 6, 5)
    yield s("one_class", 3, 1)
    yield s("thousand_classes", 4, 1000, label_smoothing=0.1)
    yield s("many_samples", 300, 10)
    yield s("padding", 6, 10, labels=[3, -1, 0, 9, -1, -1])
    yield s("padding_smoothing", 5, 7, labels=[-1, 6, 2, -1, 0], label_smoothing=0.1)
    yield s("loss_scale", 8, 10, label_smoothing=0.1, loss_scale=1024.0)
    yield s("large_logits", 8, 10, x_scale=400.0, label_smoothing=0.1)


def main():
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("ops.json"))
    lines = [json.dumps({**case, "outputs": record(case)}) for case, record in cases()]
    target.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{target}: {len(lines)} cases, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
