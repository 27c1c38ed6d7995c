"""How a step prepares the next one: which family packs, verifies, shifts and advances."""

from dataclasses import replace

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.advance_requests import (
    emit_advance_requests,
    plan_advance_requests,
)
from ascendfx.codegen.ascendc.kernels.align_drafts import emit_align_drafts, plan_align_drafts
from ascendfx.codegen.ascendc.kernels.move_entries import emit_move_entries, plan_move_entries
from ascendfx.codegen.ascendc.kernels.pack_rows import emit_pack_rows, plan_pack_rows
from ascendfx.codegen.ascendc.kernels.shift_tokens import emit_shift_tokens, plan_shift_tokens
from ascendfx.codegen.ascendc.kernels.verify_drafts import emit_verify_drafts, plan_verify_drafts
from ascendfx.codegen.ascendc.kernels.verify_tree import emit_verify_tree, plan_verify_tree
from ascendfx.codegen.ascendc.lowering.dense_step import dense_step
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.codegen.ascendc.lowering.step import KernelStep
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import (
    AdvanceRequests,
    AlignDrafts,
    MoveEntries,
    PackRows,
    ShiftTokens,
    VerifyDrafts,
    VerifyTree,
)
from ascendfx.ir.packed_rows import PACKED_ROWS
from ascendfx.ir.size import Dim, bind_size, product
from ascendfx.ir.tensor_type import DType


def select_pack_rows(context: GraphContext, position: int) -> KernelStep:
    """Return what moves the rows of all places together.

    Raises:
        GraphError: Operands are strided, their rows are not those of the places, the device is told
            of other pairs, or the family refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, PackRows):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    rows, state, sizes = (node.operands[i] for i in (0, 3, 4))
    _check_rows(context, position, rows, state, op.drafts)
    if op.pairs != context.pairs_per_row or op.rows != PACKED_ROWS:
        raise context.refusal(
            position,
            f"`{op.rows}` rows with {op.pairs} pairs each, not `{PACKED_ROWS}` with "
            f"{context.pairs_per_row}",
            hint="let the pass drop-placeholders write this operation",
        )
    plan = plan_pack_rows(
        requests=context.rows(_first_axis(context, state), position),
        drafts=op.drafts,
        pairs=op.pairs,
        target=context.target,
    )
    step = dense_step(context, position, plan, emit_pack_rows, f"pack_rows_k{op.drafts}")
    written = context.dense_operand(sizes, position)  # the kernel has it as its own sizes
    return replace(step, operands=tuple(each for each in step.operands if each != written))


def select_verify_drafts(context: GraphContext, position: int) -> KernelStep:
    """Return the comparison of drafts with what was sampled.

    Raises:
        GraphError: Operands are strided, their rows are not those of the places, or the family
            refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, VerifyDrafts):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    _check_rows(context, position, node.operands[0], node.operands[2], op.drafts)
    plan = plan_verify_drafts(
        requests=context.rows(_first_axis(context, node.operands[2]), position),
        drafts=op.drafts,
        rows=_packed(context, position, node.operands[0], packed=op.packed),
        target=context.target,
    )
    name = f"verify_drafts{'_packed' * op.packed}_k{op.drafts}"
    return dense_step(context, position, plan, emit_verify_drafts, name)


def select_verify_tree(context: GraphContext, position: int) -> KernelStep:
    """Return the comparison of a tree of drafts with what was sampled.

    Raises:
        GraphError: Operands are strided, their rows are not those of the places, or the family
            refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, VerifyTree):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    _check_rows(context, position, node.operands[0], node.operands[2], len(op.parents) - 1)
    plan = plan_verify_tree(
        requests=context.rows(_first_axis(context, node.operands[2]), position),
        parents=op.parents,
        target=context.target,
    )
    name = f"verify_tree_n{len(op.parents)}"
    return dense_step(context, position, plan, emit_verify_tree, name)


def select_move_entries(context: GraphContext, position: int) -> KernelStep:
    """Return the move of accepted entries to where a chain's stand.

    Raises:
        GraphError: Operands are strided, or the family refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, MoveEntries):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    *caches, table, state, _path = node.operands
    kinds = [context.graph.type_of(each) for each in caches]
    formats = {context.view(each).dtype for each in caches}
    dtype = formats.pop() if len(formats) == 1 else DType.I8  # of several, bytes
    blocks, block, *columns = (
        bind_size(size, context.capacity)
        for size in (
            *kinds[0].shape[:2],
            *(product(kind.shape[2:]) * kind.dtype.bytes // dtype.bytes for kind in kinds),
        )
    )
    plan = plan_move_entries(
        requests=context.rows(_first_axis(context, state), position),
        nodes=op.nodes,
        columns=columns,
        cache_blocks=blocks,
        block=block,
        table_blocks=bind_size(context.graph.type_of(table).shape[1], context.capacity),
        dtype=dtype,
        target=context.target,
    )
    name = f"move_entries_c{len(caches)}_{dtype.value}"
    return dense_step(context, position, plan, emit_move_entries, name)


def select_align_drafts(context: GraphContext, position: int) -> KernelStep:
    """Return the rows of draft layers that end at the last accepted token.

    Raises:
        GraphError: Operands are strided, their rows are not those of the places, or the family
            refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, AlignDrafts):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    rows, table, state = node.operands[:3]
    _check_rows(context, position, rows, state, op.rows - 1)
    plan = plan_align_drafts(
        requests=context.rows(_first_axis(context, state), position),
        drafts=op.drafts,
        nodes=op.nodes,
        block=op.block,
        table_blocks=bind_size(context.graph.type_of(table).shape[1], context.capacity),
        packed=_packed(context, position, Value(position, 4), packed=op.packed != 0),
        target=context.target,
    )
    packed = "_packed" * (op.packed != 0)
    name = f"align_drafts{packed}_k{op.drafts}" + f"_n{op.nodes}" * bool(op.nodes)
    return dense_step(context, position, plan, emit_align_drafts, name)


def select_shift_tokens(context: GraphContext, position: int) -> KernelStep:
    """Return the tokens of a draft layer.

    Raises:
        GraphError: Operands are strided, or the family refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, ShiftTokens):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    known = context.graph.type_of(node.operands[4]).shape[1] if op.known else 0
    plan = plan_shift_tokens(
        rows=context.rows(_first_axis(context, node.operands[0]), position),
        requests=context.rows(_first_axis(context, node.operands[1]), position),
        depth=op.depth if op.known else 0,
        known=bind_size(known, context.capacity),
        target=context.target,
    )
    name = f"shift_tokens_known_{op.depth}" if op.known else "shift_tokens"
    return dense_step(context, position, plan, emit_shift_tokens, name)


def select_advance_requests(context: GraphContext, position: int) -> KernelStep:
    """Return what makes the rows and states of the next step, in place.

    Raises:
        GraphError: Operands are strided, their rows are not those of the places, the vocabulary is
            a named size, or the family refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, AdvanceRequests):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    rows, table, state, emitted, counts = (node.operands[i] for i in (0, 3, 4, 8, 10))
    _check_rows(context, position, rows, state, op.drafts)
    counted, vocabulary = context.graph.type_of(counts).shape
    if not isinstance(vocabulary, int):
        raise context.refusal(position, f"the vocabulary {vocabulary} is a named size")
    plan = plan_advance_requests(
        requests=context.rows(_first_axis(context, state), position),
        drafts=op.drafts,
        block=op.block,
        table_blocks=bind_size(context.graph.type_of(table).shape[1], context.capacity),
        steps=bind_size(_first_axis(context, emitted), context.capacity),
        counted=bind_size(counted, context.capacity),
        vocabulary=vocabulary,
        drafting=len(node.operands) > op.fixed,
        parents=op.parents,
        target=context.target,
    )
    name = f"advance_requests_{'n' if op.parents else 'k'}{op.drafts}"
    return dense_step(context, position, plan, emit_advance_requests, name)


def _packed(
    context: GraphContext, position: int, rows: Value, *, packed: bool
) -> DeviceSize | None:
    """Return where the number of packed rows stands, if they are packed."""
    return context.rows(_first_axis(context, rows), position) if packed else None


def _first_axis(context: GraphContext, value: Value) -> Dim:
    return context.graph.type_of(value).shape[0]


def _check_rows(
    context: GraphContext, position: int, rows: Value, state: Value, drafts: int
) -> None:
    """Check that a step has room for the rows of all places.

    Raises:
        GraphError: It has room for more or fewer.
    """
    found = bind_size(_first_axis(context, rows), context.capacity)
    places = bind_size(_first_axis(context, state), context.capacity)
    if found != places * (drafts + 1):
        raise context.refusal(
            position,
            f"{found} rows are not the rows of {places} places with {drafts} drafts each",
            hint=f"lower the program for {places * (drafts + 1)} rows",
        )
