"""How everything above the files reads weights: lazily, by key."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType


class TensorSource(Protocol):
    """Named tensors that are read one at a time; nothing is kept after `load` returns."""

    def keys(self) -> Collection[str]:
        """Return the keys of all tensors."""
        ...

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape; raises `GraphError` for an unknown key."""
        ...

    def dtype(self, key: str) -> DType:
        """Return the element format that `load` delivers."""
        ...

    def load(self, key: str) -> NDArray[Any]:
        """Return the values, in ``dtype(key).numpy``; read-only, possibly a view of a file."""
        ...


@dataclass(frozen=True, slots=True)
class ArraySource:
    """Tensors that are in memory already.

    Attributes:
        tensors: The arrays by key.
    """

    tensors: Mapping[str, NDArray[Any]]

    def keys(self) -> Collection[str]:
        """Return the keys of all tensors."""
        return self.tensors.keys()

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape."""
        return self._find(key).shape

    def dtype(self, key: str) -> DType:
        """Return the element format."""
        return dtype_of_array(self._find(key))

    def load(self, key: str) -> NDArray[Any]:
        """Return the values."""
        return self._find(key)

    def _find(self, key: str) -> NDArray[Any]:
        if key not in self.tensors:
            raise unknown_tensor(key)
        return self.tensors[key]


@dataclass(frozen=True, slots=True)
class LayeredSource:
    """Several sources as one; the first that has a key delivers it.

    Attributes:
        sources: In the order in which they are asked.
    """

    sources: tuple[TensorSource, ...]
    _owner: Mapping[str, TensorSource] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owner = {key: s for s in reversed(self.sources) for key in s.keys()}  # noqa: SIM118  # not a mapping
        object.__setattr__(self, "_owner", owner)

    def keys(self) -> Collection[str]:
        """Return the keys of all tensors."""
        return self._owner.keys()

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape."""
        return self._find(key).shape(key)

    def dtype(self, key: str) -> DType:
        """Return the element format."""
        return self._find(key).dtype(key)

    def load(self, key: str) -> NDArray[Any]:
        """Return the values."""
        return self._find(key).load(key)

    def _find(self, key: str) -> TensorSource:
        if key not in self._owner:
            raise unknown_tensor(key)
        return self._owner[key]


@dataclass(frozen=True)
class TensorsByKey(Mapping[str, NDArray[Any]]):
    """A source, and some tensors at hand, as the mapping that `interpret` reads.

    Attributes:
        source: Read at each access; nothing is kept.
        given: Inputs of the graph; they win over the source.
    """

    source: TensorSource
    given: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key in self.given:
            return self.given[key]
        if key not in self.source.keys():  # noqa: SIM118  # not a mapping
            raise KeyError(key)
        return self.source.load(key)

    def __contains__(self, key: object) -> bool:
        return key in self.given or key in self.source.keys()  # noqa: SIM118

    def __iter__(self) -> Iterator[str]:
        yield from self.given
        yield from (key for key in self.source.keys() if key not in self.given)  # noqa: SIM118

    def __len__(self) -> int:
        return sum(1 for _ in self)


def dtype_of_array(array: NDArray[Any]) -> DType:
    """Return the element format of an array.

    Raises:
        GraphError: The graph has no such format.
    """
    for dtype in DType:
        if dtype.numpy == array.dtype:
            return dtype
    raise GraphError(
        "tensor-format",
        f"tensors of {np.dtype(array.dtype)} cannot be represented",
        hint="convert it to float32, bfloat16 or an integer format first",
    )


def unknown_tensor(key: str) -> GraphError:
    """Return the error for a key that a source does not have."""
    return GraphError(
        "missing-tensor",
        f"there is no tensor `{key}`",
        hint="keys are spelled as in the checkpoint",
    )
