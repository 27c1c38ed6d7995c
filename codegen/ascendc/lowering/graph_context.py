"""What the selection of kernels needs to know about one graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.lowering.cached_codes import CachedCodes, find_cached_codes
from ascendfx.codegen.ascendc.lowering.resolve_views import ResolvedViews
from ascendfx.codegen.ascendc.lowering.row_space import row_size
from ascendfx.codegen.ascendc.lowering.step import Operand
from ascendfx.codegen.ascendc.lowering.view import (
    CapacityOf,
    View,
    capacities,
    reshape_view,
    row_major,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import CacheRead, Input
from ascendfx.ir.size import Dim, product
from ascendfx.ir.text.printer import print_node


@dataclass(frozen=True)
class GraphContext:
    """One graph with its views.

    Attributes:
        graph: A graph of the serving form.
        views: Where its values lie.
        constants: Positions of nodes that depend on weights alone; the weight program makes them.
        layouts: ``nz`` or ``nd`` for constants.
        capacity: Largest value of each named size.
        pairs_per_row: Experts per token, 0 without experts.
        target: The chip.
    """

    graph: Graph
    views: ResolvedViews
    constants: frozenset[int]
    layouts: Mapping[Value, str]
    capacity: CapacityOf
    pairs_per_row: int
    target: Target

    def node(self, position: int) -> Node:
        """Return the node at a position."""
        return self.graph.nodes[position]

    def view(self, value: Value) -> View:
        """Return where a value lies."""
        return self.views.of[value]

    def operand(self, value: Value) -> Operand:
        """Return the buffer of a value from its very start."""
        return Operand(self.view(value).root)

    def dense_operand(self, value: Value, position: int) -> Operand:
        """Return the operand of a kernel that takes no strides.

        Raises:
            GraphError: The value is a strided view.
        """
        view = self.view(value)
        if not self.is_dense(view):
            raise self.refusal(
                position,
                f"operand {view.type()} is not contiguous (strides {view.strides})",
                hint="this kernel takes dense operands only; move the slice or transpose behind it",
                operand=value,
            )
        return Operand(view.root, view.offset * view.dtype.bytes)

    def is_dense(self, view: View) -> bool:
        """Return whether the elements of a view follow each other in row-major order."""
        shape = capacities(view.shape, self.capacity)
        dense = row_major(shape)
        return all(
            size == 1 or stride == wanted
            for size, stride, wanted in zip(shape, view.strides, dense, strict=True)
        )

    @cached_property
    def cached_codes(self) -> Mapping[int, CachedCodes]:
        """The numbers that are made of cached codes, by position."""
        return find_cached_codes(self.graph, self.views.of, self.constants)

    def codes_of(self, value: Value) -> CachedCodes | None:
        """Return the cached codes that a value is a view of the numbers of."""
        return self.cached_codes.get(self.view(value).root.node)

    def is_paged(self, value: Value) -> bool:
        """Return whether a value is a view of tokens read from a cache, of codes or numbers."""
        read = isinstance(self.graph.op_of(self.view(value).root), CacheRead)
        return read or self.codes_of(value) is not None

    def rows(self, size: Dim, position: int) -> DeviceSize:
        """Return where the device finds a row count.

        Raises:
            GraphError: It is not told.
        """
        try:
            return row_size(size, self.capacity, self.pairs_per_row)
        except GraphError as error:
            raise self.refusal(position, error.reason, hint=error.hint) from error

    def refusal(
        self, position: int, reason: str, *, hint: str = "", operand: Value | None = None
    ) -> GraphError:
        """Return the error for a node no kernel can compute, at best with the operand at fault."""
        node = self.node(position)
        return GraphError(
            code="no-kernel",
            reason=f"{node.op.mnemonic}: {reason}",
            location=node.location,
            excerpt=print_node(self.graph, position),
            hint=hint,
            nodes=(position,) if operand is None else (position, operand.node),
        )


def find_constants(graph: Graph) -> frozenset[int]:
    """Return the positions of nodes whose results are the same in every step."""
    found: set[int] = set()
    for position, node in enumerate(graph.nodes):
        varies = isinstance(node.op, Input) or any(kind.names for kind in node.types)
        if not varies and all(operand.node in found for operand in node.operands):
            found.add(position)
    return frozenset(found)


def rows_and_columns(context: GraphContext, view: View, columns: int) -> View | None:
    """Return a view as ``[rows, columns]``, or None if its leading axes do not merge."""
    leading = view.shape
    inner = 1
    while leading and inner < columns:
        last = leading[-1]
        if not isinstance(last, int):
            return None
        inner *= last
        leading = leading[:-1]
    if inner != columns:
        return None
    return reshape_view(view, (product(leading), columns), context.capacity)
