#!/usr/bin/env python3
"""Records interpolate.json: torch's bilinear interpolation of a small normalized image, NHWC."""
import json
import pathlib

import torch

HEIGHT, WIDTH, CHANNELS = 5, 7, 2
MEAN, STD = [0.25, 0.5], [0.5, 0.75]

torch.set_num_threads(1)
pixels = torch.randint(0, 256, (HEIGHT, WIDTH, CHANNELS), generator=torch.Generator().manual_seed(1))
normalized = (pixels.float() / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
cases = []
for size in [(10, 14), (8, 9), (3, 4), (5, 3), (1, 1), (16, 2)]:
    resized = torch.nn.functional.interpolate(
        normalized.permute(2, 0, 1)[None], size=size, mode="bilinear", align_corners=False
    )
    cases.append({"height": size[0], "width": size[1], "values": resized[0].permute(1, 2, 0).flatten().tolist()})
record = {
    "torch": torch.__version__.split("+")[0],
    "height": HEIGHT,
    "width": WIDTH,
    "channels": CHANNELS,
    "mean": MEAN,
    "std": STD,
    "pixels": pixels.flatten().tolist(),
    "cases": cases,
}
pathlib.Path(__file__).with_name("interpolate.json").write_text(json.dumps(record) + "\n")
