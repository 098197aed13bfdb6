"""Weights go between the program and torchvision both ways, with strict=True.

usage: python3 check_strict.py PROGRAM [model …]   one network of each family without names; "all": every one
A training of no epochs writes weights that torchvision must load; what torchvision saves must come back from the
program unchanged. Ends with 77 where torch, torchvision or safetensors are not installed.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file, save_file

    from record import SIZES, build
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

FAMILIES = ["resnet18", "resnext50_32x4d", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "densenet121",
            "squeezenet1_1", "googlenet", "convnext_tiny"]

RECIPE = """name: strict
data: {{source: synthetic, train_samples: 4, val_samples: 2, height: {size}, width: {size}, channels: 3, classes: 1000}}
model: {model}
train: {{epochs: 0, batch_size: 4}}
"""


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr or done.stdout}")


def check(program, model, folder):
    recipe, out = folder / f"{model}.yaml", folder / "run"
    recipe.write_text(RECIPE.format(model=model, size=SIZES[model]))
    run(program, "train", recipe, "--run-dir", out, "--overwrite", "--quiet")
    net = build(model)
    net.load_state_dict(load_file(out / "weights.safetensors"), strict=True)

    theirs, back = folder / "theirs.safetensors", folder / "back.safetensors"
    state = {name: value.contiguous() for name, value in build(model).state_dict().items()}
    save_file(state, theirs)
    run(program, "export", recipe, "--weights", theirs, "--out", back)
    returned = load_file(back)
    if set(returned) != set(state):
        sys.exit(f"{model}: other names: {sorted(set(returned) ^ set(state))[:8]}")
    for name, value in state.items():
        if not torch.equal(value, returned[name]):
            sys.exit(f"{model}: {name} came back changed")
    print(f"{model}: {len(state)} tensors, {sum(v.numel() for v in net.parameters())} parameters")


def main():
    program, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or FAMILIES
    for model in SIZES if names == ["all"] else names:
        with tempfile.TemporaryDirectory() as folder:
            check(program, model, pathlib.Path(folder))


if __name__ == "__main__":
    main()
