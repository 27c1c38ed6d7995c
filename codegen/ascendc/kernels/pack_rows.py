"""The rows of a decode step without placeholders, and their number for the kernels behind.

Where the rows of a place go depends on all places before it. Every core sums up their drafts by
itself: a few scalars for each place cost less than a barrier between cores. The first core counts
all places and writes the sizes.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import BLOCK_BYTES
from ascendfx.codegen.ascendc.kernel import (
    SIZES_ELEMENTS,
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.place_regions import (
    Regions,
    lay_out,
    split_places,
    write_places,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    BufferKind,
    LocalBuffer,
    check_local_buffers,
    check_positive,
    kernel_function,
    local_bytes,
    through_queue,
    write_buffers,
    write_head,
    write_size,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.packed_rows import KEEP_ROWS
from ascendfx.ir.step_state import STATE_COLUMNS, Size, State
from ascendfx.ir.tensor_type import DType

_FAMILY = "pack-rows"
_OF_ROWS = ("ids", "packed_positions", "packed_slots", "row_request")
"""Results with an element per row."""
_PIECES = 128
"""Places whose drafts are read at a time: each takes a block of local memory."""
_LANES = BLOCK_BYTES // 4

_COUNT_ROWS = """\
// Rows of a place, from the columns of its state that are held at `at`.
__aicore__ inline uint32_t RowsOf(const LocalTensor<int32_t>& states, uint32_t at) {
    const int32_t finished = states.GetValue(at);
    const uint32_t drafted = static_cast<uint32_t>(states.GetValue(at + DRAFTED_BEHIND));
    if (finished != FINISH_RUNS && finished != FINISH_NOT_FINITE) {
        return 1;
    }
    return drafted < ROWS ? drafted + 1 : ROWS;
}
"""

_SUM_UP = """\
uint32_t row = 0;  // the first of place `first`
uint32_t total = 0;
const uint32_t counted = GetBlockIdx() == 0 ? requests : first < requests ? first : 0;
for (uint32_t from = 0; from < counted; from += PIECES) {
    const uint32_t pieces = from + PIECES < counted ? PIECES : counted - from;
    LocalTensor<int32_t> states = stateQueue.AllocTensor<int32_t>();
    CopyIn(states, stateGm[from * STATE_COLUMNS + FIRST_COLUMN], pieces, 8,
           STATE_COLUMNS * 4 - 8, 0);
    stateQueue.EnQue(states);
    states = stateQueue.DeQue<int32_t>();
    for (uint32_t i = 0; i < pieces; ++i) {
        total += RowsOf(states, i * LANES);
    }
    stateQueue.FreeTensor(states);
}
row = GetBlockIdx() == 0 ? 0 : total;
if (GetBlockIdx() == 0 && requests > 0) {
    LocalTensor<int32_t> counts = sizeQueue.AllocTensor<int32_t>();
    counts.SetValue(0, static_cast<int32_t>(total));
    counts.SetValue(1, static_cast<int32_t>(total * PAIRS));
    sizeQueue.EnQue(counts);
    counts = sizeQueue.DeQue<int32_t>();
    CopyOut(sizesGm[PACKED_ROWS], counts, 1, 8, 0, 0);
    sizeQueue.FreeTensor(counts);
}
"""

_MOVE = """\
uint32_t made = 0;
for (uint32_t i = 0; i < count; ++i) {
    const uint32_t rows = RowsOf(places, STATE + i * STATE_COLUMNS + FIRST_COLUMN);
    results.SetValue(ROW_START + i, static_cast<int32_t>(row + made));
    for (uint32_t j = 0; j < rows; ++j) {
        results.SetValue(OUT_IDS + made, places.GetValue(IDS + i * ROWS + j));
        results.SetValue(OUT_PACKED_POSITIONS + made, places.GetValue(POSITIONS + i * ROWS + j));
        results.SetValue(OUT_PACKED_SLOTS + made, places.GetValue(SLOTS + i * ROWS + j));
        results.SetValue(OUT_ROW_REQUEST + made, static_cast<int32_t>(start + i));
        made += 1;
    }
}
"""


@dataclass(frozen=True, slots=True)
class PackRowsPlan:
    """How the places are cut.

    Attributes:
        requests: Number of places, read from the device.
        drafts: Draft tokens of a place at most.
        pairs: Experts of a row; 0 without.
        step: Places of a core at a time.
        blocks: Vector cores used.
        places: Tables of the input buffer.
        results: Tables of the output buffer.
        buffers: Local memory.
    """

    requests: DeviceSize
    drafts: int
    pairs: int
    step: int
    blocks: int
    places: Regions
    results: Regions
    buffers: tuple[LocalBuffer, ...]


def plan_pack_rows(
    *, requests: DeviceSize, drafts: int, pairs: int, target: Target
) -> PackRowsPlan:
    """Choose the places of a core.

    Raises:
        GraphError: A size is not positive, or the places of a core do not fit.
    """
    check_positive(_FAMILY, requests=requests.capacity, rows=drafts + 1, pairs=pairs + 1)
    blocks, step = split_places(requests.capacity, target)
    rows = drafts + 1
    widths = {"IDS": rows, "POSITIONS": rows, "SLOTS": rows, "STATE": STATE_COLUMNS}
    places = lay_out(widths, step)
    of_rows = {f"OUT_{name.upper()}": rows for name in _OF_ROWS}
    results = lay_out({**of_rows, "ROW_START": 1}, step)
    pieces = min(requests.capacity, _PIECES)
    buffers = (
        LocalBuffer("stateQueue", BufferKind.INPUT, pieces * BLOCK_BYTES),
        LocalBuffer("sizeQueue", BufferKind.OUTPUT, BLOCK_BYTES),
        LocalBuffer("placeQueue", BufferKind.INPUT, places.bytes),
        LocalBuffer("resultQueue", BufferKind.OUTPUT, results.bytes),
    )
    check_local_buffers(_FAMILY, buffers, target)
    return PackRowsPlan(requests, drafts, pairs, step, blocks, places, results, buffers)


def emit_pack_rows(plan: PackRowsPlan, name: str) -> Kernel:
    """Return the kernel.

    Arguments ``token_ids, positions, slots, state, ids, packed_positions, packed_slots,
    row_request, row_start, sizes``; the last is read and written.
    """
    requests = plan.requests.capacity
    rows = requests * (plan.drafts + 1)
    arguments = (
        *(
            KernelArgument(each, DType.I32, Direction.IN, rows)
            for each in ("token_ids", "positions", "slots")
        ),
        KernelArgument("state", DType.I32, Direction.IN, requests * STATE_COLUMNS),
        *(KernelArgument(each, DType.I32, Direction.OUT, rows) for each in _OF_ROWS),
        KernelArgument("row_start", DType.I32, Direction.OUT, requests),
        KernelArgument("sizes", DType.I32, Direction.IN_OUT, SIZES_ELEMENTS),
    )
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan), _COUNT_ROWS)
    with kernel_function(out, name, arguments):
        write_size(out, "requests", plan.requests)
        write_places(out)
        write_buffers(out, plan.buffers)
        out.lines(_SUM_UP.splitlines())
        with out.block("for (uint32_t start = first; start < last; start += STEP)"):
            _write_tile(out)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _comment(plan: PackRowsPlan, name: str) -> tuple[str, ...]:
    return (
        f"{name}: the rows of each place, up to {plan.drafts + 1}, close together; their number "
        f"becomes sizes[{int(Size.PACKED_ROWS)}], {plan.pairs} times that",
        f"sizes[{int(Size.PACKED_PAIRS)}]; place b < sizes[{plan.requests.slot}] <= "
        f"{plan.requests.capacity}, {plan.step} at a time over {plan.blocks} cores; "
        f"{local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: PackRowsPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "STEP": plan.step,
        "ROWS": plan.drafts + 1,
        "PAIRS": plan.pairs,
        "PIECES": min(plan.requests.capacity, _PIECES),
        "LANES": _LANES,
        "STATE_COLUMNS": STATE_COLUMNS,
        "FIRST_COLUMN": int(State.FINISHED),
        "DRAFTED_BEHIND": int(State.DRAFTED) - int(State.FINISHED),
        **{f"FINISH_{each.name}": int(each) for each in KEEP_ROWS},
        "PACKED_ROWS": int(Size.PACKED_ROWS),
        **plan.places.starts,
        **plan.results.starts,
    }


_COPIED = (
    ("IDS", "token_ids", "ROWS"),
    ("POSITIONS", "positions", "ROWS"),
    ("SLOTS", "slots", "ROWS"),
    ("STATE", "state", "STATE_COLUMNS"),
)
"""Region, tensor and width of what is copied in."""


def _write_tile(out: CppWriter) -> None:
    out.line("const uint32_t count = start + STEP < last ? STEP : last - start;")
    with through_queue(out, "placeQueue", "places", "int32_t"):
        for region, tensor, width in _COPIED:
            out.line(
                f"CopyIn(places[{region}], {tensor}Gm[start * {width}], 1, count * {width} * 4, "
                "0, 0);"
            )
    out.line("LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();")
    out.lines(_MOVE.splitlines())
    out.lines(("resultQueue.EnQue(results);", "results = resultQueue.DeQue<int32_t>();"))
    for name in _OF_ROWS:
        out.line(f"CopyOut({name}Gm[row], results[OUT_{name.upper()}], 1, made * 4, 0, 0);")
    out.line("CopyOut(row_startGm[start], results[ROW_START], 1, count * 4, 0, 0);")
    out.line("row += made;")
    out.line("resultQueue.FreeTensor(results);")
    out.line("placeQueue.FreeTensor(places);")
