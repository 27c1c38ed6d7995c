"""Programs in which a rule of migration applies, and those that its preconditions forbid."""

from collections.abc import Mapping
from typing import Any

from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.ops import Input, Param
from ascendfx.ir.program import Program
from ascendfx.passes.pattern import concrete_holes
from ascendfx.passes.rule import Rule, as_tuple
from ascendfx.passes.rule_sides import LEADS, holes_of, operand_types

SIZES: Mapping[str, int] = {
    "b": 2,
    "d": 4,
    "e": 2,
    "f": 1,
    "g": 3,
    "h": 3,
    "i": 3,
    "j": 4,
    "k": 4,
    "m": 5,
    "n": 6,
    "p": 3,
    "r": 3,
    "t": 3,
    "u": 3,
    "v": 2,
}
LEAD = (2,)
NAMES = {"s": "place#factors", "r": "place#rotation"}
CHANGED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("channel-scale-past-reshape", "rows-are-cut"): {"shape": (4, 2)},
    ("rotation-past-reshape", "rows-are-cut"): {"shape": (4, 3)},
    ("rotation-before-reshape", "rows-were-cut"): {"shape": (4, 4), "j": 8},
    ("rotation-before-sum", "rows-are-repeated"): {LEADS: {"y": (1,)}},
    ("expert-scale-out-of-grouped-linear", "other-parts"): {"first": 5, "last_one": 10},
    ("head-scale-out-of-linear", "other-parts"): {"first": 3, "last_one": 4},
    ("rotation-into-rows-of-heads", "other-parts"): {"first": 3, "last_one": 4},
    ("rotation-into-part-of-rows", "other-parts"): {"first": 1, "last_one": 2},
    ("head-scale-out-of-linear", "other-heads"): {"shape": (6, 1, 5), "axis": 2},
    ("rotation-into-rows-of-heads", "other-heads"): {"shape": (5, 3, 2), "axis": 0, "stop": 5},
}
"""Sizes and captured attributes of programs that a precondition forbids, beside the usual ones."""


def examples(rule: Rule) -> dict[str, Program]:
    """Return programs as `check_rule` wants them."""
    found = {"": program(rule, NAMES, {})}
    for each in rule.when:
        changed = CHANGED.get((rule.name, each.blocks))
        names = NAMES if changed else {"s": "other", "r": "other"}
        found[each.blocks] = program(rule, names, changed or {})
    return found


def program(rule: Rule, names: Mapping[str, str], changed: Mapping[str, Any]) -> Program:
    """Return the left side of a rule, with transforms as parameters of some names."""
    sizes = {**SIZES, **{name: n for name, n in changed.items() if name in SIZES}, "lead": LEAD}
    holes = {**holes_of(rule, rule.spellings[0], sizes), **changed}
    builder = GraphBuilder("example")
    operands = [
        builder.add(Param(names[name], kind) if name in names else Input(name, kind))
        for name, kind in operand_types(rule, holes).items()
    ]
    return Program(
        (
            builder.build(
                *as_tuple(rule.spellings[0].lhs(builder, concrete_holes(**holes), *operands))
            ),
        )
    )
