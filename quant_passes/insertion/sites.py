"""Where a program multiplies by weights of the checkpoint: what may be quantized."""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import Call, GroupedLinear, Linear, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import TensorType
from ascendfx.quant_passes.migration.transform_name import is_migrated, original_name

PRODUCTS = (Linear, GroupedLinear)
"""Operations whose second operand is a weight ``[.., out, in]``."""


@dataclass(frozen=True, slots=True)
class Site:
    """A projection by a weight of the checkpoint, in one call of its function.

    Attributes:
        key: The weight in the checkpoint.
        kind: Its type: ``[out, in]``, of stacked experts ``[experts, out, in]``.
        graph: The function that reads it.
        parameter: What the weight is called there; in the entry the key itself, where transforms
            were not folded into it.
    """

    key: str
    kind: TensorType
    graph: str
    parameter: str

    @property
    def experts(self) -> int:
        """Matrices that share the key."""
        return int(self.kind.shape[0]) if self.kind.rank == 3 else 1  # axes


def sites_of(program: Program) -> tuple[Site, ...]:
    """Return the sites of a program, those of the entry first, then call by call.

    A weight that two operations read is one site. What a program computes of its weights first is
    no site.
    """
    found: dict[str, Site] = {}
    for graph, call in function_uses(program):
        for parameter, kind in parameters_of(program, graph).items():
            key = key_of(call, parameter)
            found.setdefault(key, Site(key, kind, graph.name, parameter))
    return tuple(found.values())


def parameters_of(program: Program, graph: Graph) -> dict[str, TensorType]:
    """Return name and type of each parameter by which a graph projects floats, in order.

    What is computed of weights is none, unless it is a weight with transforms.
    """
    found: dict[str, TensorType] = {}
    for node in graph.nodes:
        op = weight_of(graph, node)
        if op is None:
            continue
        if is_migrated(op.name) or (graph.name, op.name) not in program.recipes:
            found.setdefault(op.name, op.type)
    return found


def key_of(call: Call | None, parameter: str) -> str:
    """Return the checkpoint key of a weight that a function projects by.

    Args:
        call: What calls the function; None for the entry.
        parameter: What the weight is called there.
    """
    name = original_name(parameter)
    return call.key_of(name) if call else name


def weight_of(graph: Graph, node: Node) -> Param | None:
    """Return the parameter by which a node projects; None if it does not, or multiplies codes."""
    if not isinstance(node.op, PRODUCTS):
        return None
    op = graph.op_of(node.operands[1])
    return op if isinstance(op, Param) and op.type.dtype.is_float else None


def reads_cache(graph: Graph, value: Value) -> bool:
    """Return whether the rows of a value are those of the context, read from a cache."""
    return "context" in graph.type_of(value).names


def function_uses(program: Program) -> Iterator[tuple[Graph, Call | None]]:
    """Return the entry with None, then each called function with its call, in order of calls."""
    yield program.main, None
    for graph in program.graphs:
        for node in graph.nodes:
            if isinstance(node.op, Call):
                yield program.by_name[node.op.callee], node.op
