"""What the search is told about costs: the roofline, and what has a kernel."""

from collections.abc import Mapping
from dataclasses import dataclass

from ascendfx.codegen.ascendc.cost_model import busy_seconds, launch_cost
from ascendfx.codegen.ascendc.kernels.attention_requests import chunk_request, latent_request
from ascendfx.codegen.ascendc.kernels.attention_tiles import TileRequest, plan_attention_tiles
from ascendfx.codegen.ascendc.kernels.vector_chain.lower import can_join_chain
from ascendfx.codegen.ascendc.lowering.lower_program import pairs_per_row
from ascendfx.codegen.ascendc.lowering.row_space import is_row_size
from ascendfx.codegen.ascendc.lowering.select_kernels import select_kernels
from ascendfx.codegen.ascendc.lowering.step import KernelStep
from ascendfx.codegen.ascendc.target import Target
from ascendfx.codegen.ascendc.work import StepSizes, step_names
from ascendfx.codegen.ascendc.work_of_op import (
    VIEWS,
    attends_latent,
    is_renaming_cast,
    work_of_op,
)
from ascendfx.ir import ops
from ascendfx.ir.cache_block import blocks_for
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Op
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim, bind_size, names_in, product
from ascendfx.passes.search.op_cost import Cost, OpSite, Refusal

_FREE = Cost(0.0, 0.0, 0.0)

_MOVEMENTS: tuple[type[Op], ...] = (
    ops.AdvanceRequests,
    ops.AlignDrafts,
    ops.Argmax,
    ops.BranchDrafts,
    ops.CacheRead,
    ops.CacheWrite,
    ops.CombineExperts,
    ops.DispatchExperts,
    ops.GatherRows,
    ops.MoveEntries,
    ops.PackRows,
    ops.RouteTopk,
    ops.RowGroups,
    ops.SampleDrafts,
    ops.SampleTokens,
    ops.ShiftTokens,
    ops.VerifyDrafts,
    ops.VerifyTree,
)
"""Families that take these operations with any types the graph gives them."""


@dataclass(frozen=True, slots=True)
class ModelledOpCost:
    """`ascendfx.passes.search.op_cost.OpCost` for one kind of step on one chip.

    Attributes:
        target: The chip.
        step: Size of the step whose time is minimised, also the largest one.
        blocks: Blocks of every cache.
    """

    target: Target
    step: StepSizes
    blocks: int

    @property
    def capacity(self) -> Mapping[str, int]:
        """Largest value of each named size."""
        table = blocks_for(self.step.context)
        sizes = {"blocks": self.blocks, "table_blocks": table, "steps": 1}
        return {**step_names(self.step), **sizes}

    def of_op(self, site: OpSite) -> Cost | Refusal:
        """Return what an operation adds to a step.

        Products, attention and movements are launches of their own. Token-wise operations join the
        launch of a neighbour: their own are the time of the vector unit and the result.
        """
        op = site.op
        if isinstance(op, VIEWS) or is_renaming_cast(op, site.operands):
            return _FREE
        reason = self._why_no_kernel(site)
        if reason is not None:
            return Refusal(f"{op.mnemonic}: {reason}")
        work = work_of_op(op, site.operands, site.results, chosen=_chosen(site.results[0].shape[0]))
        alone = launch_cost(work, self.target, self.step)
        seconds = alone.seconds
        if not isinstance(op, (*_MOVEMENTS, *_PRODUCTS)):
            seconds = max(busy_seconds(work, self.target, self.step).values())
        return Cost(seconds, alone.bytes, alone.operations)

    def of_graph(self, graph: Graph) -> Cost | Refusal:
        """Return the sum over the launches that ``graph`` is lowered to."""
        try:
            lowered = select_kernels(
                graph, self.capacity, pairs_per_row(Program((graph,))), self.target
            )
        except GraphError as error:
            return Refusal(error.reason, error.nodes)
        costs = [
            launch_cost(step.work, self.target, self.step)
            for step in lowered.steps
            if isinstance(step, KernelStep)
        ]
        return Cost(
            seconds=sum(cost.seconds for cost in costs),
            bytes=sum(cost.bytes for cost in costs),
            operations=sum(cost.operations for cost in costs),
        )

    def _why_no_kernel(self, site: OpSite) -> str | None:
        match site.op:
            case ops.RaggedAttention() as op:
                return self._why_no_attention(op, site)
            case ops.Linear(pairs=pairs):
                axes = -2 if pairs and site.operands[0].rank > 2 else -1  # digits are counted along
                return self._why_no_rows(product(site.operands[0].shape[:axes]))
            case ops.HeadLinear():
                return self._why_no_rows(product(site.operands[0].shape[:-2]))
            case ops.GroupedLinear():
                return self._why_no_rows(site.operands[0].shape[0])
            case op if isinstance(op, _MOVEMENTS):
                return None
            case op:
                reason = can_join_chain(op, tuple(site.operands))
                if reason is not None or not site.results[0].shape:
                    return reason or "it has no rows"
                return self._why_no_rows(site.results[0].shape[0])

    def _why_no_rows(self, rows: Dim) -> str | None:
        if is_row_size(rows, self.capacity, _chosen(rows)):
            return None
        return f"the device is not told how many rows `{rows}` are"

    def _why_no_attention(self, op: ops.RaggedAttention, site: OpSite) -> str | None:
        """Return why neither family takes an attention; see `lowering/select_attention.py`."""
        if op.parts != 2:
            return f"{op.parts} pairs of queries and keys, not two"
        classes, types = op.roles(site.classes), op.roles(site.operands)
        rows, heads, first, second, value = (
            bind_size(size, self.capacity)
            for size in (
                *types.queries[0].shape,
                types.queries[1].shape[-1],
                types.values.shape[-1],
            )
        )
        dtype = types.queries[0].dtype
        if classes.keys[0] == classes.values and attends_latent(types):
            return self._why_no_tiles(latent_request(dtype, heads=heads, latent=first, rope=second))
        if op.tree:
            return "rows in a draft tree over expanded keys"
        if self.step.requests != 1:
            return "expanded keys of several requests"
        wanted = [types.keys[0].shape[2], types.values.shape[2]]
        if wanted != [heads, heads] or types.keys[1].shape[2] != 1:
            return f"{wanted} key heads for {heads} query heads"
        return self._why_no_tiles(
            chunk_request(dtype, rows=rows, nope=first, rope=second, value=value)
        )

    def _why_no_tiles(self, request: TileRequest) -> str | None:
        try:
            plan_attention_tiles(request, self.target)
        except GraphError as error:
            return error.reason
        return None


_PRODUCTS: tuple[type[Op], ...] = (
    ops.GroupedLinear,
    ops.HeadLinear,
    ops.Linear,
    ops.RaggedAttention,
)


def _chosen(rows: Dim) -> int:
    """Return how many pairs a row has where ``rows`` counts pairs: 8 for ``8*rows``, else 0."""
    if names_in(rows) != frozenset({"rows"}):
        return 0
    count = bind_size(rows, {"rows": 1})
    return count if count > 1 else 0
