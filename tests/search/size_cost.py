"""A cost model without a chip: bytes and products of a few rows; every operation has a kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import (
    Constant,
    HeadLinear,
    Input,
    Iota,
    Linear,
    Matmul,
    Param,
    Reshape,
    Slice,
    Transpose,
)
from ascendfx.ir.size import bind_size, product
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.search.op_cost import Cost, OpSite

_FREE = (Reshape, Slice, Transpose)


@dataclass(frozen=True, slots=True)
class SizeCost:
    """Seconds are elements moved and a tenth of the products."""

    rows: int = 3

    def of_op(self, site: OpSite) -> Cost:
        if isinstance(site.op, _FREE):
            return Cost(0.0, 0.0, 0.0)
        moved = sum(self._elements(kind) for kind in (*site.operands, *site.results))
        operations = 0
        if isinstance(site.op, Linear | HeadLinear | Matmul):
            operations = self._elements(site.results[0]) * bind_size(site.operands[0].shape[-1], {})
        return Cost(moved + operations / 10, moved, operations)

    def of_graph(self, graph: Graph) -> Cost:
        costs = [self.of_op(site) for site in _varying(graph)]
        return Cost(
            sum(cost.seconds for cost in costs),
            sum(cost.bytes for cost in costs),
            sum(cost.operations for cost in costs),
        )

    def _elements(self, kind: TensorType) -> int:
        return bind_size(product(kind.shape), {"rows": self.rows})


def _varying(graph: Graph) -> Sequence[OpSite]:
    """Return the operations that weights alone do not decide, each once."""
    constant: set[int] = set()
    sites: dict[object, OpSite] = {}
    for position, node in enumerate(graph.nodes):
        if isinstance(node.op, Param | Constant | Iota) or (
            node.operands and all(value.node in constant for value in node.operands)
        ):
            constant.add(position)
        elif not isinstance(node.op, Input):
            kinds = tuple(map(graph.type_of, node.operands))
            site = OpSite(node.op, kinds, node.types, tuple(v.node for v in node.operands))
            sites[node.op, node.operands] = site
    return list(sites.values())
