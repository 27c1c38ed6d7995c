"""Choose the tile of a vector chain: as many rows as local memory holds, or pieces of one row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ascendfx.codegen.ascendc.hardware_units import (
    BLOCK_BYTES,
    BLOCK_FLOATS,
    MAX_COPY_PIECES,
    MAX_REPEATS,
    QUEUE_EVENTS,
    round_up,
)
from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.reduction_work import reduce_max_work_elements
from ascendfx.codegen.ascendc.kernels.vector_chain.layout import Form, Layout
from ascendfx.codegen.ascendc.kernels.vector_chain.lower import lower_graph
from ascendfx.codegen.ascendc.kernels.vector_chain.places import (
    Places,
    Schedule,
    Tile,
    place_values,
    schedule_steps,
    stays_in_queue,
)
from ascendfx.codegen.ascendc.kernels.vector_chain.program import ChainProgram, Load, Reduce, Store
from ascendfx.codegen.ascendc.kernels.vector_chain.tables import Table, tables_of
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    BufferKind,
    LocalBuffer,
    RowView,
    blocks_for,
    local_bytes,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.tensor_type import DType

_PIECE = 2_048
"""Columns of a piece: 4 KiB in bf16 keep the copies efficient, short rows still fill the cores."""

_COPIES = ((2, 2), (2, 1), (1, 1))
"""Buffers per input and output queue, in order of preference: overlap is given up last."""

_QUEUE_NAMES = {
    DType.F32: "Float",
    DType.BF16: "Bfloat",
    DType.I32: "Integer",
    DType.I8: "Code",
    DType.I4X2: "Pair",
}

_QUEUES = (BufferKind.INPUT, BufferKind.OUTPUT)

_MAX_LINES = BLOCK_FLOATS * MAX_REPEATS
"""Lines of a tile: one Brcb spreads eight per repeat (asc-devkit, Brcb)."""


@dataclass(frozen=True)
class VectorChainPlan:
    """Everything the emitter needs; equal plans give equal text.

    Attributes:
        name: Of the graph.
        rows: Token rows, read from the device.
        program: The steps.
        schedule: Their order.
        tile: What is in local memory at a time.
        pieces: Tiles of one row; 1 if rows are whole.
        places: Where the values live.
        tables: Index tables for gathers.
        work: f32 elements of the work area of reductions; 0 without.
        blocks: Vector cores used.
        buffers: Local memory.
    """

    name: str
    rows: DeviceSize
    program: ChainProgram
    schedule: Schedule = field(compare=False)  # follows from the program
    tile: Tile
    pieces: int
    places: Places = field(compare=False)  # follows from the program and the tile
    tables: tuple[Table, ...]
    work: int
    blocks: int
    buffers: tuple[LocalBuffer, ...]


@dataclass(frozen=True)
class _Request:
    """What is fixed before the tile is chosen."""

    name: str
    program: ChainProgram
    schedule: Schedule
    rows: DeviceSize
    blocks: int
    pieces: int
    copies: tuple[int, int] = (2, 2)


def plan_vector_chain(
    graph: Graph,
    *,
    rows: DeviceSize,
    target: Target,
    views: Mapping[int, RowView] | None = None,
    output_views: Mapping[int, RowView] | None = None,
) -> VectorChainPlan:
    """Lower ``graph`` and choose the tile.

    Args:
        graph: Token-wise operations and reductions of the last axis; the first axis of every
            input and output is the row axis, parameters have none.
        rows: Number of token rows.
        target: The chip.
        views: Rows of an input inside a larger tensor, by position in ``graph.inputs``.
        output_views: The same for outputs; elements between the rows are not written.

    Raises:
        GraphError: An operation has no place in a chain, or one row does not fit.
    """
    program = lower_graph(graph, rows, views or {}, output_views or {})
    columns = max((each.columns for each in program.layouts), default=1)
    if program.works_on_columns_alone and columns > _PIECE:
        return _plan_pieces(graph.name, program, rows, columns, target)
    blocks = blocks_for(rows.capacity, target)
    schedule = schedule_steps(program, in_pieces=False)
    groups = max(each.groups for each in program.layouts)
    most = max(1, min(-(-rows.capacity // blocks), min(_MAX_LINES, MAX_COPY_PIECES) // groups))
    request = _Request(graph.name, program, schedule, rows, blocks, 1)
    request = _most_buffers(request, target)
    best = _measure(request, Tile(1))
    _check_fits(best, target)
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        plan = _measure(request, Tile(middle))
        if local_bytes(plan.buffers) <= target.unified_buffer:
            low, best = middle, plan
        else:
            high = middle - 1
    return best


def _most_buffers(request: _Request, target: Target) -> _Request:
    """Return the request with the first choice of buffers with which one row fits."""
    for copies in _COPIES:
        request = replace(request, copies=copies)
        buffers = _measure(request, Tile(1)).buffers
        if local_bytes(buffers) <= target.unified_buffer and _has_events(buffers):
            break
    return request


def _plan_pieces(
    name: str, program: ChainProgram, rows: DeviceSize, columns: int, target: Target
) -> VectorChainPlan:
    pieces = -(-columns // _PIECE)
    schedule = schedule_steps(program, in_pieces=True)
    blocks = blocks_for(rows.capacity * pieces, target)
    plan = _measure(_Request(name, program, schedule, rows, blocks, pieces), Tile(1, _PIECE))
    _check_fits(plan, target)
    return plan


def _copies(buffers: Iterable[LocalBuffer], kind: BufferKind) -> int:
    return sum(buffer.copies for buffer in buffers if buffer.kind is kind)


def _has_events(buffers: Sequence[LocalBuffer]) -> bool:
    return all(_copies(buffers, kind) <= QUEUE_EVENTS for kind in _QUEUES)


def _check_fits(plan: VectorChainPlan, target: Target) -> None:
    needed = local_bytes(plan.buffers)
    copies = sum(buffer.copies for buffer in plan.buffers)
    if needed > target.unified_buffer:
        raise GraphError(
            code="tile-too-large",
            reason=f"{plan.name}: one row needs {needed:,} bytes of unified buffer, "
            f"{target.name} has {target.unified_buffer:,}",
            hint="split the chain",
            notes=tuple(f"{buffer} bytes" for buffer in plan.buffers),
        )
    if not _has_events(plan.buffers):
        raise GraphError(
            code="too-many-queues",
            reason=f"{plan.name} copies {_copies(plan.buffers, BufferKind.INPUT)} tensors in and "
            f"{_copies(plan.buffers, BufferKind.OUTPUT)} out, a core has {QUEUE_EVENTS} event ids "
            "for the queues of either position",
            hint="split the chain",
        )
    if copies > target.max_buffers:
        raise GraphError(
            code="too-many-buffers",
            reason=f"{plan.name} needs {copies} buffers, a kernel may own {target.max_buffers}",
            hint="split the chain",
        )


def _measure(request: _Request, tile: Tile) -> VectorChainPlan:
    """Return the plan for one tile, whether or not it fits."""
    program, schedule = request.program, request.schedule
    places = place_values(program, schedule, tile)
    tables = tables_of(program, schedule, places, tile)
    lines = [
        tile.layout(program.layouts[step.source]).columns
        for step in program.steps
        if isinstance(step, Reduce)
    ]
    work = max((reduce_max_work_elements(each, with_index=False) for each in lines), default=0)
    buffers = [
        LocalBuffer("arenaBuffer", BufferKind.SCRATCH, round_up(places.elements, BLOCK_FLOATS) * 4),
        *_queues(request, tile),
    ]
    if work:
        buffers.append(LocalBuffer("workBuffer", BufferKind.SCRATCH, work * 4))
    buffers += [
        LocalBuffer(f"{table.name}Buffer", BufferKind.SCRATCH, table.elements * 4)
        for table in tables
    ]
    return VectorChainPlan(
        request.name,
        request.rows,
        program,
        schedule,
        tile,
        request.pieces,
        places,
        tables,
        work,
        request.blocks,
        tuple(buffers),
    )


def _queues(request: _Request, tile: Tile) -> list[LocalBuffer]:
    """Return the queues of loads that own one, and those that the other copies share."""
    program, schedule = request.program, request.schedule
    shared: dict[str, int] = {}
    queues: list[LocalBuffer] = []
    for i in (*schedule.once, *schedule.tile):
        step = program.steps[i]
        if not isinstance(step, Load | Store):
            continue
        dtype = program.arguments[step.argument].dtype
        size = queue_bytes(program, i, dtype, tile)
        if stays_in_queue(program, i):
            copies = 1 if i in schedule.once else request.copies[0]
            queues.append(LocalBuffer(f"v{i}Queue", BufferKind.INPUT, size, copies))
        else:
            name = queue_name(step, dtype)
            shared[name] = max(shared.get(name, 0), size)
    for name, size in shared.items():
        inward = name.startswith("in")
        kind = BufferKind.INPUT if inward else BufferKind.OUTPUT
        queues.append(LocalBuffer(name, kind, size, request.copies[0 if inward else 1]))
    return queues


def queue_name(step: Load | Store, dtype: DType) -> str:
    """Return the shared queue of a copy."""
    direction = "in" if isinstance(step, Load) else "out"
    return f"{direction}{_QUEUE_NAMES[dtype]}Queue"


def queue_bytes(program: ChainProgram, i: int, dtype: DType, tile: Tile) -> int:
    """Return the bytes a tile of value ``i`` takes in its argument's format."""
    layout = tile.layout(program.layouts[i])
    lines = (tile.rows if layout.per_row else 1) * layout.groups
    if layout.form is Form.SCALAR:
        return round_up(lines * dtype.bytes, BLOCK_BYTES)
    return lines * queue_pitch(stored_columns(layout, dtype), dtype) * dtype.bytes


def stored_columns(layout: Layout, dtype: DType) -> int:
    """Return the elements of a line in its argument's format: half as many if they are pairs."""
    return layout.columns // 2 if dtype is DType.I4X2 else layout.columns


def queue_pitch(columns: int, dtype: DType) -> int:
    """Return the elements from line to line in a queue: whole 32-byte blocks."""
    return round_up(columns * dtype.bytes, BLOCK_BYTES) // dtype.bytes
