"""Values that mean something together: two infinities, neighbouring integers, opposite ends.

A difference of equal infinities is no number, 2^24 and 2^24 + 1 are one number in f32, and the
smallest integer minus one is the largest. Each needs two operands at one place, which values drawn
for each operand alone hardly ever have.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import ml_dtypes
import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.tensor_type import DType

_LARGE_INTEGERS = (2**24, -(2**24), 2**31, -(2**31), 2**53, -(2**53))
"""Where f32, i32 and f64 end to tell integers apart."""


def special_numbers(dtype: DType) -> tuple[float, ...]:
    """Return zeros, infinities, no number, and the ends of the range of a format."""
    limits = ml_dtypes.finfo(dtype.numpy)
    smallest, largest = float(limits.smallest_subnormal), float(limits.max)
    ends = (smallest, largest, -3 * smallest, -0.75 * largest, float(limits.tiny))
    return (np.nan, *ends, -0.0, 0.0, np.inf, -np.inf, 1.0, -1.0)


def special_pairs(
    tensors: Mapping[str, Array], kinds: Mapping[str, DType], random: np.random.Generator
) -> Iterator[dict[str, Array]]:
    """Yield the tensors with each pair of special numbers at every place of the named operands.

    One part of the operands holds the first number, the others the second one.

    Args:
        tensors: All operands.
        kinds: The formats of the float operands that may hold special numbers.
        random: Chooses the parts.
    """
    names = tuple(kinds)
    if len(names) < 2:
        return
    count = len(special_numbers(DType.F32))
    for places in product(range(count), repeat=2):
        parts = random.permutation([i % 2 for i in range(len(names))])
        changed = dict(tensors)
        for name, part in zip(names, parts, strict=True):
            number = special_numbers(kinds[name])[places[part]]
            changed[name] = np.full(tensors[name].shape, number)
        yield changed


def meeting_integers(
    shapes: Mapping[str, tuple[int, ...]],
    kinds: Mapping[str, DType],
    constants: Iterable[int],
    random: np.random.Generator,
) -> Iterator[dict[str, Array]]:
    """Yield integers of all operands that are neighbours of each other, or at opposite ends.

    Args:
        shapes: Of the integer operands.
        kinds: Their formats.
        constants: Numbers of the sides; values around them are drawn as well.
        random: Chooses the neighbours.
    """
    ends = {name: _range(kind) for name, kind in kinds.items()}
    outer = {each for pair in ends.values() for each in pair}
    for centre in sorted({0, *_LARGE_INTEGERS, *constants, *outer}):
        if any(low <= centre <= high for low, high in ends.values()):
            yield {name: _drawn(random, [centre], ends[name], shapes[name]) for name in shapes}
    for _ in range(4):
        yield {name: _drawn(random, ends[name], ends[name], shapes[name]) for name in shapes}


def _range(dtype: DType) -> tuple[int, int]:
    end = 2 ** (8 * dtype.numpy.itemsize - 1)
    return -end, end - 1


def _drawn(
    random: np.random.Generator,
    centres: Sequence[int],
    ends: tuple[int, int],
    shape: tuple[int, ...],
) -> Array:
    """Return integers at most two from one of the centres, as far as they are in the range."""
    near = [min(max(c + step, ends[0]), ends[1]) for c in centres for step in range(-2, 3)]
    return random.choice(np.array(near, np.int64), shape)
