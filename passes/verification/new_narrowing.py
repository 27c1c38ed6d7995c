"""Which value of a changed function is stored in a narrower format than in the function before.

Truth is float64, which sees no format: a cast to bf16 and back is the identity there. So formats
are compared by themselves. A value is stored narrowly by an operation whose result cannot hold
every number of an operand, and by a parameter. The function before may have stored the same numbers
as narrowly: then a cast was moved or left alone. If it has them in wider formats alone, or if it
has them nowhere and has fewer such operations, a rounding was added that no promise covers: its
unit roundoff is that of the narrow format.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Input, Param
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.verification.changed_functions import changed_functions
from ascendfx.passes.verification.first_difference import (
    Known,
    Place,
    Values,
    by_size,
    is_known,
    needed_nodes,
    observed,
    unchanged_nodes,
)
from ascendfx.passes.verification.follow_truth import Step, Truth


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A value with fewer digits than it had.

    Attributes:
        place: The node that stores it.
        stored: Its format.
        held: The narrowest format of the same numbers in the other function; None if it has none.
    """

    place: Place
    stored: DType
    held: DType | None


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every number of the float format ``narrow`` is one of ``wide``."""
    if wide is narrow or wide is DType.F64:
        return True
    return wide is DType.F32 and narrow in (DType.F16, DType.BF16)


def new_narrowing(before: Step, after: Step, truth: Truth) -> Narrowing | None:
    """Return the first value of ``after`` that ``before`` has in wider formats, if there is one."""
    for call, graph, old in changed_functions(before, after):
        suspects = _suspects(graph, old)
        if suspects and (found := _narrowed(before, after, call, suspects, truth)):
            return found
    return None


def _suspects(graph: Graph, old: Graph) -> list[int]:
    """Return the new nodes that store something narrowly, and that outputs need."""
    formats = {kind.dtype for node in old.nodes for kind in node.types if kind.dtype.is_float}
    needed = needed_nodes(graph, *(value.node for value in graph.outputs))
    found: list[int] = []
    for position in sorted(needed - unchanged_nodes(graph, old)):
        node = graph.nodes[position]
        stored = node.types[0].dtype
        param = isinstance(node.op, Param) and stored.is_float
        narrow = param and not all(holds(stored, each) for each in formats)
        if narrow or _conversion(graph, position) is not None:
            found.append(position)
    return found


def _conversion(graph: Graph, position: int) -> tuple[DType, DType] | None:
    """Return the format of an operand that the format of the result does not hold, and the latter.

    Source of what rounds: a format holds another one if it has its digits and its exponents (IEEE
    754-2019, table 3.5).
    """
    node = graph.nodes[position]
    stored = node.types[0].dtype
    if isinstance(node.op, Input) or not stored.is_float:
        return None
    given = [graph.type_of(value).dtype for value in node.operands]
    wide = [each for each in given if each.is_float and not holds(stored, each)]
    return (wide[0], stored) if wide else None


def _narrowed(
    before: Step, after: Step, call: int, suspects: list[int], truth: Truth
) -> Narrowing | None:
    graph, values = observed(after, call)
    old_graph, old = observed(before, call)
    sizes = {values[position][0][0].size for position in suspects}
    known = _by_format(old_graph, old, lambda array: truth.part(array, after.pick), sizes)
    more = _conversions(graph) - _conversions(old_graph)
    for position in suspects:
        stored = graph.nodes[position].types[0].dtype
        (value, *_) = values[position]
        if not np.isfinite(value[0]).any():
            continue
        held = [each for each, numbers in known.items() if is_known(value, numbers)]
        if any(holds(stored, each) for each in held):
            continue
        if held:
            narrowest = max(held, key=lambda each: each.unit_roundoff)
            return Narrowing(Place(graph, position), stored, narrowest)
        if more[_conversion(graph, position)]:
            return Narrowing(Place(graph, position), stored, None)
    return None


def _by_format(
    graph: Graph, values: Values, part: Callable[[Array], Array | None], sizes: set[int]
) -> dict[DType, Known]:
    """Return the numbers of a function by the format that it stores them in."""
    stored: dict[DType, Values] = {}
    for position, results in values.items():
        for kind, value in zip(graph.nodes[position].types, results, strict=True):
            if kind.dtype.is_float:
                same = stored.setdefault(kind.dtype, {})
                same[position] = (*same.get(position, ()), value)
    return {dtype: by_size(each, part, sizes) for dtype, each in stored.items()}


def _conversions(graph: Graph) -> Counter[tuple[DType, DType] | None]:
    needed = needed_nodes(graph, *(value.node for value in graph.outputs))
    return Counter(found for each in needed if (found := _conversion(graph, each)))
