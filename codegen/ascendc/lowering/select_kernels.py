"""Turn a graph into kernel launches: one distinct layer at a time."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from ascendfx.codegen.ascendc.lowering.absorb_additions import AddedRows, absorb_additions
from ascendfx.codegen.ascendc.lowering.assign_layouts import assign_layouts
from ascendfx.codegen.ascendc.lowering.degenerate import degenerate
from ascendfx.codegen.ascendc.lowering.graph_context import (
    GraphContext,
    find_constants,
)
from ascendfx.codegen.ascendc.lowering.group_vector_chains import (
    group_vector_chains,
    why_no_chain,
)
from ascendfx.codegen.ascendc.lowering.resolve_views import resolve_views
from ascendfx.codegen.ascendc.lowering.select_attention import select_attention
from ascendfx.codegen.ascendc.lowering.select_cache_read import select_cache_read
from ascendfx.codegen.ascendc.lowering.select_chain import select_chain
from ascendfx.codegen.ascendc.lowering.select_drafts import (
    select_branch_drafts,
    select_sample_drafts,
)
from ascendfx.codegen.ascendc.lowering.select_movements import (
    select_argmax,
    select_cache_write,
    select_combine_experts,
    select_dispatch_experts,
    select_gather_rows,
    select_route_topk,
    select_row_groups,
)
from ascendfx.codegen.ascendc.lowering.select_products import (
    select_grouped_linear,
    select_head_linear,
    select_linear,
)
from ascendfx.codegen.ascendc.lowering.select_sampling import select_sample_tokens
from ascendfx.codegen.ascendc.lowering.select_step import (
    select_advance_requests,
    select_align_drafts,
    select_move_entries,
    select_pack_rows,
    select_shift_tokens,
    select_verify_drafts,
    select_verify_tree,
)
from ascendfx.codegen.ascendc.lowering.step import CallStep, KernelStep, LoweredGraph, Step
from ascendfx.codegen.ascendc.lowering.unit import Unit, order_units
from ascendfx.codegen.ascendc.lowering.view import CapacityOf, View
from ascendfx.codegen.ascendc.lowering.work_of_step import work_of_step
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    AdvanceRequests,
    AlignDrafts,
    Argmax,
    BranchDrafts,
    CacheRead,
    CacheWrite,
    Call,
    CombineExperts,
    DispatchExperts,
    GatherRows,
    GroupedLinear,
    HeadLinear,
    Linear,
    MoveEntries,
    PackRows,
    RaggedAttention,
    RouteTopk,
    RowGroups,
    SampleDrafts,
    SampleTokens,
    ShiftTokens,
    VerifyDrafts,
    VerifyTree,
)
from ascendfx.ir.text.printer import print_node

T = TypeVar("T")

_FAMILIES: Mapping[type[Op], Callable[[GraphContext, int], KernelStep]] = {
    AdvanceRequests: select_advance_requests,
    AlignDrafts: select_align_drafts,
    Argmax: select_argmax,
    BranchDrafts: select_branch_drafts,
    CacheWrite: select_cache_write,
    DispatchExperts: select_dispatch_experts,
    GatherRows: select_gather_rows,
    GroupedLinear: select_grouped_linear,
    HeadLinear: select_head_linear,
    Linear: select_linear,
    MoveEntries: select_move_entries,
    PackRows: select_pack_rows,
    RouteTopk: select_route_topk,
    RowGroups: select_row_groups,
    SampleDrafts: select_sample_drafts,
    SampleTokens: select_sample_tokens,
    ShiftTokens: select_shift_tokens,
    VerifyDrafts: select_verify_drafts,
    VerifyTree: select_verify_tree,
}


def select_kernels(
    graph: Graph, capacity: CapacityOf, pairs_per_row: int, target: Target
) -> LoweredGraph:
    """Return the launches of ``graph``.

    Raises:
        GraphError: An operation, or its layout, has no kernel.
    """
    constants = find_constants(graph)
    context = GraphContext(
        graph=graph,
        views=resolve_views(graph, capacity, constants=constants),
        constants=constants,
        layouts=assign_layouts(graph, constants),
        capacity=capacity,
        pairs_per_row=pairs_per_row,
        target=target,
    )
    added = absorb_additions(context)
    taken = [Unit((position, *rows.covers)) for position, rows in added.items()]
    taken += [Unit(each.covers) for each in context.cached_codes.values()]
    grouping = group_vector_chains(context, taken)
    units = order_units(context, grouping.units)
    selected = sorted(units, key=lambda unit: not _attends(context, unit))  # its refusals say most
    steps = {
        unit: _select_or_explain(context, unit, added)
        for unit in selected
        if not _reads(context, unit)
    }
    read = {operand.root for each in steps.values() for step in each for operand in step.operands}
    read.update(context.view(value).root for value in graph.outputs)
    for unit in units:
        if _reads(context, unit) and Value(unit.positions[-1]) in read:
            steps[unit] = [_at(context, unit.positions[-1], select_cache_read)]
    return LoweredGraph(
        steps=tuple(_with_work(context, s) for unit in units for s in steps.get(unit, ())),
        outputs=tuple(_output(context, value) for value in graph.outputs),
        remarks=grouping.remarks,
    )


def _with_work(context: GraphContext, step: Step) -> Step:
    return replace(step, work=work_of_step(context, step)) if isinstance(step, KernelStep) else step


def _attends(context: GraphContext, unit: Unit) -> bool:
    return isinstance(context.node(unit.positions[0]).op, RaggedAttention)


def _reads(context: GraphContext, unit: Unit) -> bool:
    """Return whether a unit gathers cached rows, which attention itself can do as well."""
    last = unit.positions[-1]
    return isinstance(context.node(last).op, CacheRead) or last in context.cached_codes


def _select_or_explain(
    context: GraphContext, unit: Unit, added: Mapping[int, AddedRows]
) -> list[Step]:
    """Select; of a refusal for want of elements, say that.

    Raises:
        GraphError: No family takes the unit.
    """
    try:
        return _select(context, unit, added)
    except GraphError as error:
        for position in unit.positions:
            if reason := degenerate(context, position):
                hint = "a size of the model's configuration is too small; leave this part out"
                raise context.refusal(position, reason, hint=hint) from error
        if error.nodes:
            raise
        raise replace(error, nodes=unit.positions) from error


def _select(context: GraphContext, unit: Unit, added: Mapping[int, AddedRows]) -> list[Step]:
    position = unit.positions[0]
    op = context.node(position).op
    if unit.chain:
        return [*select_chain(context, unit)]
    if position in context.views.joined_in_place:
        return []
    match op:
        case Call():
            operands = context.node(position).operands
            dense = tuple(context.dense_operand(value, position) for value in operands)
            return [CallStep(op, dense, position)]
        case CombineExperts():
            return [
                _at(context, position, lambda c, p: select_combine_experts(c, p, added[position]))
            ]
        case RaggedAttention():
            return [*_at(context, position, select_attention)]
        case _ if type(op) in _FAMILIES:
            return [_at(context, position, _FAMILIES[type(op)])]
        case _:
            reason = why_no_chain(context, position)
            raise context.refusal(position, f"no kernel family takes it; as a chain: {reason}")


def _at(context: GraphContext, position: int, select: Callable[[GraphContext, int], T]) -> T:
    """Run a selection; a refusal of a family is given its place in the graph.

    Raises:
        GraphError: The family refuses.
    """
    try:
        return select(context, position)
    except GraphError as error:
        if error.excerpt:
            raise
        node = context.node(position)
        raise replace(
            error, location=node.location, excerpt=print_node(context.graph, position)
        ) from error


def _output(context: GraphContext, value: Value) -> View:
    view = context.view(value)
    if not context.is_dense(view):
        raise context.refusal(
            value.node, f"the result {view.type()} of @{context.graph.name} is not contiguous"
        )
    return view
