"""``cache[slot(LENGTH + j)] = cache[slot(LENGTH + path[j])]``: an accepted path becomes a chain.

See `MoveEntries`. A piece of work is one place in one of the caches. Its entries are all read
before the first is written, so that their order does not matter; places have no slot in common. Of
a table of blocks only the columns are read that the entries of a place can need.
"""

from collections.abc import Sequence
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
from ascendfx.codegen.ascendc.kernels.place_regions import Regions, lay_out
from ascendfx.codegen.ascendc.kernels.replace_once import replace_once
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    CPP_TYPE,
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    blocks_for,
    check_local_buffers,
    check_moved,
    check_positive,
    kernel_function,
    local_bytes,
    row_pitch,
    through_queue,
    write_buffers,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.step_state import STATE_COLUMNS, State
from ascendfx.ir.tensor_type import DType

_FAMILY = "move-entries"


@dataclass(frozen=True, slots=True)
class MoveEntriesPlan:
    """How the places are cut.

    Attributes:
        requests: Number of places, read from the device.
        nodes: Rows of a place.
        columns: Length of an entry of each cache in elements.
        cache_blocks: Blocks of each cache.
        block: Tokens of a block.
        table_blocks: Columns of the table of blocks.
        table_columns: Columns of the table that the entries of a place can need.
        dtype: Element format of the caches.
        blocks: Vector cores used.
        place: Tables of the input buffer.
        buffers: Local memory.
    """

    requests: DeviceSize
    nodes: int
    columns: tuple[int, ...]
    cache_blocks: int
    block: int
    table_blocks: int
    table_columns: int
    dtype: DType
    blocks: int
    place: Regions
    buffers: tuple[LocalBuffer, ...]


def plan_move_entries(
    *,
    requests: DeviceSize,
    nodes: int,
    columns: Sequence[int],
    cache_blocks: int,
    block: int,
    table_blocks: int,
    dtype: DType,
    target: Target,
) -> MoveEntriesPlan:
    """Spread the work: a place in a cache is some copies that wait for memory.

    Raises:
        GraphError: A size is not positive, or the entries of a place do not fit.
    """
    check_moved(_FAMILY, dtype)
    check_positive(
        _FAMILY,
        requests=requests.capacity,
        nodes=nodes,
        caches=len(columns),
        columns=min(columns, default=1),
        cache_blocks=cache_blocks,
        block=block,
        table_blocks=table_blocks,
    )
    place = lay_out({"STATE": STATE_COLUMNS, "PATH": nodes}, 1)
    table_columns = min(table_blocks, (nodes + block - 2) // block + 1)
    pitch = row_pitch(max(columns), dtype, target)
    moves = max(1, nodes - 2)  # neither the root nor the last node is moved to
    buffers = (
        LocalBuffer("placeQueue", BufferKind.INPUT, place.bytes),
        LocalBuffer("tableQueue", BufferKind.INPUT, round_up(table_columns * 4, BLOCK_BYTES)),
        LocalBuffer("entryQueue", BufferKind.THROUGH, moves * pitch * dtype.bytes, copies=2),
    )
    check_local_buffers(_FAMILY, buffers, target, hint="use a smaller tree of drafts")
    return MoveEntriesPlan(
        requests=requests,
        nodes=nodes,
        columns=tuple(columns),
        cache_blocks=cache_blocks,
        block=block,
        table_blocks=table_blocks,
        table_columns=table_columns,
        dtype=dtype,
        blocks=blocks_for(requests.capacity * len(columns), target),
        place=place,
        buffers=buffers,
    )


def emit_move_entries(plan: MoveEntriesPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``cache_0, cache_1, .., block_table, state, path, sizes``."""
    requests, entries = plan.requests.capacity, plan.cache_blocks * plan.block
    arguments = (
        *(
            KernelArgument(f"cache_{i}", plan.dtype, Direction.IN_OUT, entries * columns)
            for i, columns in enumerate(plan.columns)
        ),
        KernelArgument("block_table", DType.I32, Direction.IN, requests * plan.table_blocks),
        KernelArgument("state", DType.I32, Direction.IN, requests * STATE_COLUMNS),
        KernelArgument("path", DType.I32, Direction.IN, requests * plan.nodes),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan), _SLOT + _move_text(plan.dtype))
    with kernel_function(out, name, arguments):
        write_size(out, "requests", plan.requests)
        out.line("const uint32_t items = requests * CACHES;")
        write_split(out, "items")
        write_buffers(out, plan.buffers)
        with out.block("for (uint32_t i = first / CACHES; i * CACHES < last; ++i)"):
            _write_place(out, plan)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _comment(plan: MoveEntriesPlan, name: str) -> tuple[str, ...]:
    return (
        f"{name}: accepted ones of {plan.nodes} entries of {plan.dtype.value} in each of "
        f"{len(plan.columns)} caches move to where a chain's stand; blocks of {plan.block} tokens,",
        f"place b < sizes[{plan.requests.slot}] <= {plan.requests.capacity} over {plan.blocks} "
        f"cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: MoveEntriesPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "CACHES": len(plan.columns),
        "NODES": plan.nodes,
        "ELEMENT_BYTES": plan.dtype.bytes,
        "BLOCK_TOKENS": plan.block,
        "TABLE_BLOCKS": plan.table_blocks,
        "TABLE_COLUMNS": plan.table_columns,
        "STATE_COLUMNS": STATE_COLUMNS,
        "STATE_LENGTH": State.LENGTH,
        "STATE_FINISHED": State.FINISHED,
        **plan.place.starts,
    }


_SLOT = """\
// The slot of a position of a request; -1 without. `table` begins with the block of `length`.
__aicore__ inline int64_t Slot(const LocalTensor<int32_t>& table, uint32_t length,
                               uint32_t position) {
    const uint32_t column = position / BLOCK_TOKENS;
    if (column >= TABLE_BLOCKS) {
        return -1;
    }
    const int64_t block = table.GetValue(column - length / BLOCK_TOKENS);
    return block < 0 ? -1 : block * BLOCK_TOKENS + position % BLOCK_TOKENS;
}

"""

_MOVES = """\
for (uint32_t j = 1; j + 1 < NODES; ++j) {
    const int32_t node = place.GetValue(PATH + j);
    if (node > static_cast<int32_t>(j)) {
        const int64_t source = Slot(table, length, length + static_cast<uint32_t>(node));
        const int64_t target = Slot(table, length, length + j);
        if (source >= 0 && target >= 0) {
            @COPY@
        }
    }
}
"""


def _move_text(dtype: DType) -> str:
    """Return the function that moves the entries of one place in one cache."""
    scalar = CPP_TYPE[dtype]
    out = CppWriter()
    with out.block(
        f"__aicore__ inline void Move({BufferKind.THROUGH.value}& queue, "
        f"const GlobalTensor<{scalar}>& cache, uint32_t columns, "
        "const LocalTensor<int32_t>& place, const LocalTensor<int32_t>& table, uint32_t length)"
    ):
        out.line("const uint32_t bytes = columns * ELEMENT_BYTES;")
        out.line("const uint32_t pitch = (bytes + 31) / 32 * 32 / ELEMENT_BYTES;")
        with through_queue(out, "queue", "entries", scalar):
            _write_moves(out, "CopyIn(entries[(j - 1) * pitch], cache[source * columns], @SIZE@);")
        _write_moves(out, "CopyOut(cache[target * columns], entries[(j - 1) * pitch], @SIZE@);")
        out.line("queue.FreeTensor(entries);")
    return out.text()


def _write_moves(out: CppWriter, copy: str) -> None:
    copy = replace_once(copy, ("@SIZE@", "1, bytes, 0, 0"))
    out.lines(replace_once(_MOVES, ("@COPY@", copy)).splitlines())


_TABLE = """\
if (column < TABLE_BLOCKS) {
    const uint32_t behind = TABLE_BLOCKS - column;
    const uint32_t columns = TABLE_COLUMNS < behind ? TABLE_COLUMNS : behind;
    const uint64_t source = static_cast<uint64_t>(i) * TABLE_BLOCKS + column;
    CopyIn(table, block_tableGm[source], 1, columns * 4, 0, 0);
}
"""


def _write_place(out: CppWriter, plan: MoveEntriesPlan) -> None:
    with through_queue(out, "placeQueue", "place", "int32_t"):
        out.line("CopyIn(place[STATE], stateGm[i * STATE_COLUMNS], 1, STATE_COLUMNS * 4, 0, 0);")
        out.line("CopyIn(place[PATH], pathGm[i * NODES], 1, NODES * 4, 0, 0);")
    out.line("const bool runs = place.GetValue(STATE + STATE_FINISHED) == 0;")
    out.line("const uint32_t length = static_cast<uint32_t>(place.GetValue(STATE + STATE_LENGTH));")
    out.line("const uint32_t column = length / BLOCK_TOKENS;")
    with through_queue(out, "tableQueue", "table", "int32_t"):
        out.lines(_TABLE.splitlines())
    out.line("const uint32_t begin = first > i * CACHES ? first - i * CACHES : 0;")
    out.line("const uint32_t end = last - i * CACHES < CACHES ? last - i * CACHES : CACHES;")
    with out.block("for (uint32_t cache = begin; runs && cache < end; ++cache)"):
        for i, columns in enumerate(plan.columns):
            with out.block(f"if (cache == {i})"):
                out.line(f"Move(entryQueue, cache_{i}Gm, {columns}, place, table, length);")
    out.line("tableQueue.FreeTensor(table);")
    out.line("placeQueue.FreeTensor(place);")
