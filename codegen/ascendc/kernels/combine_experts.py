"""``out[i, :] = Σ_j weights[i, j] · y[place[i·k + j], :] (+ shared[i, :]) (+ residual[i, :])``.

The sum runs in f32 in the order written, and is rounded once at the store.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import round_up
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    CPP_TYPE,
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
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
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.tensor_type import DType

_PIECE = 2_048
"""Columns of one work item: short rows spread over the cores, copies stay at least 4 KiB."""


@dataclass(frozen=True, slots=True)
class CombineExpertsPlan:
    """How the sum is cut: a work item is one piece of one row.

    Attributes:
        rows: Number of token rows, read from the device.
        columns: Row length in elements.
        top_k: Experts per row.
        dtype: Element format of every row; weights are f32.
        shared: Whether a row of the shared experts is added.
        residual: Whether the residual row is added.
        piece: Columns of one item.
        pieces: Items of one row.
        blocks: Vector cores used.
        buffers: Local memory.
    """

    rows: DeviceSize
    columns: int
    top_k: int
    dtype: DType
    shared: bool
    residual: bool
    piece: int
    pieces: int
    blocks: int
    buffers: tuple[LocalBuffer, ...]


def plan_combine_experts(
    *,
    rows: DeviceSize,
    columns: int,
    top_k: int,
    dtype: DType,
    target: Target,
    shared: bool = False,
    residual: bool = False,
) -> CombineExpertsPlan:
    """Choose the pieces; a core keeps the places and weights of all its rows.

    Raises:
        GraphError: A size is not positive, or the places and weights of one core do not fit.
    """
    check_dtype("combine-experts", dtype)
    check_positive("combine-experts", columns=columns, top_k=top_k, rows=rows.capacity)
    piece = min(columns, _PIECE)
    pieces = -(-columns // piece)
    blocks = max(1, min(rows.capacity * pieces, target.vector_cores))
    items = -(-rows.capacity * pieces // blocks)
    row_share = min(rows.capacity, (items + pieces - 2) // pieces + 1)
    pitch = row_pitch(piece, dtype, target)
    table_bytes = round_up(row_share * top_k * 4, target.copy_granule)
    f32_bytes = row_pitch(piece, DType.F32, target) * 4
    buffers = [
        LocalBuffer("placeQueue", BufferKind.INPUT, table_bytes),
        LocalBuffer("weightQueue", BufferKind.INPUT, table_bytes),
        LocalBuffer("termQueue", BufferKind.INPUT, pitch * dtype.bytes, copies=2),
        LocalBuffer("termBuffer", BufferKind.SCRATCH, f32_bytes),
        LocalBuffer("sumQueue", BufferKind.OUTPUT, pitch * dtype.bytes, copies=2),
    ]
    if dtype is not DType.F32:
        buffers.insert(4, LocalBuffer("sumBuffer", BufferKind.SCRATCH, f32_bytes))
    check_local_buffers(
        "combine-experts", buffers, target, hint="lower the row capacity of the step"
    )
    return CombineExpertsPlan(
        rows, columns, top_k, dtype, shared, residual, piece, pieces, blocks, tuple(buffers)
    )


def emit_combine_experts(plan: CombineExpertsPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``y, place, weights[, shared][, residual], sum, sizes``."""
    pairs = plan.rows.capacity * plan.top_k
    elements = plan.rows.capacity * plan.columns
    added = _added(plan)
    arguments = (
        KernelArgument("y", plan.dtype, Direction.IN, pairs * plan.columns),
        KernelArgument("place", DType.I32, Direction.IN, pairs),
        KernelArgument("weights", DType.F32, Direction.IN, pairs),
        *(KernelArgument(row, plan.dtype, Direction.IN, elements) for row in added),
        KernelArgument("sum", plan.dtype, Direction.OUT, elements),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    terms = "".join(f"+ {row}[i, :] " for row in added)
    comment = (
        f"{name}: sum[i, :] = sum_j weights[i, j] * y[place[i * {plan.top_k} + j], :]",
        f"{terms}for i < sizes[{plan.rows.slot}] <= {plan.rows.capacity};",
        f"rows of {plan.columns} {plan.dtype.value} in {plan.pieces} pieces, over {plan.blocks} "
        f"cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )
    write_head(out, comment, _constants(plan))
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        out.line("const uint32_t items = rows * PIECES;")
        write_split(out, "items")
        write_buffers(out, plan.buffers)
        _write_tables(out)
        if plan.dtype is not DType.F32:
            out.line("LocalTensor<float> total = sumBuffer.Get<float>();")
        out.line("LocalTensor<float> term = termBuffer.Get<float>();")
        with out.block("for (uint32_t item = first; item < last; ++item)"):
            _write_item(out, plan)
        out.line("placeQueue.FreeTensor(placeLocal);")
        out.line("weightQueue.FreeTensor(weightsLocal);")
    return Kernel(name, "combine-experts", KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _added(plan: CombineExpertsPlan) -> tuple[str, ...]:
    return (("shared",) if plan.shared else ()) + (("residual",) if plan.residual else ())


def _constants(plan: CombineExpertsPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "COLUMNS": plan.columns,
        "TOP_K": plan.top_k,
        "PIECE": plan.piece,
        "PIECES": plan.pieces,
        "ELEMENT_BYTES": plan.dtype.bytes,
    }


def _write_tables(out: CppWriter) -> None:
    out.line("const uint32_t firstRow = first / PIECES;")
    out.line("const uint32_t tableBytes = ((last - 1) / PIECES + 1 - firstRow) * TOP_K * 4;")
    with through_queue(out, "placeQueue", "placeLocal", "int32_t"):
        out.line("CopyIn(placeLocal, placeGm[firstRow * TOP_K], 1, tableBytes, 0, 0);")
    with through_queue(out, "weightQueue", "weightsLocal", "float"):
        out.line("CopyIn(weightsLocal, weightsGm[firstRow * TOP_K], 1, tableBytes, 0, 0);")


def _write_item(out: CppWriter, plan: CombineExpertsPlan) -> None:
    scalar = CPP_TYPE[plan.dtype]
    out.line("const uint32_t row = item / PIECES;")
    out.line("const uint32_t column = item % PIECES * PIECE;")
    out.line("const uint32_t count = column + PIECE < COLUMNS ? PIECE : COLUMNS - column;")
    out.line("const uint64_t start = static_cast<uint64_t>(row) * COLUMNS + column;")
    with through_queue(out, "sumQueue", "sumLocal", scalar):
        total = "sumLocal" if plan.dtype is DType.F32 else "total"
        out.line(f"Duplicate({total}, 0.0f, static_cast<int32_t>(count));")
        with out.block("for (uint32_t j = 0; j < TOP_K; ++j)"):
            out.line("const uint32_t pair = (row - firstRow) * TOP_K + j;")
            out.line(
                "const uint64_t source = "
                "static_cast<uint64_t>(placeLocal.GetValue(pair)) * COLUMNS + column;"
            )
            out.line("const float weight = weightsLocal.GetValue(pair);")
            with through_queue(out, "termQueue", "termLocal", scalar):
                out.line("CopyIn(termLocal, yGm[source], 1, count * ELEMENT_BYTES, 0, 0);")
            term = "termLocal"
            if plan.dtype is not DType.F32:
                out.line("Cast(term, termLocal, RoundMode::CAST_NONE, count);")
                term = "term"
            out.line(f"Muls(term, {term}, weight, static_cast<int32_t>(count));")
            out.line("termQueue.FreeTensor(termLocal);")
            out.line(f"Add({total}, {total}, term, static_cast<int32_t>(count));")
        for row in _added(plan):
            _write_added_row(out, plan, row, total)
        if plan.dtype is not DType.F32:
            out.line("Cast(sumLocal, total, RoundMode::CAST_RINT, count);")
    out.line("CopyOut(sumGm[start], sumLocal, 1, count * ELEMENT_BYTES, 0, 0);")
    out.line("sumQueue.FreeTensor(sumLocal);")


def _write_added_row(out: CppWriter, plan: CombineExpertsPlan, row: str, total: str) -> None:
    local = f"{row}Local"
    with through_queue(out, "termQueue", local, CPP_TYPE[plan.dtype]):
        out.line(f"CopyIn({local}, {row}Gm[start], 1, count * ELEMENT_BYTES, 0, 0);")
    term = local
    if plan.dtype is not DType.F32:
        out.line(f"Cast(term, {local}, RoundMode::CAST_NONE, count);")
        term = "term"
    out.line(f"Add({total}, {total}, {term}, static_cast<int32_t>(count));")
    out.line(f"termQueue.FreeTensor({local});")
