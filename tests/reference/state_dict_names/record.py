"""Records names and shapes of torchvision's state_dicts, one "name [d0,d1,...]" line per entry.

Usage: python record.py   (needs torch and torchvision; writes beside itself)
"""

from pathlib import Path

import torchvision

for name in ("resnet18", "resnet34", "resnet50", "resnet101", "vgg16_bn"):
    state = getattr(torchvision.models, name)(weights=None).state_dict()
    lines = [f"{key} [{','.join(map(str, value.shape))}]\n" for key, value in state.items()]
    (Path(__file__).parent / f"{name}.txt").write_text("".join(lines))
