"""Make the numbers of a case as plain as the mistake allows."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.passes.reduction.case import Case, Judge

_DIGITS = (1, 2, 3, 4)


def shrink_values(case: Case, judge: Judge, tried: Callable[[int], None] = lambda _: None) -> Case:
    """Return the case with zeros, ones or short numbers, tensor by tensor."""
    count = 0
    for name in sorted(case.tensors):
        for candidate in _plainer(case.tensors[name]):
            count += 1
            tried(count)
            plain = replace(case, tensors={**case.tensors, name: candidate})
            if judge.observe(plain) is not None:
                case = plain
                break
    return case


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
