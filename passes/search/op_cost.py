"""What the search asks about costs: declared here, answered by a target above."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Op
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Cost:
    """Modelled figures.

    Attributes:
        seconds: Time; what the search minimises.
        bytes: Moved between device memory and the chip.
        operations: Of the cube and the vector unit; not all are in floating point.
    """

    seconds: float
    bytes: float
    operations: float

    @property
    def femtoseconds(self) -> int:
        """Time as a whole number: sums do not depend on their order."""
        return round(self.seconds * 1e15)


@dataclass(frozen=True, slots=True)
class Refusal:
    """No kernel computes it.

    Attributes:
        reason: Why.
        nodes: Positions of the nodes of a refused graph that it is about, empty if unknown.
    """

    reason: str
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OpSite:
    """An operation and what is known about its surroundings.

    Attributes:
        op: The operation.
        operands: Types of its operands.
        results: Types of its results.
        classes: For each operand a number; equal numbers are equal values.
    """

    op: Op
    operands: Sequence[TensorType]
    results: Sequence[TensorType]
    classes: Sequence[int]


class OpCost(Protocol):
    """A cost model.

    An implementation is a frozen dataclass and keeps no state, so that a pass can be written down
    with it and run again elsewhere.
    """

    def of_op(self, site: OpSite) -> Cost | Refusal:
        """Return what an operation adds to a step; nothing for names of memory."""
        ...

    def of_graph(self, graph: Graph) -> Cost | Refusal:
        """Return what a graph costs as it will be lowered, operations joined into kernels."""
        ...
