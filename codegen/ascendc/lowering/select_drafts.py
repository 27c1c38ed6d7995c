"""How drafts are chosen: which family samples them."""

from ascendfx.codegen.ascendc.kernels.branch_drafts import (
    emit_branch_drafts,
    plan_branch_drafts,
)
from ascendfx.codegen.ascendc.kernels.sample_drafts import (
    emit_sample_drafts,
    plan_sample_drafts,
)
from ascendfx.codegen.ascendc.lowering.dense_step import dense_step
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.codegen.ascendc.lowering.step import KernelStep
from ascendfx.ir.ops import BranchDrafts, SampleDrafts
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_state import DRAFT_CANDIDATES


def select_sample_drafts(context: GraphContext, position: int) -> KernelStep:
    """Return the choice of a draft for each place.

    Raises:
        GraphError: Operands are strided, the vocabulary is a named size, another number of tokens
            is kept than kernels keep, or the family refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, SampleDrafts):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    logits, ids = node.operands[0], node.operands[5]
    requests, columns = context.graph.type_of(logits).shape
    if not isinstance(columns, int):
        raise context.refusal(position, f"the row length {columns} is a named size")
    drafts, kept = (
        bind_size(size, context.capacity) for size in context.graph.type_of(ids).shape[1:]
    )
    if kept != DRAFT_CANDIDATES:
        raise context.refusal(
            position,
            f"{kept} tokens of a draft are kept, not {DRAFT_CANDIDATES}",
            hint=f"let draft_ids and draft_probs have {DRAFT_CANDIDATES} columns",
        )
    dtype = context.view(logits).dtype
    plan = plan_sample_drafts(
        requests=context.rows(requests, position),
        drafts=drafts,
        depth=op.depth,
        columns=columns,
        dtype=dtype,
        target=context.target,
    )
    name = f"sample_drafts_{op.depth}_of_{drafts}_n{columns}_{dtype.value}"
    return dense_step(context, position, plan, emit_sample_drafts, name)


def select_branch_drafts(context: GraphContext, position: int) -> KernelStep:
    """Return the choice of several drafts for each place.

    Raises:
        GraphError: Operands are strided, the vocabulary is a named size, or the family refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, BranchDrafts):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    logits = node.operands[0]
    requests, columns = context.graph.type_of(logits).shape
    if not isinstance(columns, int):
        raise context.refusal(position, f"the row length {columns} is a named size")
    dtype = context.view(logits).dtype
    plan = plan_branch_drafts(
        requests=context.rows(requests, position),
        depth=op.depth,
        branches=op.branches,
        columns=columns,
        dtype=dtype,
        target=context.target,
    )
    name = f"branch_drafts_{op.depth}_b{op.branches}_n{columns}_{dtype.value}"
    return dense_step(context, position, plan, emit_branch_drafts, name)
