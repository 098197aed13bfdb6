#!/usr/bin/env python3
"""Exports networks to ONNX and compares onnxruntime's logits with the program's: within 1e-4 of the largest.

usage: onnx_test.py PROGRAM [MODEL ...]    exits with 77 where onnxruntime and NumPy are not installed
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    import numpy as np
    import onnxruntime
except ImportError:
    sys.exit(77)

TOLERANCE = 1e-4
MEAN, STD = [0.45, 0.5, 0.4], [0.25, 0.2, 0.3]
# Where nothing is said, 64 x 64.
SIZES = {"mlp": 28, "cnn": 28, "resnet20": 32, "googlenet": 80}
MODELS = ["cnn", "resnet20", "resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_0", "densenet121",
          "efficientnet_b0", "googlenet", "convnext_tiny"]

# Every operator that the networks above may not have, and layers behind a flattened map.
LAYERS = """
  layers:
    - conv: {out_channels: 6, kernel: 3, padding: 2, dilation: 2, stride: 2}
    - bn: {epsilon: 1e-3}
    - leaky_relu: 0.2
    - conv: {out_channels: 12, kernel: 5, padding: 2, groups: 6, bias: false}
    - layer_norm
    - gelu
    - residual: {layers: [{conv: [12, 1]}, {gelu: tanh}, layer_scale, {stochastic_depth: 0.2}]}
    - elu: 0.7
    - maxpool: {kernel: 3, stride: 2, ceil: true}
    - hardswish
    - avgpool: {kernel: 3, stride: 1, padding: 1}
    - silu
    - adaptive_avgpool: 3
    - tanh
    - flatten
    - hardsigmoid
    - dropout: 0.3
    - fc: 20
    - bn
    - relu6
    - sigmoid
    - identity
    - fc: 10
"""


def run(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def write_png(path, pixels):
    height, width, channels = pixels.shape
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def recipe(name, model, channels, size):
    mean, std = (MEAN, STD) if channels == 3 else (MEAN[:1], STD[:1])
    return f"""
name: {name}
data: {{source: synthetic, classes: 10, train_samples: 8, val_samples: 2, channels: {channels}, height: {size}, width: {size},
       mean: {mean}, std: {std}}}
optimizer: {{kind: sgd, learning_rate: 0.001}}
train: {{epochs: 1, batch_size: 4}}
model:{model}
"""


def largest_error(program, folder, name, text, channels, size):
    """Of the network as it is and with batch norm folded, relative to the largest logit."""
    (folder / "recipe.yaml").write_text(text)
    run(program, "train", folder / "recipe.yaml", "--quiet", "--overwrite", "--run-dir", folder / "run")
    weights = folder / "run" / "weights.safetensors"
    random = np.random.default_rng(1)
    images = [random.integers(0, 256, (size, size, channels), dtype=np.uint8) for _ in range(3)]
    files = [folder / f"{i}.png" for i in range(len(images))]
    for file, image in zip(files, images):
        write_png(file, image)
    lines = run(program, "predict", folder / "recipe.yaml", "--weights", weights, "--json", "--logits", *files)
    want = np.array([json.loads(line)["logits"] for line in lines.splitlines()])
    mean, std = np.float32(MEAN[:channels]), np.float32(STD[:channels])
    batch = np.stack([(image / np.float32(255) - mean) / std for image in images]).astype(np.float32).transpose(0, 3, 1, 2)
    errors = []
    for options in [], ["--fold-bn"]:
        run(program, "export", folder / "recipe.yaml", "--weights", weights, "--onnx", folder / "net.onnx", *options)
        try:
            import onnx
            onnx.checker.check_model(str(folder / "net.onnx"), full_check=True)
        except ImportError:
            pass
        session = onnxruntime.InferenceSession(str(folder / "net.onnx"), providers=["CPUExecutionProvider"])
        got = session.run(["logits"], {"input": batch})[0]
        assert got.shape == want.shape, (name, got.shape, want.shape)
        errors.append(float(np.abs(got - want).max() / np.abs(want).max()))
    return errors


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    known = {model["name"]: model for model in json.loads(run(program, "models", "--json"))}
    wanted = sys.argv[2:] or [name for name in MODELS if name in known] + ["layers"]
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in wanted:
            if model == "layers":
                text, channels, size = recipe(model, LAYERS, 3, 26), 3, 26
            else:
                channels, size = known[model]["channels"], SIZES.get(model, 64)
                text = recipe(model, " " + model, channels, size)
            plain, folded = largest_error(program, folder, model, text, channels, size)
            good = max(plain, folded) <= TOLERANCE
            failed = failed or not good
            print(f"{model:20} {plain:.2e}  folded {folded:.2e}{'' if good else '  TOO LARGE'}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
