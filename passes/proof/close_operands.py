"""Values for which a choice is close: operands that are neighbours of each other in their formats.

A decision reads several numbers at once: two operands of a comparison, the elements of one operand
along the axis of an argmax. Rounding changes it where those numbers are a few units apart, so they
are drawn around one centre. Which mantissa and which exponent the centre has decides what an
operation does to neighbours: ``0.1 x`` joins some of them for mantissas above 1.25 alone, ``x + 1``
those that are small. Centres are therefore random, powers of two among them.
"""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.proof.round_in_format import round_to
from ascendfx.passes.rule import Rule
from ascendfx.passes.rule_sides import operand_types, random_operands, within

KINDS_OF_DRAWS = 9
"""Kinds of values that `close_operands` draws in turn; odd, so that each meets all sizes."""
_STEPS = 4
"""Neighbours are up to that many units from the centre."""
_USUAL = (-12, 8)
"""Exponents of values as models have them."""


def close_operands(
    rule: Rule, holes: Mapping[str, Any], random: np.random.Generator, trial: int
) -> dict[str, Array]:
    """Return operands for one trial, floats rounded to their formats and within their ranges.

    Ranges are those that the rule declares; other operands may be of any size.
    """
    tensors = random_operands(rule, holes, random, whole=trial % KINDS_OF_DRAWS == 0)
    kinds = {n: t.dtype for n, t in operand_types(rule, holes).items() if t.dtype.is_float}
    shapes = {name: tensors[name].shape for name in kinds}
    common = _common_centre(kinds, shapes, random, usual=trial % KINDS_OF_DRAWS != 1)
    spread = int(random.integers(1, _STEPS + 1))
    for name, kind in kinds.items():
        if name in rule.orthogonal:
            tensors[name] = round_to(tensors[name], kind)
            continue
        steps = 2 * kind.unit_roundoff * _steps(random, spread, shapes[name])
        draw = _APART.get(trial % KINDS_OF_DRAWS)
        if draw is not None:
            drawn = draw(random, shapes[name], steps)
        elif trial % KINDS_OF_DRAWS == 0:
            drawn = tensors[name]
        else:
            drawn = common * (1 + steps)
        if name in rule.values:
            drawn = within(rule.values[name], np.asarray(drawn))
        tensors[name] = round_to(drawn, kind)
    return tensors


def _saturating(random: np.random.Generator, shape: tuple[int, ...], _: Array) -> Array:
    return random.uniform(16, 128, shape) * random.choice((-1, 1))


def _of_own_size(random: np.random.Generator, shape: tuple[int, ...], _: Array) -> Array:
    return 2.0 ** random.integers(*_USUAL) * (1 + random.uniform(0, 1e-3, shape))


def _near_own_centre(random: np.random.Generator, _: tuple[int, ...], steps: Array) -> Array:
    return random.uniform(1, 2) * 2.0 ** random.integers(*_USUAL) * (1 + steps)


def _near_power(random: np.random.Generator, _: tuple[int, ...], steps: Array) -> Array:
    """Below a power of two neighbours are half as far from each other."""
    return 2.0 ** random.integers(*_USUAL) * (1 + steps / 2)


_APART = {2: _saturating, 3: _of_own_size, 4: _near_own_centre, 5: _near_power}
"""Kinds of values that each operand draws by itself; in the others they are neighbours."""


def _steps(random: np.random.Generator, spread: int, shape: tuple[int, ...]) -> Array:
    """Return units from the centre; often in order along the last axis, where a tie moves most."""
    steps = random.integers(-spread, spread + 1, shape)
    order = int(random.integers(3)) if shape else 0
    if order == 0:
        return steps
    ascending = np.sort(steps, axis=-1)
    return ascending if order == 1 else ascending[..., ::-1]


def _common_centre(
    kinds: Mapping[str, DType],
    shapes: Mapping[str, tuple[int, ...]],
    random: np.random.Generator,
    *,
    usual: bool,
) -> Array:
    """Return one centre for all operands, or one per row if they have the same rows."""
    if not kinds:
        return np.asarray(1.0)
    rows = {shape[:-1] for shape in shapes.values()}
    shape = (*rows.pop(), 1) if len(rows) == 1 and all(shapes.values()) else ()
    coarsest = max(kinds.values(), key=lambda each: each.unit_roundoff)
    limits = ml_dtypes.finfo(coarsest.numpy)
    low, high = int(limits.minexp) // 2, int(limits.maxexp) // 2  # no overflow: that is no tie
    if usual:
        low, high = max(low, _USUAL[0]), min(high, _USUAL[1])
    mantissas = random.choice((-1, 1), shape) * random.uniform(1, 2, shape)
    return round_to(mantissas * 2.0 ** random.integers(low, high, shape), coarsest)
