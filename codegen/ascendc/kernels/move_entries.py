"""``cache[slot(LENGTH + j)] = cache[slot(LENGTH + path[j])]``: an accepted path becomes a chain.

See `MoveEntries`. All entries of a place are read before the first is written, so that their order
does not matter; places have no slot in common. Of a table of blocks only the columns are read that
the entries of a place can need.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import BLOCK_BYTES, round_up
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.place_regions import Regions, lay_out, write_places
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    CPP_TYPE,
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    blocks_for,
    check_dtype,
    check_local_buffers,
    check_positive,
    kernel_function,
    local_bytes,
    row_pitch,
    through_queue,
    write_buffers,
    write_head,
    write_size,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.step_state import STATE_COLUMNS, State
from ascendfx.ir.tensor_type import DType

_FAMILY = "move-entries"
_STEP = 16
"""Places of a core at most at a time."""


@dataclass(frozen=True, slots=True)
class MoveEntriesPlan:
    """How the places are cut.

    Attributes:
        requests: Number of places, read from the device.
        nodes: Rows of a place.
        columns: Length of an entry in elements.
        cache_blocks: Blocks of the cache.
        block: Tokens of a block.
        table_blocks: Columns of the table of blocks.
        table_columns: Columns of the table that the entries of a place can need.
        dtype: Element format of the cache.
        pitch: Elements of an entry in local memory.
        step: Places of a core at a time.
        blocks: Vector cores used.
        places: Tables of the input buffer.
        buffers: Local memory.
    """

    requests: DeviceSize
    nodes: int
    columns: int
    cache_blocks: int
    block: int
    table_blocks: int
    table_columns: int
    dtype: DType
    pitch: int
    step: int
    blocks: int
    places: Regions
    buffers: tuple[LocalBuffer, ...]


def plan_move_entries(
    *,
    requests: DeviceSize,
    nodes: int,
    columns: int,
    cache_blocks: int,
    block: int,
    table_blocks: int,
    dtype: DType,
    target: Target,
) -> MoveEntriesPlan:
    """Choose the places of a core; a place takes no time worth mentioning, so each core has few.

    Raises:
        GraphError: A size is not positive, or the entries of a place do not fit.
    """
    check_dtype(_FAMILY, dtype)
    check_positive(
        _FAMILY,
        requests=requests.capacity,
        nodes=nodes,
        columns=columns,
        cache_blocks=cache_blocks,
        block=block,
        table_blocks=table_blocks,
    )
    blocks = blocks_for(requests.capacity, target)
    step = min(-(-requests.capacity // blocks), _STEP)
    places = lay_out({"STATE": STATE_COLUMNS, "PATH": nodes}, step)
    table_columns = min(table_blocks, (nodes + block - 2) // block + 1)
    pitch = row_pitch(columns, dtype, target)
    moves = max(1, nodes - 2)  # neither the root nor the last node is moved to
    buffers = (
        LocalBuffer("placeQueue", BufferKind.INPUT, places.bytes),
        LocalBuffer(
            "tableQueue", BufferKind.INPUT, step * round_up(table_columns * 4, BLOCK_BYTES)
        ),
        LocalBuffer("entryQueue", BufferKind.THROUGH, moves * pitch * dtype.bytes, copies=2),
    )
    check_local_buffers(_FAMILY, buffers, target, hint="use a smaller tree of drafts")
    return MoveEntriesPlan(
        requests=requests,
        nodes=nodes,
        columns=columns,
        cache_blocks=cache_blocks,
        block=block,
        table_blocks=table_blocks,
        table_columns=table_columns,
        dtype=dtype,
        pitch=pitch,
        step=step,
        blocks=blocks,
        places=places,
        buffers=buffers,
    )


def emit_move_entries(plan: MoveEntriesPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``cache, block_table, state, path, sizes``."""
    requests = plan.requests.capacity
    cached = plan.cache_blocks * plan.block * plan.columns
    arguments = (
        KernelArgument("cache", plan.dtype, Direction.IN_OUT, cached),
        KernelArgument("block_table", DType.I32, Direction.IN, requests * plan.table_blocks),
        KernelArgument("state", DType.I32, Direction.IN, requests * STATE_COLUMNS),
        KernelArgument("path", DType.I32, Direction.IN, requests * plan.nodes),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan), _SLOT)
    with kernel_function(out, name, arguments):
        write_size(out, "requests", plan.requests)
        write_places(out)
        write_buffers(out, plan.buffers)
        with out.block("for (uint32_t start = first; start < last; start += STEP)"):
            _write_step(out, plan)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _comment(plan: MoveEntriesPlan, name: str) -> tuple[str, ...]:
    return (
        f"{name}: accepted ones of {plan.nodes} entries of {plan.columns} {plan.dtype.value} move "
        f"to where a chain's stand; blocks of {plan.block} tokens,",
        f"place b < sizes[{plan.requests.slot}] <= {plan.requests.capacity}, {plan.step} at a time "
        f"over {plan.blocks} cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: MoveEntriesPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "STEP": plan.step,
        "NODES": plan.nodes,
        "COLUMNS": plan.columns,
        "PITCH": plan.pitch,
        "ENTRY_BYTES": plan.columns * plan.dtype.bytes,
        "BLOCK_TOKENS": plan.block,
        "TABLE_BLOCKS": plan.table_blocks,
        "TABLE_COLUMNS": plan.table_columns,
        "TABLE_PITCH": round_up(plan.table_columns * 4, BLOCK_BYTES) // 4,
        "STATE_COLUMNS": STATE_COLUMNS,
        "STATE_LENGTH": State.LENGTH,
        "STATE_FINISHED": State.FINISHED,
        **plan.places.starts,
    }


_SLOT = """\
// The slot of a place of a request; -1 without. `table` begins with the block of `length`.
__aicore__ inline int64_t Slot(const LocalTensor<int32_t>& table, uint32_t length,
                               uint32_t place) {
    const uint32_t column = place / BLOCK_TOKENS;
    if (column >= TABLE_BLOCKS) {
        return -1;
    }
    const int64_t block = table.GetValue(column - length / BLOCK_TOKENS);
    return block < 0 ? -1 : block * BLOCK_TOKENS + place % BLOCK_TOKENS;
}
"""

_TABLE = """\
const uint32_t length =
    static_cast<uint32_t>(places.GetValue(STATE + i * STATE_COLUMNS + STATE_LENGTH));
const uint32_t column = length / BLOCK_TOKENS;
if (column < TABLE_BLOCKS) {
    const uint32_t behind = TABLE_BLOCKS - column;
    const uint32_t columns = TABLE_COLUMNS < behind ? TABLE_COLUMNS : behind;
    const uint64_t source = static_cast<uint64_t>(start + i) * TABLE_BLOCKS;
    CopyIn(table[i * TABLE_PITCH], block_tableGm[source + column], 1, columns * 4, 0, 0);
}
"""

_PLACE = """\
const uint32_t state = STATE + i * STATE_COLUMNS;
if (places.GetValue(state + STATE_FINISHED) != 0) {
    continue;
}
const uint32_t length = static_cast<uint32_t>(places.GetValue(state + STATE_LENGTH));
const LocalTensor<int32_t> blocks = table[i * TABLE_PITCH];
"""

_SLOTS = """\
const int32_t node = places.GetValue(PATH + i * NODES + j);
if (node > static_cast<int32_t>(j)) {
    const int64_t source = Slot(blocks, length, length + static_cast<uint32_t>(node));
    const int64_t target = Slot(blocks, length, length + j);
    if (source >= 0 && target >= 0) {
        @COPY@
    }
}
"""


def _write_step(out: CppWriter, plan: MoveEntriesPlan) -> None:
    out.line("const uint32_t count = start + STEP < last ? STEP : last - start;")
    with through_queue(out, "placeQueue", "places", "int32_t"):
        for region, width in (("STATE", "STATE_COLUMNS"), ("PATH", "NODES")):
            out.line(
                f"CopyIn(places[{region}], {region.lower()}Gm[start * {width}], 1, "
                f"count * {width} * 4, 0, 0);"
            )
    with (
        through_queue(out, "tableQueue", "table", "int32_t"),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        out.lines(_TABLE.splitlines())
    with out.block("for (uint32_t i = 0; i < count; ++i)"):
        out.lines(_PLACE.splitlines())
        with through_queue(out, "entryQueue", "entries", CPP_TYPE[plan.dtype]):
            _write_moves(out, "CopyIn(entries[@AT@], cacheGm[source * COLUMNS], @SIZE@);")
        _write_moves(out, "CopyOut(cacheGm[target * COLUMNS], entries[@AT@], @SIZE@);")
        out.line("entryQueue.FreeTensor(entries);")
    out.line("tableQueue.FreeTensor(table);")
    out.line("placeQueue.FreeTensor(places);")


def _write_moves(out: CppWriter, copy: str) -> None:
    copy = copy.replace("@AT@", "(j - 1) * PITCH").replace("@SIZE@", "1, ENTRY_BYTES, 0, 0")
    with out.block("for (uint32_t j = 1; j + 1 < NODES; ++j)"):
        out.lines(_SLOTS.replace("@COPY@", copy).splitlines())
