"""Rewrite rules of your own: write one, have it proved, and compile with it.

>>> from ascendfx import rules
>>> rule = rules.Rule(name=..., lhs and rhs, operands, fidelity, proof)  # doctest: +SKIP
>>> rules.register(rule, examples={"": program})  # doctest: +SKIP
>>> ascendfx.compile(model, rules=(rule,))  # doctest: +SKIP

A rule that fails its check is refused with the values for which its sides differ. How a rule is
written is told in passes/README.md. Needs no torch.
"""

from ascendfx.passes.check_rule import check_rule as check
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.registered_rules import register, registered, require_registered
from ascendfx.passes.rule import (
    Growth,
    Precondition,
    Proof,
    Rule,
    SideBuilder,
    Site,
    Spelling,
    Values,
)

__all__ = [
    "Fidelity",
    "Growth",
    "Precondition",
    "Proof",
    "Rule",
    "SideBuilder",
    "Site",
    "Spelling",
    "Values",
    "check",
    "register",
    "registered",
    "require_registered",
]
