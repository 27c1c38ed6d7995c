"""The work of one launch: of its operations, with the bytes that cross its border."""

from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.codegen.ascendc.lowering.step import KernelStep, Operand, Scratch
from ascendfx.codegen.ascendc.work import Work
from ascendfx.codegen.ascendc.work_of_op import (
    attention_to_codes,
    bytes_of,
    vector_slots_of,
    work_of_op,
)
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import CombineExperts, GatherRows, RaggedAttention
from ascendfx.ir.size import Dim, simplify_size
from ascendfx.ir.tensor_type import TensorType


def work_of_step(context: GraphContext, step: KernelStep) -> Work:
    """Return what a launch does."""
    node = context.node(step.position)
    scratch = sum(_scratch_bytes(operand) for operand in step.operands)
    if isinstance(step.operands[0].root, Scratch):  # joins what the launch before it left there
        return Work(vector_slots=scratch // 4, bytes=simplify_size(scratch + bytes_of(*node.types)))
    if len(step.covers) > 1 and not isinstance(node.op, CombineExperts):
        return _chain(context, step)
    operands = [context.graph.type_of(value) for value in node.operands]
    codes = _codes_read(context, step)
    if codes:
        work = attention_to_codes(node.op, operands, node.types, codes)
    else:
        work = work_of_op(node.op, operands, node.types, chosen=context.pairs_per_row)
    return work.with_bytes(scratch + bytes_of(*_added(context, step)))


def _codes_read(context: GraphContext, step: KernelStep) -> list[TensorType]:
    """Return codes and scales of cached tokens that attention decodes by itself."""
    node = context.node(step.position)
    if not isinstance(node.op, RaggedAttention):
        return []
    codes = context.codes_of(node.op.roles(node.operands).keys[0])
    caches = {operand.root for operand in step.operands}
    if codes is None or context.view(codes.codes).root not in caches:
        return []
    tokens = context.graph.type_of(Value(codes.covers[-1])).shape[:2]
    kinds = map(context.graph.type_of, (codes.codes, codes.scales))
    return [kind.with_shape((*tokens, *kind.shape[2:])) for kind in kinds]


def _scratch_bytes(operand: Operand) -> int:
    root = operand.root
    return root.elements * root.dtype.bytes if isinstance(root, Scratch) else 0


def _added(context: GraphContext, step: KernelStep) -> list[TensorType]:
    """Return what a launch reads for the additions it makes on the way out."""
    own = context.node(step.position).operands
    inside = set(step.covers)
    values = {
        value: None
        for position in step.covers
        if position != step.position
        for value in context.node(position).operands
        if value.node not in inside and value not in own
    }
    return [context.graph.type_of(value) for value in values]


def _chain(context: GraphContext, step: KernelStep) -> Work:
    inside = set(step.covers)
    vector_slots: Dim = 0
    looked_up: Dim = 0
    read: dict[Value, None] = {}
    for position in step.covers:
        node = context.node(position)
        operands = [context.graph.type_of(value) for value in node.operands]
        if isinstance(node.op, GatherRows):  # of the table, as many rows as there are numbers
            looked_up += bytes_of(*node.types)
            read[node.operands[1]] = None
            continue
        vector_slots += vector_slots_of(node.op, operands, node.types)
        read.update(
            (value, None) for value in node.operands if context.view(value).root.node not in inside
        )
    written = [
        context.graph.type_of(operand.root)
        for operand in dict.fromkeys(step.operands)
        if isinstance(operand.root, Value) and operand.root.node in inside
    ]
    moved = simplify_size(bytes_of(*map(context.graph.type_of, read), *written) + looked_up)
    return Work(vector_slots=simplify_size(vector_slots), bytes=moved)
