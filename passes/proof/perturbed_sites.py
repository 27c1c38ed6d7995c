"""Where a rule fires beyond what it declares: on left sides that differ in one detail.

The proofs look at the sides as they are declared: one value for each captured attribute, equal
leading axes, declared formats. The matcher accepts more. Here details are changed - an attribute,
an operand, the leading axes or the format of one operand - and wherever the rule still fires, its
result must have the type and the values of what it replaced. What a precondition has to exclude
and does not is found here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.proof.check_sides import rounded_differently, unequal
from ascendfx.passes.proof.graph_mutants import some_mutants
from ascendfx.passes.proof.random_tensors import example_sizes, random_tensors
from ascendfx.passes.proof.round_in_format import round_to
from ascendfx.passes.proof.shown import shown_operands
from ascendfx.passes.rule import Rule, Spelling
from ascendfx.passes.rule_sides import (
    FREE,
    LEADS,
    forms_of,
    holes_of,
    operand_types,
    random_operands,
    side_or_none,
    unequal_sizes,
)

_MUTANTS = 60
_DRAWS = 2


def check_perturbed_sites(rule: Rule, spelling: Spelling, *, seed: int) -> str:
    """Return the first changed left side on which the rule fires and is wrong.

    Raises:
        GraphError: `rules-never-end`.
    """
    for what, graph, holes in _changed_sides(rule, spelling, seed):
        if found := _wrong(rule, graph, _operand_draws(rule, holes, seed)):
            return f"it fires where it is wrong, a precondition is missing: {what}: {found}"
    return ""


def check_changed_example(rule: Rule, example: Program, *, seed: int, count: int = _MUTANTS) -> str:
    """Return the first changed detail of an example with which the rule fires and is wrong.

    Raises:
        GraphError: `rules-never-end`.
    """
    if len(example.graphs) > 1:
        return ""
    tensors = random_tensors(example, seed=seed, ids=2)
    sizes = example_sizes(example)
    for what, graph in some_mutants(example.main, count=count, seed=seed):
        if found := _wrong(rule, graph, iter([tensors]), sizes):
            return f"it fires where it is wrong, in its example with {what}: {found}"
    return ""


def _changed_sides(
    rule: Rule, spelling: Spelling, seed: int
) -> Iterator[tuple[str, Graph, Mapping[str, Any]]]:
    for what, holes in _operand_variants(rule, spelling):
        graph = side_or_none(rule, spelling.lhs, holes)
        if graph is not None:
            yield what, graph, holes
    holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, (2,)))
    graph = side_or_none(rule, spelling.lhs, holes)
    if graph is not None:
        for what, changed in some_mutants(graph, count=_MUTANTS, seed=seed):
            yield what, changed, holes


def _operand_variants(rule: Rule, spelling: Spelling) -> Iterator[tuple[str, Mapping[str, Any]]]:
    holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, (3, 2)))
    yield "as it stands", holes
    for name, form in forms_of(rule).items():
        if form.rest:
            for lead in ((), (1,), (2,), (1, 2), (3, 1), (1, 1), (4, 3, 2)):
                yield f"`{name}` has leading axes {lead}", {**holes, LEADS: {name: lead}}
    kinds = {form.format for form in forms_of(rule).values()}
    for kind in sorted(each for each in kinds if isinstance(each, str)):
        for dtype in (DType.BF16, DType.F16, DType.F64, DType.I32):
            yield f"`{kind}` is {dtype.value}", {**holes, kind: dtype}
    if None in kinds:
        for dtype in (DType.BF16, DType.I32):
            yield f"the operands are {dtype.value}", {**holes, FREE: dtype}


def _operand_draws(
    rule: Rule, holes: Mapping[str, Any], seed: int
) -> Iterator[Mapping[str, Array]]:
    """Yield values of any sign: a restriction must come from a precondition of the site."""
    random = np.random.default_rng(seed)
    for _ in range(_DRAWS):
        tensors = random_operands(rule, holes, random)
        for name, kind in operand_types(rule, holes).items():
            if kind.dtype.is_float and name not in rule.orthogonal:
                tensors[name] = random.standard_normal(tensors[name].shape)
        yield tensors


def _wrong(
    rule: Rule,
    graph: Graph,
    draws: Iterator[Mapping[str, Array]],
    sizes: Mapping[str, int] | None = None,
) -> str:
    after = _applied(rule, graph)
    if isinstance(after, str):
        return after
    for tensors in draws:
        try:
            if not _is_meant(graph, tensors, sizes):
                return ""
            found = unequal(graph, after, tensors, sizes)
        except (IndexError, ValueError):
            continue  # the changed left side computes nothing: an index is out of range
        shown = tensors
        if not found and sizes is None:
            shown = {
                name: round_to(tensors[name], kind.dtype)
                for name, kind in graph.input_types.items()
            }
            found = rounded_differently(rule, graph, after, shown)
        if found:
            return f"with {shown_operands(shown)} {found}"
    return ""


def _applied(rule: Rule, graph: Graph) -> Graph | str:
    """Return the rewritten graph; what is wrong with it; or "" if the rule does not fire."""
    try:
        after = ApplyRules((rule,)).run_graph(graph).graph
    except GraphError as error:
        if error.code == "rules-never-end":
            raise  # it is no missing precondition
        return f"the right side is not well typed: {error.reason}"
    except ArithmeticError as error:
        return f"the right side cannot be built: {error}"
    except AttributeError as error:
        if type(error.obj).__name__ != "SimpleNamespace":
            raise
        return f"the right side reads the hole `{error.name}`, which is not captured"
    if after == graph:
        return ""
    if after.output_types != graph.output_types:
        types = [", ".join(map(str, each.output_types)) for each in (graph, after)]
        return f"{types[0]} becomes {types[1]}"
    return after


def _is_meant(graph: Graph, tensors: Mapping[str, Array], sizes: Mapping[str, int] | None) -> bool:
    """Say whether every integer of the graph is one: not, for example, a norm of integers."""
    fits: list[bool] = []

    def look(where: Graph, position: int, results: tuple[Array, ...]) -> None:
        kinds = where.nodes[position].types
        fits.extend(
            k.dtype.is_float or r.dtype.kind != "f" for k, r in zip(kinds, results, strict=True)
        )

    with np.errstate(all="ignore"):
        interpret(graph, tensors, sizes=sizes, observe=look)
    return all(fits)
