"""Rows of draft layers that end at the last accepted token of each place; see `AlignDrafts`.

Scalars decide on copies in local memory, as in `verify_drafts`. Of a table of blocks only the
columns are read that the rows of a place can need. The main model's rows may be packed; rows of
draft layers never are.
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
from ascendfx.codegen.ascendc.kernels.place_regions import (
    OWN_ROWS,
    Regions,
    lay_out,
    split_places,
    write_packed_range,
    write_places,
)
from ascendfx.codegen.ascendc.kernels.replace_once import replace_once
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    check_local_buffers,
    check_positive,
    hand_over,
    kernel_function,
    local_bytes,
    through_queue,
    write_buffers,
    write_head,
    write_size,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.step_state import RECENT_COLUMNS, STATE_COLUMNS, State, hidden_window
from ascendfx.ir.tensor_type import DType

_FAMILY = "align-drafts"
_OF_ROWS = ("ids", "positions", "slots", "kept_at", "found_at")
"""Results with an element per row."""

_AT_OFFSET = """\
// The token `offset` places behind the first row of place `i`: accepted, new, or an earlier one.
__aicore__ inline int32_t Token(const LocalTensor<int32_t>& places, uint32_t i, int32_t offset,
                                int32_t accepted) {
    if (offset > accepted) {
        return places.GetValue(NEW + i);
    }
    return offset >= 0 ? places.GetValue(IDS + i * ROWS + offset)
                       : places.GetValue(RECENT + i * RECENT_COLUMNS - 1 - offset);
}
"""

_ROWS = """\
const uint32_t state = STATE + i * STATE_COLUMNS;
const bool runs = places.GetValue(state + STATE_FINISHED) == 0;
const int32_t length = places.GetValue(state + STATE_LENGTH);
const int32_t accepted = places.GetValue(ACCEPTED + i);
const int32_t moved = accepted - static_cast<int32_t>(ROWS - 1);
const uint32_t from = length + moved > 0 ? length + moved : 0;
const uint32_t kept = (start + i) * WINDOW;
for (uint32_t j = 0; j < ROWS; ++j) {
    const uint32_t row = i * ROWS + j;
    const int32_t offset = moved + static_cast<int32_t>(j);
    const bool inside = length + offset >= 0;
    const uint32_t position = inside ? length + offset : 0;
    const uint32_t column = position / BLOCK_TOKENS;
    int32_t slot = -1;
    if (runs && inside && column < TABLE_BLOCKS) {
        const int32_t block = table.GetValue(i * TABLE_PITCH + column - from / BLOCK_TOKENS);
        if (block >= 0) {
            slot = block * BLOCK_TOKENS + position % BLOCK_TOKENS;
        }
    }
    results.SetValue(OUT_IDS + row, inside ? Token(places, i, offset + 1, accepted) : 0);
    results.SetValue(OUT_POSITIONS + row, static_cast<int32_t>(position));
    results.SetValue(OUT_SLOTS + row, slot);
    results.SetValue(OUT_FOUND_AT + row, static_cast<int32_t>(kept + position % WINDOW));
    results.SetValue(OUT_KEPT_AT + row,
                     runs ? static_cast<int32_t>(kept + (length + j) % WINDOW) : -1);
}
results.SetValue(OUT_LAST_ROWS + i, static_cast<int32_t>((start + i) * ROWS + ROWS - 1));
for (uint32_t j = RECENT_COLUMNS; j > 0; --j) {
    const int32_t offset = accepted - static_cast<int32_t>(j - 1);
    places.SetValue(RECENT + i * RECENT_COLUMNS + j - 1, Token(places, i, offset, accepted));
}
"""

_OFFSET_IN_TREE = (
    "places.GetValue(IDS + i * ROWS + offset)",
    "places.GetValue(IDS + i * ROWS + places.GetValue(PATH + i * ROWS + offset))",
)
_DEPTH_OF_TREE = ("static_cast<int32_t>(ROWS - 1)", "static_cast<int32_t>(DRAFTS)")
_ROWS_OF_TREE = (
    _DEPTH_OF_TREE,
    ("bool inside = length + offset >= 0;", "bool inside = length + offset >= 0 && j <= DRAFTS;"),
    (
        """\
    results.SetValue(OUT_KEPT_AT + row,
                     runs ? static_cast<int32_t>(kept + (length + j) % WINDOW) : -1);
}
""",
        """\
    results.SetValue(OUT_KEPT_AT + row, -1);
}
for (int32_t j = 0; runs && j <= accepted; ++j) {
    const uint32_t row = i * ROWS + places.GetValue(PATH + i * ROWS + j);
    results.SetValue(OUT_KEPT_AT + row, static_cast<int32_t>(kept + (length + j) % WINDOW));
}
""",
    ),
    ("(start + i) * ROWS + ROWS - 1", "(start + i) * ROWS + DRAFTS"),
)
"""What differs where the rows are nodes of a tree: the text that a chain has, and the tree's."""

_PACKED_ROWS = (
    ("for (uint32_t j = 0; j < ROWS; ++j) {", f"{OWN_ROWS}for (uint32_t j = 0; j < ROWS; ++j) {{"),
    (
        """\
    results.SetValue(OUT_KEPT_AT + row,
                     runs ? static_cast<int32_t>(kept + (length + j) % WINDOW) : -1);
""",
        """\
    if (j < rowsOf) {
        results.SetValue(OUT_KEPT_AT + own + j,
                         runs ? static_cast<int32_t>(kept + (length + j) % WINDOW) : -1);
    }
""",
    ),
)
"""What differs where the rows of the main model are packed."""

_TABLE = """\
const uint32_t state = STATE + i * STATE_COLUMNS;
const int32_t newest = places.GetValue(state + STATE_LENGTH) + places.GetValue(ACCEPTED + i);
const int32_t oldest = newest - static_cast<int32_t>(ROWS - 1);
const uint32_t column = (oldest > 0 ? oldest : 0) / BLOCK_TOKENS;
if (column < TABLE_BLOCKS) {
    const uint32_t behind = TABLE_BLOCKS - column;
    const uint32_t columns = TABLE_COLUMNS < behind ? TABLE_COLUMNS : behind;
    const uint64_t source = static_cast<uint64_t>(start + i) * TABLE_BLOCKS;
    CopyIn(table[i * TABLE_PITCH], block_tableGm[source + column], 1, columns * 4, 0, 0);
}
"""


@dataclass(frozen=True, slots=True)
class AlignDraftsPlan:
    """How the places are cut.

    Attributes:
        requests: Number of places, read from the device.
        drafts: Draft tokens of a place that can be accepted together.
        nodes: Rows of a place in a tree; 0: the rows are a chain.
        packed: Number of rows of the main model, read from the device, where they are packed.
        block: Tokens of a block of the caches.
        table_blocks: Columns of the table of blocks.
        table_columns: Columns of the table that the rows of a place can need.
        step: Places of a core at a time.
        blocks: Vector cores used.
        places: Tables of the buffer that is read and, in part, written back.
        results: Tables of the output buffer.
        buffers: Local memory.
    """

    requests: DeviceSize
    drafts: int
    nodes: int
    packed: DeviceSize | None
    block: int
    table_blocks: int
    table_columns: int
    step: int
    blocks: int
    places: Regions
    results: Regions
    buffers: tuple[LocalBuffer, ...]

    @property
    def rows(self) -> int:
        """Rows of a place."""
        return self.nodes or self.drafts + 1


def plan_align_drafts(
    *,
    requests: DeviceSize,
    drafts: int,
    block: int,
    table_blocks: int,
    target: Target,
    nodes: int = 0,
    packed: DeviceSize | None = None,
) -> AlignDraftsPlan:
    """Choose the places of a core.

    Raises:
        GraphError: A size is not positive, or the places of a core do not fit.
    """
    check_positive(
        _FAMILY,
        requests=requests.capacity,
        drafts=drafts,
        block=block,
        table_blocks=table_blocks,
    )
    rows = nodes or drafts + 1
    blocks, step = split_places(requests.capacity, target)
    widths = {"IDS": rows, "STATE": STATE_COLUMNS, "ACCEPTED": 1, "NEW": 1}
    path = {"PATH": nodes} if nodes else {}
    starts = {"ROW_START": 1} if packed else {}
    places = lay_out({**widths, "RECENT": RECENT_COLUMNS, **path, **starts}, step)
    of_rows = {f"OUT_{name.upper()}": rows for name in _OF_ROWS}
    results = lay_out({**of_rows, "OUT_LAST_ROWS": 1}, step)
    table_columns = min(table_blocks, (drafts + block - 1) // block + 1)
    pitch = round_up(table_columns * 4, BLOCK_BYTES)
    buffers = (
        LocalBuffer("placeQueue", BufferKind.THROUGH, places.bytes),
        LocalBuffer("tableQueue", BufferKind.INPUT, step * pitch),
        LocalBuffer("resultQueue", BufferKind.OUTPUT, results.bytes),
    )
    check_local_buffers(_FAMILY, buffers, target)
    return AlignDraftsPlan(
        requests,
        drafts,
        nodes,
        packed,
        block,
        table_blocks,
        table_columns,
        step,
        blocks,
        places,
        results,
        buffers,
    )


def emit_align_drafts(plan: AlignDraftsPlan, name: str) -> Kernel:
    """Return the kernel.

    Arguments ``token_ids, block_table, state, accepted, new_tokens, recent[, path][, row_start]``,
    ``ids, positions, slots, last_rows, kept_at, found_at, sizes``; ``recent`` is read and written.
    """
    requests, rows = plan.requests.capacity, plan.rows
    shapes = (
        ("token_ids", Direction.IN, rows),
        ("block_table", Direction.IN, plan.table_blocks),
        ("state", Direction.IN, STATE_COLUMNS),
        ("accepted", Direction.IN, 1),
        ("new_tokens", Direction.IN, 1),
        ("recent", Direction.IN_OUT, RECENT_COLUMNS),
        *((("path", Direction.IN, rows),) if plan.nodes else ()),
        *((("row_start", Direction.IN, 1),) if plan.packed else ()),
        ("ids", Direction.OUT, rows),
        ("positions", Direction.OUT, rows),
        ("slots", Direction.OUT, rows),
        ("last_rows", Direction.OUT, 1),
        ("kept_at", Direction.OUT, rows),
        ("found_at", Direction.OUT, rows),
    )
    arguments = (
        *(KernelArgument(n, DType.I32, way, width * requests) for n, way, width in shapes),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    offset = replace_once(_AT_OFFSET, _OFFSET_IN_TREE) if plan.nodes else _AT_OFFSET
    write_head(out, _comment(plan, name), _constants(plan), offset)
    with kernel_function(out, name, arguments):
        write_size(out, "requests", plan.requests)
        if plan.packed:
            write_size(out, "rows", plan.packed)
        write_places(out)
        write_buffers(out, plan.buffers)
        with out.block("for (uint32_t start = first; start < last; start += STEP)"):
            _write_tile(out, plan)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _rows_text(plan: AlignDraftsPlan) -> str:
    return replace_once(
        _ROWS, *(_ROWS_OF_TREE if plan.nodes else _PACKED_ROWS if plan.packed else ())
    )


def _comment(plan: AlignDraftsPlan, name: str) -> tuple[str, ...]:
    count = f"{plan.drafts + 1}" + f" among {plan.nodes}" * bool(plan.nodes)
    count += " of packed ones" if plan.packed else ""
    return (
        f"{name}: rows of draft layers, {count} of each place, that end at its last "
        f"accepted token; blocks of {plan.block} tokens,",
        f"place b < sizes[{plan.requests.slot}] <= {plan.requests.capacity}, {plan.step} at a time "
        f"over {plan.blocks} cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: AlignDraftsPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "STEP": plan.step,
        "ROWS": plan.rows,
        **({"DRAFTS": plan.drafts} if plan.nodes else {}),
        "WINDOW": hidden_window(plan.drafts),
        "BLOCK_TOKENS": plan.block,
        "TABLE_BLOCKS": plan.table_blocks,
        "TABLE_COLUMNS": plan.table_columns,
        "TABLE_PITCH": round_up(plan.table_columns * 4, BLOCK_BYTES) // 4,
        "RECENT_COLUMNS": RECENT_COLUMNS,
        "STATE_COLUMNS": STATE_COLUMNS,
        "STATE_LENGTH": State.LENGTH,
        "STATE_FINISHED": State.FINISHED,
        **plan.places.starts,
        **plan.results.starts,
    }


_COPIED = (
    ("IDS", "token_ids", " * ROWS"),
    ("STATE", "state", " * STATE_COLUMNS"),
    ("ACCEPTED", "accepted", ""),
    ("NEW", "new_tokens", ""),
    ("RECENT", "recent", " * RECENT_COLUMNS"),
)
"""Region, tensor and width of what is copied in."""


def _write_tile(out: CppWriter, plan: AlignDraftsPlan) -> None:
    out.line("const uint32_t count = start + STEP < last ? STEP : last - start;")
    if plan.packed:
        write_packed_range(out)
    with through_queue(out, "placeQueue", "places", "int32_t"):
        path = (("PATH", "path", " * ROWS"),) if plan.nodes else ()
        starts = (("ROW_START", "row_start", ""),) if plan.packed else ()
        for region, tensor, width in (*_COPIED, *path, *starts):
            out.line(
                f"CopyIn(places[{region}], {tensor}Gm[start{width}], 1, count{width} * 4, 0, 0);"
            )
    with (
        through_queue(out, "tableQueue", "table", "int32_t"),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        table = replace_once(_TABLE, _DEPTH_OF_TREE) if plan.nodes else _TABLE
        out.lines(table.splitlines())
    with (
        through_queue(out, "resultQueue", "results", "int32_t"),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        out.lines(_rows_text(plan).splitlines())
    hand_over(out, "placeQueue", "places", "int32_t")
    for name in _OF_ROWS:
        region = f"results[OUT_{name.upper()}]"
        if name == "kept_at" and plan.packed:
            out.line(f"CopyOut({name}Gm[begin], {region}, 1, (end - begin) * 4, 0, 0);")
        else:
            out.line(f"CopyOut({name}Gm[start * ROWS], {region}, 1, count * ROWS * 4, 0, 0);")
    out.line("CopyOut(last_rowsGm[start], results[OUT_LAST_ROWS], 1, count * 4, 0, 0);")
    out.line(
        "CopyOut(recentGm[start * RECENT_COLUMNS], places[RECENT], 1, count * RECENT_COLUMNS * 4, "
        "0, 0);"
    )
    for queue, variable in (("result", "results"), ("table", "table"), ("place", "places")):
        out.line(f"{queue}Queue.FreeTensor({variable});")
