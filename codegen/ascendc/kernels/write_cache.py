"""``cache[slots[i], :] = x[i, :]``: one step's rows into the paged key-value cache."""

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
    RowView,
    blocks_for,
    check_local_buffers,
    check_moved,
    check_positive,
    check_view,
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
"""Local bytes of one step, as in gather_rows."""


@dataclass(frozen=True, slots=True)
class WriteCachePlan:
    """How the rows are moved.

    Attributes:
        rows: Number of rows of ``x``, read from the device.
        columns: Row length in elements.
        cache_rows: Rows of the cache: blocks times tokens of a block.
        dtype: Element format of ``x`` and the cache.
        view: Where the rows of ``x`` stand.
        pitch: Elements of one row in local memory.
        step_rows: Rows moved at a time.
        blocks: Vector cores used.
        buffers: Local memory.
    """

    rows: DeviceSize
    columns: int
    cache_rows: int
    dtype: DType
    view: RowView
    pitch: int
    step_rows: int
    blocks: int
    buffers: tuple[LocalBuffer, ...]


def plan_write_cache(
    *,
    rows: DeviceSize,
    columns: int,
    cache_rows: int,
    dtype: DType,
    target: Target,
    view: RowView | None = None,
) -> WriteCachePlan:
    """Choose rows per step; ``view`` defaults to dense rows.

    Slots must differ from each other where they are not negative: two rows for one slot would
    be written in no particular order.

    Raises:
        GraphError: A size is not positive, a row does not fit, or the view is impossible.
    """
    check_moved("write-cache", dtype)
    check_positive("write-cache", columns=columns, cache_rows=cache_rows, rows=rows.capacity)
    view = view or RowView(columns)
    check_view("write-cache", view, columns)
    blocks = blocks_for(rows.capacity, target)
    pitch = row_pitch(columns, dtype, target)
    share = -(-rows.capacity // blocks)
    step_rows = max(1, min(_STEP_BYTES // (pitch * dtype.bytes), share))
    buffers = (
        LocalBuffer(
            "slotQueue", BufferKind.INPUT, round_up(step_rows * 4, target.copy_granule), copies=2
        ),
        LocalBuffer("rowQueue", BufferKind.THROUGH, step_rows * pitch * dtype.bytes, copies=2),
    )
    check_local_buffers("write-cache", buffers, target)
    return WriteCachePlan(rows, columns, cache_rows, dtype, view, pitch, step_rows, blocks, buffers)


def emit_write_cache(plan: WriteCachePlan, name: str) -> Kernel:
    """Return the kernel; arguments ``x, slots, cache, sizes``."""
    view = plan.view
    x_elements = view.offset + (plan.rows.capacity - 1) * view.stride + plan.columns
    arguments = (
        KernelArgument("x", plan.dtype, Direction.IN, x_elements),
        KernelArgument("slots", DType.I32, Direction.IN, plan.rows.capacity),
        KernelArgument("cache", plan.dtype, Direction.IN_OUT, plan.cache_rows * plan.columns),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    comment = (
        f"{name}: cache[slots[i], :] = x[i, :] where slots[i] >= 0, i < sizes[{plan.rows.slot}] <= "
        f"{plan.rows.capacity},",
        f"rows of {plan.columns} {plan.dtype.value} (x: stride {view.stride}, offset "
        f"{view.offset}), {plan.step_rows} at a time, over {plan.blocks} cores;",
        f"{local_bytes(plan.buffers):,} bytes of local memory.",
    )
    write_head(out, comment, _constants(plan))
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        write_split(out, "rows")
        write_buffers(out, plan.buffers)
        with out.block("for (uint32_t row = first; row < last; row += STEP_ROWS)"):
            _write_step(out, plan)
    return Kernel(name, "write-cache", KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _constants(plan: WriteCachePlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "COLUMNS": plan.columns,
        "STEP_ROWS": plan.step_rows,
        "PITCH": plan.pitch,
        "X_STRIDE": plan.view.stride,
        "X_OFFSET": plan.view.offset,
        "ROW_BYTES": plan.columns * plan.dtype.bytes,
        "X_GAP_BYTES": (plan.view.stride - plan.columns) * plan.dtype.bytes,
    }


def _write_step(out: CppWriter, plan: WriteCachePlan) -> None:
    out.line("const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;")
    with through_queue(out, "slotQueue", "slotsLocal", "int32_t"):
        out.line("CopyIn(slotsLocal, slotsGm[row], 1, count * 4, 0, 0);")
    with through_queue(out, "rowQueue", "rowsLocal", CPP_TYPE[plan.dtype]):
        out.line("const uint64_t source = static_cast<uint64_t>(row) * X_STRIDE + X_OFFSET;")
        out.line("CopyIn(rowsLocal, xGm[source], count, ROW_BYTES, X_GAP_BYTES, 0);")
    with out.block("for (uint32_t i = 0; i < count; ++i)"):
        out.line("const int32_t slot = slotsLocal.GetValue(i);")
        with out.block("if (slot >= 0)"):
            out.line("const uint64_t target = static_cast<uint64_t>(slot) * COLUMNS;")
            out.line("CopyOut(cacheGm[target], rowsLocal[i * PITCH], 1, ROW_BYTES, 0, 0);")
    out.line("rowQueue.FreeTensor(rowsLocal);")
    out.line("slotQueue.FreeTensor(slotsLocal);")
