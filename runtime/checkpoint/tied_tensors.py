"""Tensors that a model has under several names, where files hold more than one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.tensor_type import TensorType
from ascendfx.runtime.checkpoint.checkpoint_source import stored_values
from ascendfx.runtime.checkpoint.packed_parameters import parts_of
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor

_PIECE = 1 << 22
"""Elements that are compared at a time: a head has a thousand million."""


@dataclass(frozen=True)
class TiedTensors:
    """Compares what the files of a directory hold under several names of one tensor.

    Attributes:
        stored: Where each tensor of the files is.
        block: Rows and columns of a float8 block.
    """

    stored: Mapping[str, StoredTensor]
    block: tuple[int, int]

    def different(
        self, names: Mapping[str, str], wanted: Mapping[str, TensorType]
    ) -> frozenset[str]:
        """Return the names under which the files hold other values than under the first name.

        Args:
            names: The first name of each tensor, by every other name.
            wanted: Type of each tensor by its first name.
        """
        return frozenset(
            name
            for name, first in names.items()
            if not self._agree(*(self._parts(each, wanted[first]) for each in (first, name)))
        )

    def _parts(self, key: str, kind: TensorType) -> list[str]:
        """Return the stored tensors that make up a tensor; none if one is missing."""
        if key in self.stored:
            return [key]
        slices = parts_of(key, int(kind.shape[0])) if kind.rank == 3 else None
        parts = [part for keys in slices or () for part in keys]
        return parts if all(part in self.stored for part in parts) else []

    def _agree(self, first: list[str], other: list[str]) -> bool:
        """Whether values are the same, or only stored once."""
        if not first or not other:
            return True
        return len(first) == len(other) and all(
            _equal(*(stored_values(self.stored, key, self.block) for key in pair))
            for pair in zip(first, other, strict=True)
        )


def _equal(a: NDArray[Any], b: NDArray[Any]) -> bool:
    if a.shape != b.shape:
        return False
    rows = max(1, _PIECE * len(a) // max(1, a.size)) if a.ndim else 1
    a, b = np.atleast_1d(a), np.atleast_1d(b)
    return all(np.array_equal(a[i : i + rows], b[i : i + rows]) for i in range(0, len(a), rows))
