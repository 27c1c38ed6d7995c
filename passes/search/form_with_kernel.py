"""Take the next best form when the whole of a chosen one has no kernel.

Costs are asked operation by operation, by types. Whether an operand lies densely in memory depends
on what else was chosen: a product that is merged with another leaves views of the merged one, and
not every kernel takes strides. So the whole form is asked, too. If it is refused, the view at fault
is ruled out for its class, and extraction runs again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ascendfx.ir.graph import Graph, Value
from ascendfx.passes.remark import Remark
from ascendfx.passes.search.candidates import Candidates
from ascendfx.passes.search.extract import BuiltForm, Form, build_form, extract
from ascendfx.passes.search.op_cost import Cost, OpCost, Refusal
from ascendfx.passes.simplify import Simplify

_TRIES = 16
"""Views that are ruled out at most: each costs one extraction."""


@dataclass(frozen=True, slots=True)
class FoundForm:
    """The cheapest form, or the last one that was tried.

    Attributes:
        graph: The form, simplified.
        cost: Of the whole, or why it has no kernel.
        remarks: Views that were ruled out.
    """

    graph: Graph
    cost: Cost | Refusal
    remarks: tuple[Remark, ...]


def form_with_kernel(candidates: Candidates, costs: OpCost, original: Graph) -> FoundForm | None:
    """Return the cheapest form found that has a kernel as a whole.

    Without one, the cheapest found; None if no form has kernels for all its operations.

    Args:
        candidates: The choices.
        costs: The cost model.
        original: The graph they are forms of.
    """
    first: FoundForm | None = None
    remarks: list[Remark] = []
    for _ in range(_TRIES + 1):
        given = {each: made[0] for each, made in candidates.makers.items()}
        form = extract(candidates, (given,))
        if form is None:
            break
        built = build_form(candidates, form, original)
        graph = Simplify().run_graph(built.graph).graph
        cost = costs.of_graph(graph)
        if isinstance(cost, Cost):
            return FoundForm(graph, cost, tuple(remarks))
        first = first or FoundForm(graph, cost, ())
        refusal = costs.of_graph(built.graph)  # the same, with positions that are known here
        if isinstance(refusal, Cost):
            return FoundForm(built.graph, refusal, tuple(remarks))
        each = _view_at_fault(candidates, form, built, refusal)
        if each is None:
            break
        remarks.append(_remark(candidates, form.choice[each], refusal, built))
        candidates = _without(candidates, each, form.choice[each])
    return replace(first, remarks=tuple(remarks)) if first else None


def _view_at_fault(
    candidates: Candidates, form: Form, built: BuiltForm, refusal: Refusal
) -> Value | None:
    """Return the class whose choice is to be ruled out; None if there is nothing to try.

    What is refused is a view itself, or reads one. Of views of views it is the first, from the
    reader on, that has an alternative.
    """
    for start in _suspects(candidates, form, built, refusal):
        each = start
        while _is_view(candidates, form.choice[each]):
            if _others(candidates, each, form.choice[each]):
                return each
            (each,) = candidates.nodes[form.choice[each].node].operands
    return None


def _suspects(
    candidates: Candidates, form: Form, built: BuiltForm, refusal: Refusal
) -> Iterator[Value]:
    """Yield classes of a form: what the refusal is about, then what that reads."""
    about = [built.origins[position] for position in refusal.nodes if position in built.origins]
    for position in about:
        yield from (each for each, value in form.choice.items() if value.node == position)
    for position in about:
        yield from candidates.nodes[position].operands


def _is_view(candidates: Candidates, value: Value) -> bool:
    """Return whether a value costs nothing and is made of one other."""
    node = candidates.nodes[value.node]
    return len(node.operands) == 1 and not candidates.femtoseconds[value.node]


def _others(candidates: Candidates, each: Value, refused: Value) -> tuple[Value, ...]:
    """Return what makes a class in another way than a refused view."""
    return tuple(value for value in candidates.makers[each] if value != refused)


def _without(candidates: Candidates, each: Value, refused: Value) -> Candidates:
    others = _others(candidates, each, refused)
    return replace(candidates, makers={**candidates.makers, each: others})


def _remark(candidates: Candidates, view: Value, refusal: Refusal, built: BuiltForm) -> Remark:
    """Return what is told of a view that is ruled out, at the line of what refused it."""
    node = candidates.nodes[view.node]
    (source,) = node.operands
    wide = candidates.nodes[source.node].types[source.result]
    told = (
        f"@{built.graph.name}: {node.types[view.result]} cannot be a {node.op.mnemonic} of {wide}: "
        f"{refusal.reason}"
    )
    return Remark(told, built.graph.nodes[refusal.nodes[0]].location)
