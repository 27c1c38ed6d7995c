"""How tokens are chosen: which family samples."""

from ascendfx.codegen.ascendc.kernels.sample_tokens import (
    emit_sample_tokens,
    plan_sample_tokens,
)
from ascendfx.codegen.ascendc.lowering.dense_step import dense_step
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.codegen.ascendc.lowering.row_space import row_suffix
from ascendfx.codegen.ascendc.lowering.step import KernelStep
from ascendfx.ir.ops import SampleTokens
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_state import DRAFT_CANDIDATES


def select_sample_tokens(context: GraphContext, position: int) -> KernelStep:
    """Return the choice of a token for each row.

    Raises:
        GraphError: Operands are strided, the vocabulary is a named size, or the family refuses.
    """
    node = context.node(position)
    op, operands = node.op, node.operands
    if not isinstance(op, SampleTokens):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    logits, options, *_, counts = operands[:7]
    rows, columns = context.graph.type_of(logits).shape
    if not isinstance(columns, int):
        raise context.refusal(position, f"the row length {columns} is a named size")
    dtype = context.view(logits).dtype
    chosen = context.rows(rows, position)
    recorded = context.graph.type_of(operands[8]).shape[2] if op.drafts else DRAFT_CANDIDATES
    if not isinstance(recorded, int):
        raise context.refusal(position, f"the number {recorded} of recorded tokens is a named size")
    plan = plan_sample_tokens(
        rows=chosen,
        requests=bind_size(context.graph.type_of(options).shape[0], context.capacity),
        places=bind_size(context.graph.type_of(counts).shape[0], context.capacity),
        columns=columns,
        dtype=dtype,
        target=context.target,
        drafts=op.drafts,
        recorded=recorded,
    )
    suffix = f"_d{op.drafts}" if op.drafts else ""
    name = f"sample_tokens{row_suffix(chosen)}_n{columns}_{dtype.value}{suffix}"
    return dense_step(context, position, plan, emit_sample_tokens, name)
