"""A launch that computes one node, whose arguments are its operands and results in their order."""

from collections.abc import Callable
from typing import Any

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.codegen.ascendc.lowering.step import KernelStep
from ascendfx.ir.graph import Value


def dense_step(
    context: GraphContext,
    position: int,
    plan: Any,
    emit: Callable[[Any, str], Kernel],
    name: str,
) -> KernelStep:
    """Return the launch; results that take the place of an operand are no arguments of their own.

    Args:
        context: Of the graph.
        position: Of the node.
        plan: Of the family.
        emit: Its emitter.
        name: Of the kernel.

    Raises:
        GraphError: An operand or a result is strided.
    """
    node = context.node(position)
    results = (Value(position, i) for i in range(len(node.types)) if i not in node.op.in_place)
    return KernelStep(
        plan=plan,
        emit=emit,
        name=name,
        operands=tuple(
            context.dense_operand(value, position) for value in (*node.operands, *results)
        ),
        position=position,
        covers=(position,),
    )
