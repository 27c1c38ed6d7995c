"""Rows of the caches leave and enter: those of one request, whatever blocks and place it has."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.step_names import HIDDEN_CACHE

Arrays = Mapping[str, NDArray[Any]]


def take_rows(
    caches: Arrays, place: int, blocks: NDArray[np.int32], length: int
) -> dict[str, NDArray[Any]]:
    """Return copies of the rows of a request, in the order of its tokens."""
    return {
        name: _rows_of(name, cache)[_places_of(name, cache, place, blocks, length)]
        for name, cache in caches.items()
    }


def put_rows(
    caches: Arrays, place: int, blocks: NDArray[np.int32], length: int, rows: Arrays
) -> None:
    """Write what `take_rows` returned to another place and other blocks."""
    for name, cache in caches.items():
        _rows_of(name, cache)[_places_of(name, cache, place, blocks, length)] = rows[name]


def kept_rows(name: str, cache: NDArray[Any], length: int) -> tuple[int, ...]:
    """Return the shape of the rows of a request with so many tokens.

    Hidden states ``[places, window, width]`` are those of the last ones: position ``p`` stands in
    row ``p mod window``.
    """
    count = min(length, cache.shape[1]) if name == HIDDEN_CACHE else length
    return (count, *cache.shape[2:])


def _rows_of(name: str, cache: NDArray[Any]) -> NDArray[Any]:
    rows = cache.reshape(cache.shape[0] * cache.shape[1], *cache.shape[2:])
    if not rows.flags.writeable or not np.may_share_memory(rows, cache):
        raise AssertionError(f"{name} is read-only or not contiguous")
    return rows


def _places_of(
    name: str, cache: NDArray[Any], place: int, blocks: NDArray[np.int32], length: int
) -> NDArray[np.intp]:
    each = cache.shape[1]
    if name == HIDDEN_CACHE:
        last = np.arange(max(0, length - each), length)
        return place * each + last % each
    at = np.arange(length)
    return blocks[at // each].astype(np.intp) * each + at % each
