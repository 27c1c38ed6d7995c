"""Tensors of a checkpoint that equal another one: a draft layer repeats embedding and head."""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from ascendfx.quant_passes.checkpoint.block_float8 import SCALE_SUFFIX
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor

_SMALL = 1 << 16
"""Bytes below which nothing is won, and so many of each tensor are looked at first."""
_PIECE = 1 << 24


def equal_tensors(stored: Mapping[str, StoredTensor], *, smallest: int = _SMALL) -> dict[str, str]:
    """Return each tensor that equals an earlier one, with the name of that.

    Of most tensors little is read: only where kind, shape and the first bytes agree, all of them
    are compared. Weights with block scales are left out.

    Args:
        stored: The tensors of the files. Of equal ones, that with the shortest name stays.
        smallest: Bytes from which on a tensor is looked at.
    """
    alike: dict[bytes, list[str]] = {}
    equal: dict[str, str] = {}
    for name in sorted(stored, key=lambda each: (len(each), each)):
        tensor = stored[name]
        scaled = name + SCALE_SUFFIX in stored or name.endswith(SCALE_SUFFIX)
        if scaled or tensor.end - tensor.begin < smallest:
            continue
        candidates = alike.setdefault(_digest(tensor), [])
        first = _equal_one(stored, name, candidates)
        if first is None:
            candidates.append(name)
        else:
            equal[name] = first
    return equal


def _digest(tensor: StoredTensor) -> bytes:
    data = tensor.load().reshape(-1).view(np.uint8)
    kind = f"{tensor.format}{tensor.shape}".encode()
    return hashlib.sha256(kind + data[:_SMALL].tobytes()).digest()


def _equal_one(
    stored: Mapping[str, StoredTensor], name: str, candidates: Iterable[str]
) -> str | None:
    own = stored[name].load().reshape(-1).view(np.uint8)
    for candidate in candidates:
        other = stored[candidate].load().reshape(-1).view(np.uint8)
        pieces = range(0, own.size, _PIECE)
        if all(np.array_equal(own[i : i + _PIECE], other[i : i + _PIECE]) for i in pieces):
            return candidate
    return None
