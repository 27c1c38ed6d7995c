"""Decisions in the formats: integers and truth values that rounding must not change."""

from collections.abc import Mapping

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Input
from ascendfx.passes.proof.check_sides import format_variants, rounded_differently
from ascendfx.passes.proof.close_operands import KINDS_OF_DRAWS, close_operands
from ascendfx.passes.proof.round_in_format import evaluate_rounded
from ascendfx.passes.proof.shown import shown_difference, shown_formats, shown_operands
from ascendfx.passes.rule import Rule, Spelling
from ascendfx.passes.rule_sides import (
    holes_of,
    operand_types,
    random_operands,
    random_sizes,
    side_or_none,
)

_ROWS = (16,)
"""Leading axes of every other trial: many rows have many centres."""
_ROUNDS = 4
"""How often each kind of values is drawn, for ten trials; half of that for decisions inside."""


def check_decisions(rule: Rule, spelling: Spelling, *, trials: int, seed: int) -> str:
    """Compare integers and truth values of both sides in the formats, where a choice is close.

    A decision is no rounding error: an argmax that moves is another token. Ties, neighbours in the
    format and values that saturate a function are tried. Where a decision is taken inside and the
    results are floats, what it chose has to be so up to the rounding of results and operands.
    """
    random = np.random.default_rng(seed)
    for formats in format_variants(rule, spelling):
        count = KINDS_OF_DRAWS * max(1, _ROUNDS * trials // 10)
        for trial in range(count):
            sizes = random_sizes(rule, random, largest=4)
            if trial % 2:
                sizes["lead"] = _ROWS
            holes = {**holes_of(rule, spelling, sizes), **formats}
            lhs = side_or_none(rule, spelling.lhs, holes)
            rhs = side_or_none(rule, rule.rhs, holes) if lhs else None
            if lhs is None or rhs is None:
                continue
            inside = all(each.dtype.is_float for each in lhs.output_types)
            deciding = _deciding(lhs)
            if inside and not deciding:
                return ""
            if inside and 2 * trial > count:
                break
            tensors = close_operands(rule, holes, random, trial)
            if inside:  # what is chosen differs, else another choice would be hard to see
                others = random_operands(rule, holes, random, whole=True)
                tensors |= {name: each for name, each in others.items() if name not in deciding}
            found = (
                rounded_differently(rule, lhs, rhs, tensors)
                if inside
                else _other_decision(lhs, rhs, tensors)
            )
            if found:
                kinds = {name: t.dtype for name, t in operand_types(rule, holes).items()}
                return (
                    "a decision changes, which no rounding excuses: with "
                    f"{shown_operands(tensors)}{shown_formats(kinds)} {found}"
                )
    return ""


def _deciding(graph: Graph) -> frozenset[str]:
    """Return the operands of which an integer or a truth value is computed from floats."""
    names: list[frozenset[str]] = []
    found: set[str] = set()
    for node in graph.nodes:
        read = frozenset[str]().union(*(names[each.node] for each in node.operands))
        names.append(frozenset({node.op.name}) if isinstance(node.op, Input) else read)
        floats = any(graph.type_of(each).dtype.is_float for each in node.operands)
        if floats and any(not each.dtype.is_float for each in node.types):
            found |= read
    return frozenset(found)


def _other_decision(lhs: Graph, rhs: Graph, tensors: Mapping[str, Array]) -> str:
    sides = (evaluate_rounded(each, tensors) for each in (lhs, rhs))
    for a, c in zip(*sides, strict=True):
        if a.dtype.kind != "f" and not np.array_equal(a, c):
            return shown_difference(a, c)
    return ""
