"""How much larger the rounding error of the right side of a rule can be than that of the left.

Both errors are bounds for operands that are themselves rounded (`format_bound`). Such a bound of
the left side is at least the condition of what is computed, times the unit. A right side that is
backward stable adds, for every error that enters on the way to its result, no more than that once:
the ratio is at most the number of those errors (`allowed_growth`). A larger ratio says that
some intermediate value is known less well than the result needs: a sigmoid that is recovered from
its sum with a bias, a variance from a difference of squares, a sum of exponentials that overflows.

Values are searched that make the ratio large: of magnitudes over 21 binades, nearly equal to each
other, or of very different size from operand to operand; the worst are changed step by step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import (
    Add,
    Attention,
    Cast,
    CombineExperts,
    Concat,
    CumulativeSum,
    Exp,
    GroupedLinear,
    HeadLinear,
    Linear,
    Log,
    Matmul,
    Maximum,
    Minimum,
    Power,
    RaggedAttention,
    ReduceMean,
    ReduceSum,
    RmsNorm,
    Rotary,
    RouteTopk,
    Rsqrt,
    Select,
    Sigmoid,
    Silu,
    Softmax,
    Subtract,
    Swiglu,
)
from ascendfx.ir.size import bind_size
from ascendfx.passes.proof.format_bound import format_bound
from ascendfx.passes.rotation_parameter import random_rotation
from ascendfx.passes.rounding_rules import MOVES
from ascendfx.passes.rule import Rule, Values
from ascendfx.passes.rule_sides import operand_types

_BINADES = 21
_STARTS = 24
_STEPS = 40

_CONTRACTIONS = (CumulativeSum, GroupedLinear, HeadLinear, Linear, Matmul, ReduceMean, ReduceSum)
_FUNCTIONS: Mapping[type[Op], int] = {
    Exp: 2,
    Log: 2,
    Power: 3,
    Rsqrt: 3,
    Sigmoid: 4,
    Silu: 5,
    Softmax: 6,
    Swiglu: 6,
    Rotary: 3,
    RmsNorm: 7,
    RouteTopk: 12,
    Attention: 14,
    RaggedAttention: 14,
    CombineExperts: 3,
}
"""Roundings in one element apart from those of sums, as `rounding_rules` charges them."""
_ADDITIVE = (Add, Concat, Maximum, Minimum, Select, Subtract)
_SUMMING = (*_CONTRACTIONS, Attention, CombineExperts, RaggedAttention, RmsNorm, RouteTopk, Softmax)


@dataclass(frozen=True, slots=True)
class GrowthFound:
    """The worst ratio of error bounds that was found.

    Attributes:
        ratio: Right side over left side; infinite if the right side overflows.
        allowed: The derived or declared limit.
        operands: The values for which it is so large.
        errors: Both bounds, relative to the unit of f32.
    """

    ratio: float
    allowed: float
    operands: Mapping[str, Array]
    errors: tuple[float, float]

    @property
    def exceeds(self) -> bool:
        """Whether the limit is passed by more than terms of second order in the unit."""
        return self.ratio > self.allowed * (1 + 1e-6)


def allowed_growth(rule: Rule, rhs: Graph) -> float:
    """Return the number of errors that enter on the way to a result of the right side.

    Every operand enters with one, and every rounding is one more. In a product or a quotient the
    relative errors of both operands add up; in a sum or a choice the larger one counts, because the
    terms share what the result can bear. A rule that declares `Growth` is allowed its factor.
    """
    if rule.growth is not None:
        return rule.growth.factor
    entered: list[int] = []
    for node in rhs.nodes:
        before = [entered[v.node] for v in node.operands]
        together = max if isinstance(node.op, _ADDITIVE) else sum
        entered.append(together(before or [0]) + _roundings(rhs, node))
    return float(max(entered))


def _roundings(graph: Graph, node: Node) -> int:
    if not node.types[0].dtype.is_float:
        return 0
    if isinstance(node.op, MOVES):
        return int(isinstance(node.op, Cast))
    count = _FUNCTIONS.get(type(node.op), 1)
    if isinstance(node.op, _SUMMING):
        sizes = [bind_size(d, {}) for v in node.operands for d in graph.type_of(v).shape]
        count += 2 * max(sizes, default=1)
    return count


def rounding_growth(
    rule: Rule, sides: tuple[Graph, Graph], holes: Mapping[str, Any], seed: int
) -> GrowthFound:
    """Search operands in the declared ranges for which the right side rounds much worse."""
    random = np.random.default_rng(seed)
    allowed = allowed_growth(rule, sides[1])
    worst = GrowthFound(0.0, allowed, {}, (0.0, 0.0))
    for start in range(_STARTS):
        operands = _drawn(rule, holes, random, start)
        found = _measured(sides, operands, allowed)
        worst = max(worst, found, key=lambda each: each.ratio)
    for _ in range(_STEPS):
        if worst.exceeds or not worst.operands:
            break
        found = _measured(sides, _changed(rule, worst.operands, random), allowed)
        worst = max(worst, found, key=lambda each: each.ratio)
    return worst


def _measured(
    sides: tuple[Graph, Graph], operands: Mapping[str, Array], allowed: float
) -> GrowthFound:
    worst = GrowthFound(0.0, allowed, operands, (0.0, 0.0))
    results = zip(*(format_bound(side, operands) for side in sides), strict=True)
    for (value, left), (_, right) in results:
        if value.dtype.kind != "f":
            continue
        known = np.isfinite(value) & np.isfinite(left)
        floor = np.finfo(np.float64).tiny
        with np.errstate(all="ignore"):
            ratios = np.where(known & (right > 0), right / np.maximum(left, floor), 0.0)
        if ratios.size and ratios.max() > worst.ratio:
            place = np.unravel_index(np.argmax(ratios), ratios.shape)
            errors = float(left[place]) / 2.0**-53, float(right[place]) / 2.0**-53
            worst = GrowthFound(float(ratios[place]), allowed, operands, errors)
    return worst


def _drawn(
    rule: Rule, holes: Mapping[str, Any], random: np.random.Generator, start: int
) -> dict[str, Array]:
    tensors: dict[str, Array] = {}
    for name, kind in operand_types(rule, holes).items():
        shape = tuple(bind_size(d, {}) for d in kind.shape)
        if name in rule.orthogonal:
            tensors[name] = random_rotation(random, shape[0])
        elif kind.dtype.is_float:
            tensors[name] = _floats(rule.values.get(name, Values()), shape, random, start)
        elif name in rule.below:
            tensors[name] = random.integers(0, holes[rule.below[name]], shape)
        else:
            tensors[name] = random.integers(0, 2, shape).astype(bool)
    return tensors


def _floats(
    values: Values, shape: tuple[int, ...], random: np.random.Generator, start: int
) -> Array:
    top = max(abs(values.low), abs(values.high))
    spread, common = random.uniform(0, _BINADES, shape), random.uniform(0, _BINADES)
    match start % 4:
        case 0:
            result = top * 2.0**-spread
        case 1:  # nearly equal, far from zero
            result = top * 2.0 ** -(common / 4) * (1 + 2.0 ** -random.uniform(4, 16) * spread)
        case 2:  # one size for each operand
            result = top * 2.0**-common * random.uniform(0.5, 1, shape)
        case _:
            result = top * random.uniform(0, 1, shape)
    if values.low < 0 < values.high:
        result = result * (random.choice([-1, 1], shape) if start % 4 != 1 else 1)
    return np.asarray(np.clip(result, values.low, values.high))


def _changed(
    rule: Rule, operands: Mapping[str, Array], random: np.random.Generator
) -> dict[str, Array]:
    changed = dict(operands)
    floats = [
        name
        for name, value in operands.items()
        if value.dtype.kind == "f" and value.size and name not in rule.orthogonal
    ]
    if not floats:
        return changed
    name = floats[random.integers(len(floats))]
    values = rule.values.get(name, Values())
    array = np.array(changed[name])
    place = np.unravel_index(random.integers(array.size), array.shape)
    match int(random.integers(3)):
        case 0:
            array *= 2.0 ** random.integers(-6, 7)
        case 1:
            array[place] *= 2.0 ** random.integers(-6, 7)
        case _:
            array[place] = _floats(values, (), random, 0)
    changed[name] = np.asarray(np.clip(array, values.low, values.high))
    return changed
