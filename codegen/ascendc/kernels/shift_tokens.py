"""``y[r] = ids[r + 1]``, and a new token in the last row of every request; see `ShiftTokens`."""

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
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    blocks_for,
    check_local_buffers,
    check_positive,
    kernel_function,
    local_bytes,
    through_queue,
    write_buffers,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.tensor_type import DType

_FAMILY = "shift-tokens"
_SHARE = 8
"""Rows of a core at least: fewer would make more copies than work."""
_STEP = 1_024
"""Rows of a core at most at a time."""


@dataclass(frozen=True, slots=True)
class ShiftTokensPlan:
    """How the rows are cut.

    Attributes:
        rows: Number of rows, read from the device.
        requests: Number of requests, read from the device.
        depth: Column of the known tokens.
        known: Columns of the known tokens; 0 without.
        step: Rows of a core at a time.
        blocks: Vector cores used.
        tables: Tables of the requests, whole in every core.
        inputs: Tables of the rows.
        buffers: Local memory.
    """

    rows: DeviceSize
    requests: DeviceSize
    depth: int
    known: int
    step: int
    blocks: int
    tables: Regions
    inputs: Regions
    buffers: tuple[LocalBuffer, ...]


def plan_shift_tokens(
    *, rows: DeviceSize, requests: DeviceSize, depth: int, known: int, target: Target
) -> ShiftTokensPlan:
    """Choose the rows of a core.

    Raises:
        GraphError: A size is not positive, or the tables of all requests do not fit.
    """
    check_positive(_FAMILY, rows=rows.capacity, requests=requests.capacity)
    blocks = blocks_for(-(-rows.capacity // _SHARE), target)
    step = min(-(-rows.capacity // blocks), _STEP)
    tables = lay_out({"LAST_ROWS": 1, "NEW": 1, "KNOWN": known}, requests.capacity)
    inputs = lay_out({"REQUEST": 1, "IDS": 1}, step + 1)
    buffers = (
        LocalBuffer("tableQueue", BufferKind.INPUT, tables.bytes),
        LocalBuffer("rowQueue", BufferKind.INPUT, inputs.bytes),
        LocalBuffer("resultQueue", BufferKind.OUTPUT, round_up(step * 4, BLOCK_BYTES)),
    )
    check_local_buffers(_FAMILY, buffers, target)
    return ShiftTokensPlan(rows, requests, depth, known, step, blocks, tables, inputs, buffers)


def emit_shift_tokens(plan: ShiftTokensPlan, name: str) -> Kernel:
    """Return the kernel.

    Arguments ``ids, last_rows, row_request, new_tokens[, known_tokens], shifted, sizes``.
    """
    rows, requests = plan.rows.capacity, plan.requests.capacity
    arguments = (
        KernelArgument("ids", DType.I32, Direction.IN, rows),
        KernelArgument("last_rows", DType.I32, Direction.IN, requests),
        KernelArgument("row_request", DType.I32, Direction.IN, rows),
        KernelArgument("new_tokens", DType.I32, Direction.IN, requests),
        *(
            (KernelArgument("known_tokens", DType.I32, Direction.IN, requests * plan.known),)
            if plan.known
            else ()
        ),
        KernelArgument("shifted", DType.I32, Direction.OUT, rows),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    source = f"known_tokens[q, {plan.depth}] or new_tokens[q]" if plan.known else "new_tokens[q]"
    comment = (
        f"{name}: shifted[r] = ids[r + 1] before last_rows[q], {source} there, ids[r] behind,",
        f"q = row_request[r], r < sizes[{plan.rows.slot}] <= {rows}, q < sizes"
        f"[{plan.requests.slot}] <= {requests}, {plan.step} rows at a time, over {plan.blocks} "
        f"cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )
    constants: dict[str, int | str] = {
        "BLOCKS": plan.blocks,
        "STEP": plan.step,
        **({"DEPTH": plan.depth, "KNOWN_COLUMNS": plan.known} if plan.known else {}),
        **{k: v for k, v in plan.tables.starts.items() if plan.known or k != "KNOWN"},
        **plan.inputs.starts,
    }
    write_head(out, comment, constants)
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        write_size(out, "requests", plan.requests)
        write_split(out, "rows")
        write_buffers(out, plan.buffers)
        with through_queue(out, "tableQueue", "tables", "int32_t"):
            out.line("CopyIn(tables[LAST_ROWS], last_rowsGm, 1, requests * 4, 0, 0);")
            out.line("CopyIn(tables[NEW], new_tokensGm, 1, requests * 4, 0, 0);")
            if plan.known:
                out.line(
                    "CopyIn(tables[KNOWN], known_tokensGm, 1, requests * KNOWN_COLUMNS * 4, 0, 0);"
                )
        with out.block("for (uint32_t start = first; start < last; start += STEP)"):
            _write_step(out, plan)
        out.line("tableQueue.FreeTensor(tables);")
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _write_step(out: CppWriter, plan: ShiftTokensPlan) -> None:
    out.line("const uint32_t count = start + STEP < last ? STEP : last - start;")
    out.line("const uint32_t read = start + count < rows ? count + 1 : count;")
    with through_queue(out, "rowQueue", "rowsLocal", "int32_t"):
        out.line("CopyIn(rowsLocal[REQUEST], row_requestGm[start], 1, count * 4, 0, 0);")
        out.line("CopyIn(rowsLocal[IDS], idsGm[start], 1, read * 4, 0, 0);")
    with (
        through_queue(out, "resultQueue", "results", "int32_t"),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        out.line("const uint32_t request = static_cast<uint32_t>(rowsLocal.GetValue(REQUEST + i));")
        out.line(
            "const uint32_t end = static_cast<uint32_t>(tables.GetValue(LAST_ROWS + request));"
        )
        out.line("const uint32_t next = start + i < end ? IDS + i + 1 : IDS + i;")
        out.line("int32_t token = rowsLocal.GetValue(next);")
        with out.block("if (start + i == end)"):
            out.line("token = tables.GetValue(NEW + request);")
            if plan.known:
                out.line(
                    "const int32_t known = "
                    "tables.GetValue(KNOWN + request * KNOWN_COLUMNS + DEPTH);"
                )
                with out.block("if (known >= 0)"):
                    out.line("token = known;")
        out.line("results.SetValue(i, token);")
    out.line("CopyOut(shiftedGm[start], results, 1, count * 4, 0, 0);")
    out.line("resultQueue.FreeTensor(results);")
    out.line("rowQueue.FreeTensor(rowsLocal);")
