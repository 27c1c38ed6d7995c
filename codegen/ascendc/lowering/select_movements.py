"""Rows moved by number, routing of experts, sampling: which vector family computes them."""

from ascendfx.codegen.ascendc.kernels.argmax import emit_argmax, plan_argmax
from ascendfx.codegen.ascendc.kernels.combine_experts import (
    emit_combine_experts,
    plan_combine_experts,
)
from ascendfx.codegen.ascendc.kernels.dispatch_experts import (
    emit_dispatch_experts,
    plan_dispatch_experts,
)
from ascendfx.codegen.ascendc.kernels.gather_rows import emit_gather_rows, plan_gather_rows
from ascendfx.codegen.ascendc.kernels.route_topk import emit_route_topk, plan_route_topk
from ascendfx.codegen.ascendc.kernels.route_topk_plan import GroupScore, Routing, Scoring
from ascendfx.codegen.ascendc.kernels.row_groups import emit_row_groups, plan_row_groups
from ascendfx.codegen.ascendc.kernels.vector_kernel import RowView
from ascendfx.codegen.ascendc.kernels.write_cache import emit_write_cache, plan_write_cache
from ascendfx.codegen.ascendc.lowering.absorb_additions import AddedRows
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext, rows_and_columns
from ascendfx.codegen.ascendc.lowering.row_space import row_suffix
from ascendfx.codegen.ascendc.lowering.step import KernelStep
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import DispatchExperts, RouteTopk, RowGroups
from ascendfx.ir.size import Dim, bind_size, product


def select_gather_rows(context: GraphContext, position: int) -> KernelStep:
    """Return rows of a table by number.

    Raises:
        GraphError: Table, ids or result are strided, or the family refuses.
    """
    table, ids = context.node(position).operands
    rows, *inner = context.graph.type_of(table).shape
    columns = _number(context, product(inner), position)
    dtype = context.view(table).dtype
    chosen = context.rows(product(context.graph.type_of(ids).shape), position)
    plan = plan_gather_rows(
        rows=chosen,
        columns=columns,
        table_rows=bind_size(rows, context.capacity),
        dtype=dtype,
        target=context.target,
    )
    operands = (table, ids, Value(position))
    return KernelStep(
        plan=plan,
        emit=emit_gather_rows,
        name=f"gather_rows{row_suffix(chosen)}_n{columns}_{dtype.value}",
        operands=tuple(context.dense_operand(value, position) for value in operands),
        position=position,
        covers=(position,),
    )


def select_row_groups(context: GraphContext, position: int) -> KernelStep:
    """Return the group of each row.

    Raises:
        GraphError: The ends are strided, or the family refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, RowGroups):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    (ends,) = node.operands
    groups = _number(context, context.graph.type_of(ends).shape[0], position)
    rows = context.rows(op.size, position)
    return KernelStep(
        plan=plan_row_groups(rows=rows, groups=groups, target=context.target),
        emit=emit_row_groups,
        name=f"row_groups{row_suffix(rows)}_e{groups}",
        operands=(
            context.dense_operand(ends, position),
            context.dense_operand(Value(position), position),
        ),
        position=position,
        covers=(position,),
    )


def select_cache_write(context: GraphContext, position: int) -> KernelStep:
    """Return the store of new rows into a cache, in place.

    Raises:
        GraphError: The rows have no regular distance, or the family refuses.
    """
    cache, slots, x = context.node(position).operands
    blocks, block, *inner = context.graph.type_of(cache).shape
    columns = _number(context, product(inner), position)
    rows = rows_and_columns(context, context.view(x), columns)
    if rows is None or (rows.strides[1] != 1 and columns > 1):
        raise context.refusal(position, "the new rows have no regular distance in memory")
    plan = plan_write_cache(
        rows=context.rows(context.graph.type_of(slots).shape[0], position),
        columns=columns,
        cache_rows=bind_size(product((blocks, block)), context.capacity),
        dtype=rows.dtype,
        target=context.target,
        view=RowView(max(rows.strides[0], columns), rows.offset),
    )
    return KernelStep(
        plan=plan,
        emit=emit_write_cache,
        name=f"write_cache_n{columns}_{rows.dtype.value}",
        operands=(
            context.operand(x),
            context.dense_operand(slots, position),
            context.dense_operand(cache, position),
        ),
        position=position,
        covers=(position,),
    )


def select_route_topk(context: GraphContext, position: int) -> KernelStep:
    """Return the choice of experts.

    Raises:
        GraphError: Operands are strided, or the family refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, RouteTopk):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    *leading, experts = context.graph.type_of(node.operands[0]).shape
    routing = Routing(
        experts=_number(context, experts, position),
        top_k=op.k,
        scoring=Scoring(op.scoring),
        bias=op.biased,
        groups=op.groups,
        topk_groups=op.topk_groups,
        group_score=GroupScore(op.group_score),
        masked_value=op.masked_value,
        normalize=op.normalize,
        scale=op.scale,
    )
    rows = context.rows(product(leading), position)
    plan = plan_route_topk(rows=rows, routing=routing, target=context.target)
    operands = (*node.operands, Value(position, 0), Value(position, 1))
    return KernelStep(
        plan=plan,
        emit=emit_route_topk,
        name=f"route_topk{row_suffix(rows)}_e{routing.experts}_k{op.k}",
        operands=tuple(context.dense_operand(value, position) for value in operands),
        position=position,
        covers=(position,),
    )


def select_dispatch_experts(context: GraphContext, position: int) -> KernelStep:
    """Return the sort of pairs by expert.

    Raises:
        GraphError: The ids are strided, or the family refuses.
    """
    node = context.node(position)
    op = node.op
    if not isinstance(op, DispatchExperts):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    leading, top_k = context.graph.type_of(node.operands[0]).shape
    rows = context.rows(leading, position)
    plan = plan_dispatch_experts(
        rows=rows,
        top_k=_number(context, top_k, position),
        experts=op.experts,
        target=context.target,
    )
    operands = (*node.operands, *(Value(position, i) for i in range(3)))
    return KernelStep(
        plan=plan,
        emit=emit_dispatch_experts,
        name=f"dispatch_experts{row_suffix(rows)}_e{op.experts}_k{top_k}",
        operands=tuple(context.dense_operand(value, position) for value in operands),
        position=position,
        covers=(position,),
    )


def select_combine_experts(context: GraphContext, position: int, added: AddedRows) -> KernelStep:
    """Return the weighted sum of experts, with what is added to it.

    Raises:
        GraphError: Operands are strided, or the family refuses.
    """
    y, place, weights = context.node(position).operands
    leading, top_k = context.graph.type_of(weights).shape
    rows = context.rows(leading, position)
    columns = _number(context, context.graph.type_of(y).shape[1], position)
    dtype = context.view(y).dtype
    plan = plan_combine_experts(
        rows=rows,
        columns=columns,
        top_k=_number(context, top_k, position),
        dtype=dtype,
        target=context.target,
        shared=len(added.rows) > 0,
        residual=len(added.rows) > 1,
    )
    result = Value(added.covers[-1]) if added.covers else Value(position)
    operands = (y, place, weights, *added.rows, result)
    return KernelStep(
        plan=plan,
        emit=emit_combine_experts,
        name=f"combine_experts{row_suffix(rows)}_n{columns}_k{top_k}_{dtype.value}",
        operands=tuple(context.dense_operand(value, position) for value in operands),
        position=result.node,
        covers=(position, *added.covers),
    )


def select_argmax(context: GraphContext, position: int) -> KernelStep:
    """Return the index of the largest element of each row.

    Raises:
        GraphError: The operand is strided, or the family refuses.
    """
    (a,) = context.node(position).operands
    *leading, columns = context.graph.type_of(a).shape
    dtype = context.view(a).dtype
    plan = plan_argmax(
        rows=context.rows(product(leading), position),
        columns=_number(context, columns, position),
        dtype=dtype,
        target=context.target,
    )
    return KernelStep(
        plan=plan,
        emit=emit_argmax,
        name=f"argmax_n{columns}_{dtype.value}",
        operands=(
            context.dense_operand(a, position),
            context.dense_operand(Value(position), position),
        ),
        position=position,
        covers=(position,),
    )


def _number(context: GraphContext, size: Dim, position: int) -> int:
    if not isinstance(size, int):
        raise context.refusal(position, f"the row length {size} is a named size")
    return size
