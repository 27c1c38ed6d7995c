"""Tensors of PyTorch as NumPy arrays and back."""

from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]  # Any: tensors have every element type


def to_numpy(tensor: Tensor) -> Array:
    """Return the elements; bfloat16 keeps its format."""
    dense = tensor.detach().cpu().contiguous()
    if dense.dtype is torch.bfloat16:
        return dense.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return dense.numpy()


def to_torch(array: Array, like: Tensor) -> Tensor:
    """Return a tensor with the format, device and strides of ``like``, which may be fake."""
    if array.dtype == ml_dtypes.bfloat16:
        plain = torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    else:
        plain = torch.from_numpy(np.ascontiguousarray(array))
    placed = torch.empty_strided(
        tuple(like.shape), like.stride(), dtype=like.dtype, device=like.device
    )
    return placed.copy_(plain.reshape(tuple(like.shape)))
