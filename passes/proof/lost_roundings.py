"""Casts to a narrower format and back: over the reals they are nothing, and meant to round."""

from collections.abc import Mapping

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.kept_roundings import kept_roundings, with_roundings
from ascendfx.ir.op import Array, as_float64
from ascendfx.passes.proof.check_sides import format_variants
from ascendfx.passes.proof.shown import shown_difference, shown_formats, shown_operands
from ascendfx.passes.rounding_bound import rounding_bound
from ascendfx.passes.rule import Rule, Spelling
from ascendfx.passes.rule_sides import (
    holes_of,
    operand_types,
    random_operands,
    random_sizes,
    side_or_none,
)


def check_lost_roundings(rule: Rule, spelling: Spelling, *, trials: int, seed: int) -> str:
    """Compare the sides where the casts round that are there to round, see `kept_roundings`."""
    random = np.random.default_rng(seed)
    for formats in format_variants(rule, spelling):
        for _ in range(trials):
            holes = {**holes_of(rule, spelling, random_sizes(rule, random, largest=4)), **formats}
            lhs = side_or_none(rule, spelling.lhs, holes)
            rhs = side_or_none(rule, rule.rhs, holes) if lhs else None
            if lhs is None or rhs is None or not (kept_roundings(lhs) or kept_roundings(rhs)):
                continue
            tensors = random_operands(rule, holes, random)
            if found := _unequal(lhs, rhs, tensors):
                kinds = {name: t.dtype for name, t in operand_types(rule, holes).items()}
                return (
                    "it loses or adds the rounding of a cast to a narrower format and back: "
                    f"with {shown_operands(tensors)}{shown_formats(kinds)} {found}"
                )
    return ""


def _unequal(lhs: Graph, rhs: Graph, tensors: Mapping[str, Array]) -> str:
    """Return how results differ by more than the rounding of float64, or nothing."""
    with np.errstate(all="ignore"):
        left, right = (interpret(with_roundings(each), tensors) for each in (lhs, rhs))
        bounds = zip(*(rounding_bound(each, tensors, None) for each in (lhs, rhs)), strict=True)
        for a, c, bound in zip(left, right, map(sum, bounds), strict=True):
            exact, other = as_float64(a), as_float64(c)
            known = np.isfinite(exact) & np.isfinite(other) & np.isfinite(bound)
            if np.any(known & (np.abs(exact - other) > bound)):
                return shown_difference(a, c)
    return ""
