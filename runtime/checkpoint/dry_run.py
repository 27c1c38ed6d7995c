"""What writing a checkpoint would do: kinds, sizes and time, without writing it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ascendfx.quant_passes.checkpoint.planned_tensor import CheckpointForm, Plan, PlannedTensor
from ascendfx.runtime.checkpoint.shard_layout import lay_out
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class KindOfWeights:
    """The weights that become the same.

    Attributes:
        kind: What they become.
        tensors: How many there are.
        weights: Numbers in them.
        bytes: What is stored of them.
        seconds: How long making and encoding them takes, from the one that was tried.
    """

    kind: str
    tensors: int
    weights: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DryRun:
    """What writing a checkpoint would do.

    Attributes:
        kinds: By what weights become, the largest first.
        bytes: Size of all weight files.
        files: Number of weight files.
        largest: Numbers in the largest tensor, which decides how much memory is needed.
        left_out: Tensors that equal another one and are not written.
    """

    kinds: tuple[KindOfWeights, ...]
    bytes: int
    files: int
    largest: int
    left_out: int

    @property
    def seconds(self) -> float:
        """How long it takes, without the disk."""
        return sum(kind.seconds for kind in self.kinds)


def dry_run(
    plan: Plan, form: CheckpointForm, options: WriteOptions, *, clock: Clock = time.monotonic
) -> DryRun:
    """Return what `write_checkpoint` would do; of each kind, the smallest weight is made.

    Raises:
        GraphError: `not-storable`, `bad-plan`; what making a tensor raises.
    """
    layout = lay_out(plan, form, shard_bytes=options.shard_bytes, shared=dict(options.shared or {}))
    groups: dict[str, list[PlannedTensor]] = {}
    for tensor in layout.written:
        groups.setdefault(str(tensor.scheme or tensor.dtype.value), []).append(tensor)
    kinds = [_kind(kind, group, form, clock) for kind, group in groups.items()]
    return DryRun(
        kinds=tuple(sorted(kinds, key=lambda kind: (-kind.bytes, kind.kind))),
        bytes=layout.bytes,
        files=len(layout.sizes),
        largest=max(prod(tensor.shape) for tensor in layout.written),
        left_out=len(plan) - len(layout.written),
    )


def _kind(
    kind: str, group: list[PlannedTensor], form: CheckpointForm, clock: Clock
) -> KindOfWeights:
    weights = sum(prod(tensor.shape) for tensor in group)
    tried = min(group, key=lambda tensor: prod(tensor.shape))
    start = clock()
    form.encode(tried, tried.make())
    seconds = (clock() - start) * weights / max(1, prod(tried.shape))
    stored = sum(part.bytes for tensor in group for part in form.parts(tensor))
    return KindOfWeights(kind, len(group), weights, stored, seconds)
