"""``y[i, :] = table[ids[i], :]``: embedding, row selection, permutation of rows."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import FAST_COPY_BYTES, round_up
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
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.tensor_type import DType

_STEP_BYTES = 4 * FAST_COPY_BYTES
"""Local bytes of one step."""


@dataclass(frozen=True, slots=True)
class GatherRowsPlan:
    """How the rows are moved.

    Attributes:
        rows: Number of gathered rows, read from the device.
        columns: Row length in elements.
        table_rows: Rows of the table; ids outside are the caller's error.
        dtype: Element format of table and result.
        pitch: Elements of one row piece in local memory.
        step_rows: Rows moved at a time.
        piece: Columns moved at a time; less than ``columns`` only if a row is too long.
        blocks: Vector cores used.
        buffers: Local memory.
    """

    rows: DeviceSize
    columns: int
    table_rows: int
    dtype: DType
    pitch: int
    step_rows: int
    piece: int
    blocks: int
    buffers: tuple[LocalBuffer, ...]


def plan_gather_rows(
    *,
    rows: DeviceSize,
    columns: int,
    table_rows: int,
    dtype: DType,
    target: Target,
) -> GatherRowsPlan:
    """Choose rows per step; a row longer than a step is moved in pieces.

    Raises:
        GraphError: A size is not positive, or the format is none of f32, bf16, i32, i8 and i4x2.
    """
    if dtype not in (DType.I32, DType.I8, DType.I4X2):
        check_dtype("gather-rows", dtype)
    check_positive("gather-rows", columns=columns, table_rows=table_rows, rows=rows.capacity)
    blocks = blocks_for(rows.capacity, target)
    piece = min(columns, _STEP_BYTES // dtype.bytes)
    pitch = row_pitch(piece, dtype, target)
    share = -(-rows.capacity // blocks)
    step_rows = max(1, min(_STEP_BYTES // (pitch * dtype.bytes), share)) if piece == columns else 1
    buffers = (
        LocalBuffer(
            "idQueue", BufferKind.INPUT, round_up(step_rows * 4, target.copy_granule), copies=2
        ),
        LocalBuffer("rowQueue", BufferKind.THROUGH, step_rows * pitch * dtype.bytes, copies=2),
    )
    check_local_buffers("gather-rows", buffers, target)
    return GatherRowsPlan(
        rows, columns, table_rows, dtype, pitch, step_rows, piece, blocks, buffers
    )


def emit_gather_rows(plan: GatherRowsPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``table, ids, y, sizes``."""
    arguments = (
        KernelArgument("table", plan.dtype, Direction.IN, plan.table_rows * plan.columns),
        KernelArgument("ids", DType.I32, Direction.IN, plan.rows.capacity),
        KernelArgument("y", plan.dtype, Direction.OUT, plan.rows.capacity * plan.columns),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan))
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        write_split(out, "rows")
        write_buffers(out, plan.buffers)
        with out.block("for (uint32_t row = first; row < last; row += STEP_ROWS)"):
            _write_step(out, plan)
    return Kernel(name, "gather-rows", KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _comment(plan: GatherRowsPlan, name: str) -> tuple[str, ...]:
    return (
        f"{name}: y[i, :] = table[ids[i], :], i < sizes[{plan.rows.slot}] <= {plan.rows.capacity},",
        f"rows of {plan.columns} {plan.dtype.value}, {plan.step_rows} at a time, over "
        f"{plan.blocks} cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: GatherRowsPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "COLUMNS": plan.columns,
        "STEP_ROWS": plan.step_rows,
        "PITCH": plan.pitch,
        "PIECE": plan.piece,
        "ELEMENT_BYTES": plan.dtype.bytes,
    }


def _write_step(out: CppWriter, plan: GatherRowsPlan) -> None:
    out.line("const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;")
    with through_queue(out, "idQueue", "idsLocal", "int32_t"):
        out.line("CopyIn(idsLocal, idsGm[row], 1, count * 4, 0, 0);")
    if plan.piece == plan.columns:
        out.line("constexpr uint32_t column = 0;")
        out.line("constexpr uint32_t bytes = COLUMNS * ELEMENT_BYTES;")
        _write_rows(out, plan)
    else:
        with out.block("for (uint32_t column = 0; column < COLUMNS; column += PIECE)"):
            out.line("const uint32_t left = COLUMNS - column;")
            out.line("const uint32_t bytes = (left < PIECE ? left : PIECE) * ELEMENT_BYTES;")
            _write_rows(out, plan)
    out.line("idQueue.FreeTensor(idsLocal);")


def _write_rows(out: CppWriter, plan: GatherRowsPlan) -> None:
    with (
        through_queue(out, "rowQueue", "rowsLocal", CPP_TYPE[plan.dtype]),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        out.line("const uint64_t id = static_cast<uint64_t>(idsLocal.GetValue(i));")
        out.line("CopyIn(rowsLocal[i * PITCH], tableGm[id * COLUMNS + column], 1, bytes, 0, 0);")
    out.line("const uint64_t target = static_cast<uint64_t>(row) * COLUMNS + column;")
    out.line("CopyOut(yGm[target], rowsLocal, count, bytes, 0, 0);")
    out.line("rowQueue.FreeTensor(rowsLocal);")
