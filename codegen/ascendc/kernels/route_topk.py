"""Choose the experts of each row: scores, group selection, top-k, weights.

``s = sigmoid(logits)`` or ``softmax(logits)``; ``c = s + bias`` selects, ``s`` weighs. With groups,
the ``topk_groups`` groups with the best group score keep their ``c``, in the others it becomes
``masked_value``. The ``top_k`` largest ``c`` win, ties to the lower expert; groups likewise.
Weights are ``s`` of the winners, optionally divided by their sum + 1e-20, times ``scale``.

Source: DeepSeek-V2 (arXiv 2405.04434) section 2.2, DeepSeek-V3 (arXiv 2412.19437) section 2.1.2.
"""

import math

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import (
    BLOCK_FLOATS,
    SORT_ALIGNMENT,
    SORT_WIDTH,
    round_up,
)
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.reduction_work import reduce_max_work_elements
from ascendfx.codegen.ascendc.kernels.route_topk_plan import (
    GroupScore,
    RouteTopkPlan,
    Routing,
    Scoring,
)
from ascendfx.codegen.ascendc.kernels.route_topk_text import KEEP_TOP, write_step, write_tables
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    blocks_for,
    check_local_buffers,
    check_positive,
    float_literal,
    kernel_function,
    local_bytes,
    write_buffers,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_MAX_EXPERTS = 256
_MAX_TOP_K = 16
_STEP_ROWS = 16

_GROUP_LIST = 16
"""f32 elements per group of merged lists: two records of up to four lists."""


def plan_route_topk(*, rows: DeviceSize, routing: Routing, target: Target) -> RouteTopkPlan:
    """Lay scores and sorter lists out.

    Raises:
        GraphError: The rule is contradictory or beyond what one core sorts.
    """
    check_positive("route-topk", experts=routing.experts, top_k=routing.top_k, rows=rows.capacity)
    _check_routing(routing)
    blocks = blocks_for(rows.capacity, target)
    step_rows = min(_STEP_ROWS, -(-rows.capacity // blocks))
    group_pitch = round_up(routing.group_size, SORT_WIDTH)
    plan = RouteTopkPlan(
        rows, routing, round_up(routing.experts, BLOCK_FLOATS), group_pitch, step_rows, blocks, ()
    )
    buffers = _buffers(plan)
    check_local_buffers("route-topk", buffers, target)
    return RouteTopkPlan(rows, routing, plan.row_pitch, group_pitch, step_rows, blocks, buffers)


def _check_routing(routing: Routing) -> None:
    reason = ""
    if routing.experts > _MAX_EXPERTS:
        reason = f"{routing.experts} experts, at most {_MAX_EXPERTS}"
    elif routing.top_k > min(_MAX_TOP_K, routing.experts):
        reason = f"top_k {routing.top_k}, at most {min(_MAX_TOP_K, routing.experts)}"
    elif routing.groups < 1 or routing.experts % routing.groups:
        reason = f"{routing.experts} experts are not {routing.groups} equal groups"
    elif not 1 <= routing.topk_groups <= routing.groups:
        reason = f"topk_groups {routing.topk_groups} of {routing.groups} groups"
    elif routing.has_masked_groups:
        reason = _masked_reason(routing)
    if reason:
        raise GraphError(
            code="unsupported-routing",
            reason=f"route-topk: {reason}",
            hint="the model's configuration says how many experts and groups there are, and how "
            "many of them are chosen",
        )


def _masked_reason(routing: Routing) -> str:
    if routing.groups > SORT_WIDTH:
        return f"{routing.groups} groups, at most {SORT_WIDTH}"
    if routing.group_score is GroupScore.TOP2_SUM and routing.group_size < 2:
        return f"top2_sum over groups of {routing.group_size} expert"
    if math.isnan(routing.masked_value) or routing.masked_value == math.inf:
        return f"masked_value {routing.masked_value}"
    left = routing.topk_groups * routing.group_size
    if routing.masked_value == -math.inf and routing.top_k > left:
        return f"top_k {routing.top_k} of {left} experts that are not masked"
    return ""


def _buffers(plan: RouteTopkPlan) -> tuple[LocalBuffer, ...]:
    routing = plan.routing

    def scratch(name: str, elements: int) -> LocalBuffer:
        return LocalBuffer(name, BufferKind.SCRATCH, round_up(elements * 4, SORT_ALIGNMENT))

    work = reduce_max_work_elements(routing.experts, with_index=False)
    buffers = [
        scratch("recordABuffer", 2 * plan.slots),
        scratch("recordBBuffer", 2 * plan.slots),
        scratch("indexBuffer", plan.slots),
        scratch("selectingBuffer", plan.row_pitch + BLOCK_FLOATS),
        scratch("recordOffsetBuffer", SORT_WIDTH),
        scratch("weightOffsetBuffer", SORT_WIDTH),
        scratch("statisticBuffer", BLOCK_FLOATS),
        scratch("workBuffer", work),
    ]
    if plan.is_padded:
        buffers += [scratch("slotOffsetBuffer", plan.slots), scratch("spreadBuffer", plan.slots)]
    if routing.has_masked_groups:
        buffers += [
            scratch("maskedBuffer", plan.slots),
            scratch("allMaskedBuffer", plan.slots),
            scratch("groupRecordBuffer", 2 * SORT_WIDTH),
            scratch("groupScoreBuffer", SORT_WIDTH),
            scratch("groupSecondBuffer", SORT_WIDTH),
            scratch("groupIndexBuffer", SORT_WIDTH),
            scratch("groupOffsetBuffer", SORT_WIDTH),
        ]
    step = plan.step_rows * plan.row_pitch * 4
    result = plan.step_rows * plan.out_pitch * 4
    if routing.scoring is Scoring.SIGMOID:
        buffers.append(LocalBuffer("onesBuffer", BufferKind.SCRATCH, step))
    if routing.bias:
        buffers.append(LocalBuffer("biasQueue", BufferKind.INPUT, plan.row_pitch * 4))
    buffers += [
        LocalBuffer("scoreQueue", BufferKind.INPUT, step, copies=2),
        LocalBuffer("weightQueue", BufferKind.OUTPUT, result, copies=2),
        LocalBuffer("idQueue", BufferKind.OUTPUT, result, copies=2),
    ]
    return tuple(buffers)


def emit_route_topk(plan: RouteTopkPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``logits[, bias], weights, ids, sizes``."""
    routing = plan.routing
    results = plan.rows.capacity * routing.top_k
    bias = (KernelArgument("bias", DType.F32, Direction.IN, routing.experts),)
    arguments = (
        KernelArgument("logits", DType.F32, Direction.IN, plan.rows.capacity * routing.experts),
        *(bias if routing.bias else ()),
        KernelArgument("weights", DType.F32, Direction.OUT, results),
        KernelArgument("ids", DType.I32, Direction.OUT, results),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    helpers = KEEP_TOP if plan.slots > SORT_WIDTH else ""
    write_head(out, _comment(plan, name), _constants(plan), helpers)
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        write_split(out, "rows")
        write_buffers(out, plan.buffers)
        write_tables(out, plan)
        with out.block("for (uint32_t row = first; row < last; row += STEP_ROWS)"):
            write_step(out, plan)
        if routing.bias:
            out.line("biasQueue.FreeTensor(biasLocal);")
    return Kernel(name, "route-topk", KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _comment(plan: RouteTopkPlan, name: str) -> tuple[str, ...]:
    routing = plan.routing
    lines = [
        f"{name}: top {routing.top_k} of {routing.experts} experts by {routing.scoring.value}"
        f"{' + bias' if routing.bias else ''}, row < sizes[{plan.rows.slot}] <= "
        f"{plan.rows.capacity};"
    ]
    if routing.has_masked_groups:
        lines.append(
            f"the best {routing.topk_groups} of {routing.groups} groups by "
            f"{routing.group_score.value}, scores of the others become {routing.masked_value};"
        )
    lines.append(
        f"{plan.slots} sorter slots, {plan.step_rows} rows at a time, over {plan.blocks} cores; "
        f"{local_bytes(plan.buffers):,} bytes of local memory."
    )
    return tuple(lines)


def _constants(plan: RouteTopkPlan) -> dict[str, int | str]:
    routing = plan.routing
    constants: dict[str, int | str] = {
        "BLOCKS": plan.blocks,
        "EXPERTS": routing.experts,
        "TOP_K": routing.top_k,
        "STEP_ROWS": plan.step_rows,
        "ROW_PITCH": plan.row_pitch,
        "OUT_PITCH": plan.out_pitch,
        "GROUPS": routing.groups,
        "GROUP_SIZE": routing.group_size,
        "GROUP_PITCH": plan.group_pitch,
        "SLOTS": plan.slots,
        "KEPT": plan.kept,
        "LOWEST": float_literal(-math.inf),
    }
    if routing.has_masked_groups:
        constants["TOPK_GROUPS"] = routing.topk_groups
        constants["MASKED_VALUE"] = float_literal(routing.masked_value)
        if plan.group_pitch > SORT_WIDTH:
            constants["GROUP_LIST"] = _GROUP_LIST
            constants["GROUP_RANK"] = 2 if routing.group_score is GroupScore.TOP2_SUM else 1
    if routing.normalize or routing.scale != 1.0:
        constants["SCALE"] = float_literal(routing.scale)
    return constants
