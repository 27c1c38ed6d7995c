"""Which value of a changed function is the first that the function before does not have."""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Input, Param
from ascendfx.ir.text.printer import print_node
from ascendfx.passes.verification.compare_step import LOGITS, Difference
from ascendfx.passes.verification.follow_truth import Step, Truth
from ascendfx.passes.verification.run_with_noise import Noisy, NoisyObserver, tolerance

Values = dict[int, tuple[Noisy, ...]]
"""Results of the nodes of a function, by position."""

Known = dict[int, list[tuple[Array, float]]]
"""Sorted elements and how far rounding can move them, by number of elements."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node of a program.

    Attributes:
        graph: The function.
        position: The node.
    """

    graph: Graph
    position: int

    @property
    def node(self) -> Node:
        """The node itself."""
        return self.graph.nodes[self.position]

    @property
    def text(self) -> str:
        """Its line in the text form."""
        return print_node(self.graph, self.position)


def find_place(before: Step | None, after: Step, found: Difference, truth: Truth) -> Place:
    """Return where the function that ``found`` names begins to differ.

    Every value of the function before is known. A value of the function after that is none of
    them, in any order of elements, is either an intermediate step of its own or wrong. The first
    one is named whose node is not the same as one before and that the differing result needs. If
    there is none, the first value before that the function after lacks is named.
    """
    graph, values = observed(after, found.call)
    wanted = graph.outputs[found.result].node
    if before is None:
        return Place(graph, wanted)
    old_graph, old = observed(before, found.call)
    known = by_size(old, lambda array: truth.part(array, after.pick))
    position = _first_unknown(graph, values, wanted, old_graph, known)
    if position is not None:
        return Place(graph, position)
    # Nothing new is wrong, so something was left out.
    if found.result < len(old_graph.outputs):
        known = by_size(values, lambda _: None)
        old_wanted = old_graph.outputs[found.result].node
        position = _first_unknown(old_graph, old, old_wanted, graph, known)
        if position is not None:
            return Place(old_graph, position)
    return Place(graph, wanted)


def _first_unknown(
    graph: Graph, values: Values, wanted: int, other: Graph, known: Known
) -> int | None:
    """Return the first node that ``wanted`` needs, ``other`` lacks, and whose value is new."""
    for position in sorted(needed_nodes(graph, wanted) - unchanged_nodes(graph, other)):
        if isinstance(graph.nodes[position].op, Input | Param):
            continue
        results = values.get(position, ())
        if any(not is_known(each, known) for each in results if each[0].dtype.kind == "f"):
            return position
    return None


def observed(step: Step, call: int) -> tuple[Graph, Values]:
    """Run a call again, or the entry for `LOGITS`; return the function and its values."""
    values: Values = {}

    def keep(of: Graph, position: int, results: tuple[Noisy, ...]) -> None:
        if of.name == name:
            values[position] = results

    observe: NoisyObserver = keep
    runner = step.runner
    if call == LOGITS or call >= len(step.run.calls):
        name = runner.program.name
        runner.entry(step.inputs, step.follow, observe)
        return runner.program.main, values
    made = step.run.calls[call]
    name = made.call.callee
    runner.function(made.call, made.inputs, observe)
    return runner.program.by_name[name], values


def by_size(
    values: Values, part: Callable[[Array], Array | None], sizes: Container[int] | None = None
) -> Known:
    """Return the sorted elements of every value, and of the part that one step computes.

    Args:
        values: Of a function.
        part: What a step computes of a value of the truth.
        sizes: Which numbers of elements are asked for; None: all.
    """
    known: Known = {}
    for results in values.values():
        for value in results:
            if value[0].dtype.kind != "f":
                continue
            for array in _forms(value[0], part):
                if sizes is not None and array.size not in sizes:
                    continue
                known.setdefault(array.size, []).append((np.sort(array, None), tolerance(value)))
    return known


def _forms(array: Array, part: Callable[[Array], Array | None]) -> Iterator[Array]:
    yield array
    picked = part(array) if array.ndim > 1 else None
    if picked is not None and picked.size != array.size:
        yield picked


def is_known(value: Noisy, known: Known) -> bool:
    """Return whether the elements of ``value``, in any order, are those of a known one."""
    own, slack = np.sort(value[0], None), tolerance(value)
    for other, error in known.get(own.size, ()):
        with np.errstate(invalid="ignore"):
            gap = np.abs(own - other)
        if np.all((gap <= slack + error) | (own == other) | (np.isnan(own) & np.isnan(other))):
            return True
    return False


def unchanged_nodes(graph: Graph, before: Graph) -> set[int]:
    """Return the nodes that compute what some node before computes, from the same leaves."""
    numbers: dict[object, int] = {}
    old = _numbered(before, numbers)
    own = _numbered(graph, numbers)
    return {position for position, number in enumerate(own) if number in set(old)}


def _numbered(graph: Graph, numbers: dict[object, int]) -> list[int]:
    found: list[int] = []
    for node in graph.nodes:
        operands = tuple((found[v.node], v.result) for v in node.operands)
        found.append(numbers.setdefault((node.op, operands), len(numbers)))
    return found


def needed_nodes(graph: Graph, *positions: int) -> set[int]:
    """Return the nodes that those at ``positions`` need, and they themselves."""
    needed: set[int] = set()
    pending = list(positions)
    while pending:
        if (each := pending.pop()) not in needed:
            needed.add(each)
            pending += [value.node for value in graph.nodes[each].operands]
    return needed
