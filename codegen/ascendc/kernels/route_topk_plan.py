"""What `route_topk` computes, and how its rows lie in local memory."""

import enum
import math
from dataclasses import dataclass

from ascendfx.codegen.ascendc.hardware_units import BLOCK_FLOATS, round_up
from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.vector_kernel import LocalBuffer


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
