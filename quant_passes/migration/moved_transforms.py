"""Values that are transforms, and rules that move them alone."""

from collections.abc import Callable, Collection
from dataclasses import replace

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import Cast, Constant, Param, Transpose
from ascendfx.passes.rotation_parameter import is_rotation_name
from ascendfx.passes.rule import Precondition, Rule, Site
from ascendfx.quant_passes.migration.transform_name import is_transform_name


def is_transform(graph: Graph, value: Value, gains: Collection[str] = ()) -> bool:
    """Whether a value is computed of transforms, and gains that became factors, alone."""
    found = graph.part((value,)).nodes
    leaves = [node.op for node in found if not node.operands]
    named = [each.name for each in leaves if isinstance(each, Param)]
    rest = all(isinstance(each, Param | Constant) for each in leaves)
    return rest and bool(named) and all(is_transform_name(n) or n in gains for n in named)


def is_forward(graph: Graph, value: Value) -> bool:
    """Whether a value is a rotation, in any format."""
    op = _without_casts(graph, value)
    return isinstance(op, Param) and is_rotation_name(op.name)


def is_backward(graph: Graph, value: Value) -> bool:
    """Whether a value is a rotation that is turned back, in any format."""
    return isinstance(_without_casts(graph, value), Transpose) and is_transform(graph, value)


def on_transforms(rule: Rule, operand: str, holds: Callable[[Graph, Value], bool]) -> Rule:
    """Return a rule that is applied where one of its operands is a certain transform.

    It holds wherever the rule holds, and leaves the rest of the program alone.
    """

    def fits(site: Site) -> bool:
        return holds(site.graph, site.bound[operand])

    alone = Precondition("no-transform", fits, "what is moved is no transform")
    return replace(rule, when=(alone, *rule.when))


def _without_casts(graph: Graph, value: Value) -> object:
    while isinstance(op := graph.op_of(value), Cast):
        (value,) = graph.nodes[value.node].operands
    return op
