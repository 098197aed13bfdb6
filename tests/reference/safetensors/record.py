#!/usr/bin/env python3
"""Records python.safetensors with the safetensors package: several dtypes, a scalar, an empty tensor, metadata."""
import pathlib

import torch
from safetensors.torch import save_file

tensors = {
    "conv.weight": torch.arange(24, dtype=torch.float32).reshape(2, 3, 2, 2) / 4 - 3,
    "bn.num_batches_tracked": torch.tensor(7, dtype=torch.int64),
    "half": torch.tensor([1.5, -2.0, 65504.0], dtype=torch.float16),
    "brain": torch.tensor([[1.0, -0.5]], dtype=torch.bfloat16),
    "empty": torch.zeros(0, 3),
    "mask": torch.tensor([True, False, True]),
    "ünï \"quoted\"": torch.tensor([1, -1], dtype=torch.int8),
}
save_file(tensors, pathlib.Path(__file__).with_name("python.safetensors"), metadata={"format": "pt", "note": "größer"})
