"""Choose the experts of each row: scores, group selection, top-k, weights.

``s = sigmoid(logits)`` or ``softmax(logits)``; ``c = s + bias`` selects, ``s`` weighs. With groups,
the ``topk_groups`` groups with the best group score keep their ``c``, in the others it becomes
``masked_value``. The ``top_k`` largest ``c`` win, ties to the lower expert; groups likewise.
Weights are ``s`` of the winners, optionally divided by their sum + 1e-20, times ``scale``.

Source: DeepSeek-V2 (arXiv 2405.04434) section 2.2, DeepSeek-V3 (arXiv 2412.19437) section 2.1.2.
"""

import enum
import math
from dataclasses import dataclass

from ascendfx.codegen.ascendc.hardware_units import (
    BLOCK_FLOATS,
    SORT_ALIGNMENT,
    SORT_WIDTH,
    round_up,
)
from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.reduction_work import reduce_max_work_elements
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    BufferKind,
    LocalBuffer,
    blocks_for,
    check_local_buffers,
    check_positive,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError

_MAX_EXPERTS = 256
_MAX_TOP_K = 16
_STEP_ROWS = 16


class Scoring(enum.Enum):
    """How logits become scores."""

    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"


class GroupScore(enum.Enum):
    """What ranks a group of experts."""

    TOP2_SUM = "top2_sum"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Routing:
    """The rule by which experts are chosen.

    Attributes:
        experts: Number of experts.
        top_k: Experts per row.
        scoring: How logits become scores.
        bias: Whether a bias per expert is added to the selecting score.
        groups: Number of groups of neighbouring experts; 1 without group selection.
        topk_groups: Groups that keep their scores.
        group_score: What ranks a group.
        masked_value: What the selecting scores of the other groups become.
        normalize: Whether weights are divided by their sum + 1e-20.
        scale: Last factor of the weights.
    """

    experts: int
    top_k: int
    scoring: Scoring
    bias: bool = False
    groups: int = 1
    topk_groups: int = 1
    group_score: GroupScore = GroupScore.TOP2_SUM
    masked_value: float = -math.inf
    normalize: bool = False
    scale: float = 1.0

    @property
    def group_size(self) -> int:
        """Experts per group."""
        return self.experts // self.groups

    @property
    def has_masked_groups(self) -> bool:
        """Whether some group loses its scores."""
        return self.topk_groups < self.groups


@dataclass(frozen=True, slots=True)
class RouteTopkPlan:
    """How rows are scored and sorted.

    Each group is laid out on its own whole sorter lists, filled up with minus infinity.

    Attributes:
        rows: Number of rows, read from the device.
        routing: The rule.
        row_pitch: Elements from row to row of scores in local memory.
        group_pitch: Elements from group to group in the sorter's layout.
        step_rows: Rows scored at a time.
        blocks: Vector cores used.
        buffers: Local memory; those the sorter writes come first, aligned to 256 bytes.
    """

    rows: DeviceSize
    routing: Routing
    row_pitch: int
    group_pitch: int
    step_rows: int
    blocks: int
    buffers: tuple[LocalBuffer, ...]

    @property
    def slots(self) -> int:
        """Elements of the sorter's layout."""
        return self.routing.groups * self.group_pitch

    @property
    def is_padded(self) -> bool:
        """Whether the sorter's layout differs from the row."""
        return self.group_pitch != self.routing.group_size

    @property
    def kept(self) -> int:
        """Records kept of each list when lists are merged: ``top_k``, in whole blocks."""
        return round_up(self.routing.top_k, 4)

    @property
    def out_pitch(self) -> int:
        """Elements from row to row of weights and ids in local memory."""
        return round_up(self.routing.top_k, BLOCK_FLOATS)


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
        raise GraphError(code="unsupported-routing", reason=f"route-topk: {reason}")


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
