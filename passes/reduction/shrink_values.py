"""Make the numbers of a case as plain as the mistake allows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.passes.reduction.case import Case, Judge

_DIGITS = (1, 2, 3, 4)
_MANY = 64
"""Elements beyond which parts of a tensor are tried as zeros."""
_PARTS = 64
"""Parts of a tensor that are tried: no smaller ones than so many halves make."""


def shrink_values(case: Case, judge: Judge, tried: Callable[[int], None] = lambda _: None) -> Case:
    """Return the case with zeros, ones or short numbers, tensor by tensor.

    Of a large tensor that has to stay, parts become zeros, as large ones as the mistake allows.
    """
    count = 0

    def kept(name: str, candidate: Array) -> Case | None:
        nonlocal count
        count += 1
        tried(count)
        plain = replace(case, tensors={**case.tensors, name: candidate})
        return plain if judge.observe(plain) is not None else None

    for name in sorted(case.tensors):
        for candidate in _plainer(case.tensors[name]):
            if plain := kept(name, candidate):
                case = plain
                break
        for start, stop in _parts(case.tensors[name].size):
            candidate = case.tensors[name].copy()
            part = candidate.reshape(-1)[start:stop]
            if part.any():
                part[:] = 0
                case = kept(name, candidate) or case
    return case


def _parts(size: int) -> Iterator[tuple[int, int]]:
    """Yield halves, quarters and so on of so many elements."""
    parts = 2
    while size > _MANY and parts <= min(size, _PARTS):
        edges = [size * i // parts for i in range(parts + 1)]
        yield from pairwise(edges)
        parts *= 2


def _plainer(array: Array) -> Iterator[Array]:
    yield np.zeros_like(array)
    if array.dtype.kind != "f":
        return
    yield np.ones_like(array)
    yield np.round(array)
    for digits in _DIGITS:
        yield _rounded(array, digits)


def _rounded(array: Array, digits: int) -> Array:
    """Round to significant decimal digits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.floor(np.log10(np.abs(array)))
    exponent = np.where(np.isfinite(exponent), exponent, 0)
    scale = 10.0 ** (digits - 1 - exponent)
    rounded = np.round(array * scale) / scale
    text = [float(f"{each:.{digits - 1}e}") for each in rounded.reshape(-1).tolist()]
    return np.array(text, array.dtype).reshape(array.shape)
