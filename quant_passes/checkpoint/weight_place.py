"""Where a weight of a checkpoint is, before it is read; nothing here opens a file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight


class StoredArray(Protocol):
    """A tensor of a file that is read when asked; `StoredTensor` of the runtime is one."""

    @property
    def format(self) -> np.dtype[Any]:
        """Element format."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        ...

    def load(self) -> NDArray[Any]:
        """Return the values; read-only."""
        ...


StoredArrays: TypeAlias = Mapping[str, StoredArray]
"""The tensors of a checkpoint by their names in the files."""


@dataclass(frozen=True, slots=True)
class WeightPlace:
    """A weight under the name that models know it by.

    Attributes:
        shape: Of the weight, not of what is stored of it.
        format: Element format; None if codes are stored.
        load: Reads and checks it.
        by_token: Whether it is integers with a scale per row, and inputs are int8 with a scale per
            token: what products of codes compute on the chip.
        bits: Of these integers.
    """

    shape: tuple[int, ...]
    format: np.dtype[Any] | None
    load: Callable[[], SavedWeight]
    by_token: bool = False
    bits: int = 8


WeightPlaces: TypeAlias = dict[str, WeightPlace]


def plain_place(name: str, stored: StoredArray) -> WeightPlace:
    """Return the place of a weight that is stored as numbers."""
    return WeightPlace(
        stored.shape, stored.format, lambda: SavedWeight(finite(name, stored.load()))
    )


def part_of(stored: StoredArrays, name: str, weight: str) -> StoredArray:
    """Return a tensor that a weight needs.

    Raises:
        GraphError: `missing-tensor`.
    """
    if name not in stored:
        reason = f"`{weight}` needs tensor `{name}`, which is not in the files"
        raise GraphError("missing-tensor", reason, hint="download the checkpoint again")
    return stored[name]


def require_shape(name: str, stored: StoredArray, shape: tuple[int, ...], why: str) -> None:
    """Refuse a tensor of another shape.

    Raises:
        GraphError: `wrong-shape`.
    """
    if stored.shape != shape:
        reason = f"tensor `{name}` has shape {list(stored.shape)} and should have {list(shape)}"
        raise GraphError("wrong-shape", reason, notes=(why,), hint="use the files of one model")


def require_elements(name: str, stored: StoredArray, *allowed: str) -> None:
    """Refuse a tensor of another element format.

    Raises:
        GraphError: `tensor-format`.
    """
    if stored.format.name not in allowed:
        reason = f"tensor `{name}` is in {stored.format.name} and should be {' or '.join(allowed)}"
        raise GraphError("tensor-format", reason, hint="write the checkpoint again")


_VALUES = 1 << 22


def finite(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return values if none of them is infinite or NaN; looks at a part at a time.

    Raises:
        GraphError: `values-not-finite`, with the first place.
    """
    if values.dtype.kind in "biu":
        return values
    flat = values.reshape(-1)
    for start in range(0, flat.size, _VALUES):
        wrong = ~np.isfinite(flat[start : start + _VALUES])
        if wrong.any():
            place = np.unravel_index(start + int(wrong.argmax()), values.shape)
            reason = f"tensor `{name}` has an infinity or NaN at {[int(i) for i in place]}"
            raise GraphError("values-not-finite", reason, hint="download the checkpoint again")
    return values
