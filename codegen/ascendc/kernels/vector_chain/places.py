"""Where the values of a chain live: a liveness walk over the steps assigns local memory."""

from collections.abc import Mapping
from dataclasses import dataclass

from ascendfx.codegen.ascendc.hardware_units import BLOCK_FLOATS, QUEUE_EVENTS, round_up
from ascendfx.codegen.ascendc.kernels.vector_chain.layout import Form, Layout
from ascendfx.codegen.ascendc.kernels.vector_chain.program import (
    Apply,
    ApplyNumber,
    ChainProgram,
    Combine,
    Fill,
    Load,
    Relabel,
    Store,
    sources_of,
)
from ascendfx.ir.tensor_type import DType

_MOST_OWN_QUEUES = 2
"""Loads with a queue of their own if not all can have one: two buffers each, two shared queues."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What is in local memory at a time.

    Attributes:
        rows: Token rows.
        piece: Columns, or 0 for whole lines.
    """

    rows: int
    piece: int = 0

    def layout(self, layout: Layout) -> Layout:
        """Return the layout of the part of a value that is in the tile."""
        if self.piece and layout.form is Form.LINE:
            return Layout(Form.LINE, layout.per_row, layout.groups, self.piece)
        return layout


@dataclass(frozen=True, slots=True)
class Schedule:
    """Order of the steps.

    Attributes:
        once: Steps that run before the first tile; their values stay.
        tile: Steps that run for every tile.
        last_use: For each tile step's value, the index in ``tile`` of its last reader.
    """

    once: tuple[int, ...]
    tile: tuple[int, ...]
    last_use: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Places:
    """Start of each value in the arena, in f32 elements; loads in f32 stay in their queue.

    Attributes:
        starts: By step.
        elements: Size of the arena.
    """

    starts: Mapping[int, int]
    elements: int


def root_of(program: ChainProgram, value: int) -> int:
    """Return the step whose storage holds ``value``."""
    step = program.steps[value]
    while isinstance(step, Relabel):
        value = step.source
        step = program.steps[value]
    return value


def stays_in_queue(program: ChainProgram, value: int) -> bool:
    """Return whether a value is an f32 load, used where it was copied to.

    Every queue costs event ids, of which a core has eight per position: if all loads cannot have
    one, only a few do, and the others share a queue and are copied on into the arena.
    """
    loads = [
        i
        for i, step in enumerate(program.steps)
        if isinstance(step, Load) and program.arguments[step.argument].dtype is DType.F32
    ]
    tiled = [i for i in loads if not program.is_fixed(i)]
    shares = any(isinstance(step, Load) for i, step in enumerate(program.steps) if i not in loads)
    if 2 * len(tiled) + (len(loads) - len(tiled)) + 2 * shares <= QUEUE_EVENTS:
        return value in loads
    return value in tiled[:_MOST_OWN_QUEUES]


def schedule_steps(program: ChainProgram, *, in_pieces: bool) -> Schedule:
    """Drop steps nobody needs, and store each result as soon as it is there."""
    needed = _needed(program)
    once = tuple(
        i
        for i in needed
        if program.is_fixed(i) and (not in_pieces or isinstance(program.steps[i], Fill))
    )
    stores: dict[int, list[int]] = {}
    for i in needed:
        step = program.steps[i]
        if isinstance(step, Store):
            stores.setdefault(step.source, []).append(i)
    tile: list[int] = []
    for i in needed:
        if i in once or isinstance(program.steps[i], Store):
            continue
        tile += [i, *stores.get(i, ())]
    last_use: dict[int, int] = {}
    for index, i in enumerate(tile):
        for value in (i, *sources_of(program.steps[i])):
            last_use[root_of(program, value)] = index
    return Schedule(once, tuple(tile), last_use)


def _needed(program: ChainProgram) -> list[int]:
    needed: set[int] = set()
    for i in reversed(range(len(program.steps))):
        if isinstance(program.steps[i], Store) or i in needed:
            needed.add(i)
            needed.update(sources_of(program.steps[i]))
    return sorted(needed)


def place_values(program: ChainProgram, schedule: Schedule, tile: Tile) -> Places:
    """Assign arena space: kept values first, then tile values first-fit over their life."""
    starts: dict[int, int] = {}
    kept = 0
    for i in schedule.once:
        if not stays_in_queue(program, i) and not isinstance(program.steps[i], Relabel):
            starts[i] = kept
            kept += round_up(tile.layout(program.layouts[i]).elements(1), BLOCK_FLOATS)
    arena = _Arena(kept)
    for index, i in enumerate(schedule.tile):
        step = program.steps[i]
        if not isinstance(step, Store | Relabel) and not stays_in_queue(program, i):
            size = tile.layout(program.layouts[i]).elements(tile.rows)
            reused = _reusable(program, schedule, index, starts)
            starts[i] = arena.take_over(starts[reused], i) if reused >= 0 else arena.take(i, size)
        for value in {root_of(program, each) for each in (i, *sources_of(step))}:
            if schedule.last_use.get(value) == index:
                arena.free(value)
    return Places(starts, arena.end)


def _reusable(
    program: ChainProgram, schedule: Schedule, index: int, starts: Mapping[int, int]
) -> int:
    """Return a source that dies in an elementwise step and has the result's layout, or -1."""
    i = schedule.tile[index]
    step = program.steps[i]
    if isinstance(step, Apply | ApplyNumber | Combine):
        for source in sources_of(step):
            root = root_of(program, source)
            same = program.layouts[source] == program.layouts[i]
            dies = schedule.last_use.get(root) == index
            if same and dies and root in starts and root not in schedule.once:
                return root
    return -1


class _Arena:
    """First-fit allocation of intervals behind the kept values."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._taken: dict[int, tuple[int, int]] = {}  # owner -> start, end
        self.end = kept

    def take(self, owner: int, size: int) -> int:
        size = round_up(max(size, 1), BLOCK_FLOATS)
        start = self._kept
        for begin, end in sorted(self._taken.values()):
            if start + size <= begin:
                break
            start = max(start, end)
        self._taken[owner] = (start, start + size)
        self.end = max(self.end, start + size)
        return start

    def take_over(self, start: int, owner: int) -> int:
        previous = next(o for o, interval in self._taken.items() if interval[0] == start)
        self._taken[owner] = self._taken.pop(previous)
        return start

    def free(self, owner: int) -> None:
        self._taken.pop(owner, None)
