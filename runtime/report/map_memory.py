"""Which bytes of the arena hold what, from which launch to which."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.launch_plan import Buffer, LaunchPlan, Place


@dataclass(frozen=True, slots=True)
class LiveRange:
    """A buffer of the arena in use.

    Attributes:
        buffer: Where it lies and how large it is.
        first: Number of the first launch that touches it.
        last: Number of the last one.
    """

    buffer: Buffer
    first: int
    last: int


def live_ranges(plan: LaunchPlan) -> tuple[LiveRange, ...]:
    """Return every buffer of the arena that a launch touches, by offset, then by first launch."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, launch in enumerate(plan.launches):
        for argument in launch.arguments:
            first.setdefault(argument.buffer, number)
            last[argument.buffer] = number
    ranges = [
        LiveRange(buffer, first[buffer.name], last[buffer.name])
        for buffer in plan.of_place(Place.ARENA)
        if buffer.name in first
    ]
    return tuple(sorted(ranges, key=lambda each: (each.buffer.offset_bytes, each.first)))


def live_bytes(plan: LaunchPlan) -> tuple[int, ...]:
    """Return the bytes in use during each launch; their maximum is what any plan needs at least."""
    change = [0] * (len(plan.launches) + 1)
    for each in live_ranges(plan):
        change[each.first] += each.buffer.bytes
        change[each.last + 1] -= each.buffer.bytes
    used: list[int] = []
    for each in change[:-1]:
        used.append((used[-1] if used else 0) + each)
    return tuple(used)
