"""What is checked of a rule in programs: it fires, it ends, and each precondition is needed."""

import math
from collections.abc import Iterator
from dataclasses import replace

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Param
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.match import Miss, match_at
from ascendfx.passes.pattern import patterns_of
from ascendfx.passes.proof.check_sides import rounded_differently, unequal
from ascendfx.passes.proof.random_tensors import example_sizes, random_tensors
from ascendfx.passes.proof.round_in_format import round_to
from ascendfx.passes.proof.shown import shown_operands
from ascendfx.passes.rule import Precondition, Rule, Spelling
from ascendfx.passes.rule_sides import holes_of, side_of, side_or_none, unequal_sizes, within

_ROUNDS = 12
_ELEMENTS = 200_000
"""Of all results of an example together, beyond which its values are not compared."""
_ROUNDED_ELEMENTS = 6_000
"""As above, for the evaluation number by number in the formats."""


def check_fires(rule: Rule, spelling: Spelling) -> str:
    """Match the left side with itself, preconditions and surroundings aside."""
    alone = replace(rule, spellings=(spelling,), when=(), derive=lambda _: {})
    holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, (7,)))
    lhs = side_of(rule, spelling.lhs, holes)
    result = match_at(patterns_of(alone)[0], lhs, lhs.outputs[0])
    return (
        f"it does not match its own left side: {result.reason}" if isinstance(result, Miss) else ""
    )


def check_ends(rule: Rule, spelling: Spelling) -> str:
    """Apply the rule to its own left side, as often as it fits.

    What is wrong with its right side there is told by `check_perturbed_sites`.

    Raises:
        GraphError: `rules-never-end`.
    """
    holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, (3, 2)))
    lhs = side_or_none(rule, spelling.lhs, holes)
    try:
        if lhs is not None:
            ApplyRules((rule,), max_rounds=_ROUNDS).run_graph(lhs)
    except GraphError as error:
        if error.code == "rules-never-end":
            raise
    except (ArithmeticError, AttributeError):
        pass
    return ""


def check_example(rule: Rule, example: Program) -> str:
    """Apply the rule in its example: it must change something, and come to an end.

    Raises:
        GraphError: `rules-never-end`.
    """
    try:
        result = ApplyRules((rule,), max_rounds=_ROUNDS).run(example)
    except GraphError as error:
        if error.code == "rules-never-end":
            raise
        return f"its right side is not well typed in its example: {error.reason}"
    if result.program is not example:
        return _evaluated(rule, example, result.program)
    near = "".join(f" ({remark})" for remark in result.remarks[:1])
    return f"it does not apply in its example{near}"


def _evaluated(rule: Rule, before: Program, after: Program) -> str:
    """Compare an example before and after, in float64 and, without named sizes, in its formats."""
    sizes = example_sizes(before)
    elements = (
        math.prod(bind_size(d, sizes) for d in kind.shape)
        for graph in before.graphs
        for node in graph.nodes
        for kind in node.types
    )
    count = sum(elements)
    if len(before.graphs) > 1 or count > _ELEMENTS:
        return ""
    tensors = random_tensors(before, seed=0, ids=2)
    for name, kind in before.main.input_types.items():
        if kind.dtype.is_float and (values := rule.values.get(name)) is not None:
            tensors[name] = within(values, tensors[name])
    try:
        found = unequal(before.main, after.main, tensors, sizes)
        if not found and count <= _ROUNDED_ELEMENTS and _has_numbers_alone(before):
            for name, kind in before.main.input_types.items():
                tensors[name] = round_to(tensors[name], kind.dtype)
            found = rounded_differently(rule, before.main, after.main, tensors)
    except (IndexError, ValueError):
        return ""  # an index is out of range
    return f"it changes its example: with {shown_operands(tensors)} {found}" if found else ""


def _has_numbers_alone(program: Program) -> bool:
    """Say whether no size has a name and no tensor is of a checkpoint."""
    nodes = program.main.nodes
    return not any(isinstance(n.op, Param) or any(t.names for t in n.types) for n in nodes)


def check_necessity(rule: Rule, condition: Precondition, example: Program | None) -> Iterator[str]:
    """Show that the precondition forbids its example, and that it alone does.

    Raises:
        GraphError: `rules-never-end`.
    """
    blocks = condition.blocks
    if example is None:
        yield f"no example was given for the precondition `{blocks}`"
        return
    try:
        result = ApplyRules((rule,)).run(example)
    except GraphError as error:
        if error.code == "rules-never-end":
            raise
        yield f"in the example of `{blocks}` it builds what is not well typed: {error.reason}"
        return
    if result.program is not example:
        yield f"it applies in the example of `{blocks}`"
        return
    others = replace(rule, when=tuple(each for each in rule.when if each is not condition))
    if not _would_change(others, example):
        yield f"the precondition `{blocks}` is not what forbids it in its example"
    elif not any(condition.otherwise in remark.text for remark in result.remarks):
        yield f"in the example of `{blocks}` its remark is not given"


def _would_change(rule: Rule, example: Program) -> bool:
    """Say whether the rule finds a site; building there what is not well typed counts as one."""
    return any(
        not isinstance(match_at(pattern, graph, Value(position, root.result)), Miss)
        for pattern in patterns_of(rule)
        for root in pattern.outputs[:1]
        for graph in example.graphs
        for position, node in enumerate(graph.nodes)
        if root.result < len(node.types)
    )
