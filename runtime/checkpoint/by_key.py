"""A tensor source as a mapping, for code that reads tensors by ``source[key]``."""

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from ascendfx.ir.tensor_source import TensorSource


class ByKey(Mapping[str, NDArray[Any]]):
    """Reads a tensor when it is asked for and keeps none."""

    def __init__(self, source: TensorSource) -> None:
        self._source = source
        self._keys = frozenset(source.keys())

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self._source.load(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
