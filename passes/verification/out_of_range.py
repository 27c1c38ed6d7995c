"""Which new value of a changed function does not fit into its format, where none did so before.

Truth is float64: there, a factor of 2^127 twice and back again is the identity, while in f32 it
leaves infinities. So ranges are looked at by themselves. A value overflows if it is finite and its
format would make it infinite; a result vanishes if most of its elements that are not zero are below
the smallest normal number, so that digits or all of them are lost (IEEE 754-2019, sections 3.3, 7.4
and 7.5). What the function before did with values of the same format, the model does: that is no
mistake of the pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from ml_dtypes import finfo

from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Array
from ascendfx.ir.ops import (
    Add,
    Divide,
    Exp,
    Multiply,
    Power,
    Reciprocal,
    ReduceSum,
    Rsqrt,
    Subtract,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.verification.changed_functions import changed_functions
from ascendfx.passes.verification.first_difference import (
    Place,
    Values,
    needed_nodes,
    observed,
    unchanged_nodes,
)
from ascendfx.passes.verification.follow_truth import Step

_SCALING = (Add, Divide, Exp, Multiply, Power, Reciprocal, ReduceSum, Rsqrt, Subtract)
"""What moves values to another order of magnitude. Products with weights do, too, but their values
are those of the model; leaving them out saves running most changed functions again."""

OVERFLOWS, VANISHES = "overflows", "vanishes in"


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """A value that its format cannot hold.

    Attributes:
        place: The node that makes it.
        what: `OVERFLOWS` or `VANISHES`.
        stored: The format.
        value: Its largest magnitude in float64.
    """

    place: Place
    what: str
    stored: DType
    value: float


def out_of_range(before: Step, after: Step) -> OutOfRange | None:
    """Return the first new value that does not fit, if there is one."""
    for call, graph, old in changed_functions(before, after):
        suspects = _suspects(graph, old)
        if not suspects:
            continue
        _, values = observed(after, call)
        found = [each for position in suspects for each in _misfits(graph, position, values)]
        if not found:
            continue
        _, known = observed(before, call)
        usual = {
            (each.what, each.stored)
            for position in known
            for each in _misfits(old, position, known)
        }
        for each in found:
            if (each.what, each.stored) not in usual:
                return each
    return None


def _suspects(graph: Graph, old: Graph) -> list[int]:
    needed = needed_nodes(graph, *(value.node for value in graph.outputs))
    new = sorted(needed - unchanged_nodes(graph, old))
    return [position for position in new if isinstance(graph.nodes[position].op, _SCALING)]


def _misfits(graph: Graph, position: int, values: Values) -> Iterator[OutOfRange]:
    for kind, (value, _) in zip(graph.nodes[position].types, values[position], strict=True):
        if kind.dtype.is_float and (what := _misfit(kind.dtype, value)):
            largest = float(np.abs(value[np.isfinite(value)]).max())
            yield OutOfRange(Place(graph, position), what, kind.dtype, largest)


def _misfit(stored: DType, value: Array) -> str:
    sizes = np.abs(value[np.isfinite(value) & (value != 0)])
    if not sizes.size:
        return ""
    with np.errstate(over="ignore"):
        if np.isinf(sizes.max().astype(stored.numpy)):
            return OVERFLOWS
    return VANISHES if np.median(sizes) < float(finfo(stored.numpy).smallest_normal) else ""
