"""Rewrite rules of your own: write one, have it proved, and compile with it.

>>> from ascendfx import rules
>>> rule = rules.Rule(  # doctest: +SKIP
...     name="my-add-of-negated",
...     identity="x + (-y) = x - y",
...     source="definition of the difference",
...     operands={"x": "* k", "y": "* k"},
...     spellings=(rules.Spelling(lhs),),  # each way to write the left side
...     rhs=rhs,
...     fidelity=rules.Fidelity.BITWISE,
... )
>>> rules.register(rule, examples={"": program})  # doctest: +SKIP
>>> ascendfx.compile(model, rules=(rule,))  # doctest: +SKIP

``program`` is one in which the rule fires. A rule that fails its check is refused with the values
for which its sides differ. ``help(rules.Rule)`` explains each argument, also those that are left
out here; how a rule is written is told in passes/README.md. Needs no torch.
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
