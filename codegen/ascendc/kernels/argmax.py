"""``tokens[i] = argmax_j logits[i, j]``, the lowest index among equal maxima.

Logits must not contain NaN: how the reduction instruction orders NaN is not documented.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import REPEAT_FLOATS, round_up
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.reduction_work import reduce_max_work_elements
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
    through_queue,
    write_buffers,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.tensor_type import DType

_TILE = 16_384
"""Largest tile in elements: 64 KiB in f32, so that two tiles and the work area fit."""


@dataclass(frozen=True, slots=True)
class ArgmaxPlan:
    """How the search is cut: one core per row, tiles along the row.

    Attributes:
        rows: Number of rows, read from the device.
        columns: Row length in elements.
        dtype: Element format of the logits.
        tile: Columns compared at a time.
        blocks: Vector cores used.
        buffers: Local memory.
    """

    rows: DeviceSize
    columns: int
    dtype: DType
    tile: int
    blocks: int
    buffers: tuple[LocalBuffer, ...]


def plan_argmax(*, rows: DeviceSize, columns: int, dtype: DType, target: Target) -> ArgmaxPlan:
    """Choose the tile.

    Raises:
        GraphError: A size is not positive, or the tokens of one core do not fit.
    """
    check_dtype("argmax", dtype)
    check_positive("argmax", columns=columns, rows=rows.capacity)
    blocks = blocks_for(rows.capacity, target)
    tile = min(round_up(columns, REPEAT_FLOATS), _TILE)
    share = -(-rows.capacity // blocks)
    buffers = [
        LocalBuffer("logitQueue", BufferKind.INPUT, tile * dtype.bytes, copies=2),
        LocalBuffer(
            "workBuffer",
            BufferKind.SCRATCH,
            round_up(reduce_max_work_elements(tile, with_index=True) * 4, target.copy_granule),
        ),
        LocalBuffer("bestBuffer", BufferKind.SCRATCH, target.copy_granule),
        LocalBuffer("tokenQueue", BufferKind.OUTPUT, round_up(share * 4, target.copy_granule)),
    ]
    if dtype is not DType.F32:
        buffers.insert(1, LocalBuffer("valueBuffer", BufferKind.SCRATCH, tile * 4))
    check_local_buffers("argmax", buffers, target)
    return ArgmaxPlan(rows, columns, dtype, tile, blocks, tuple(buffers))


def emit_argmax(plan: ArgmaxPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``logits, tokens, sizes``."""
    arguments = (
        KernelArgument("logits", plan.dtype, Direction.IN, plan.rows.capacity * plan.columns),
        KernelArgument("tokens", DType.I32, Direction.OUT, plan.rows.capacity),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    comment = (
        f"{name}: tokens[i] = argmax logits[i, :], lowest index first, i < sizes"
        f"[{plan.rows.slot}] <= {plan.rows.capacity},",
        f"rows of {plan.columns} {plan.dtype.value} in tiles of {plan.tile}, a row per core at a "
        f"time over {plan.blocks} cores;",
        f"{local_bytes(plan.buffers):,} bytes of local memory.",
    )
    constants: dict[str, int | str] = {
        "BLOCKS": plan.blocks,
        "COLUMNS": plan.columns,
        "TILE": plan.tile,
        "ELEMENT_BYTES": plan.dtype.bytes,
    }
    write_head(out, comment, constants)
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        write_split(out, "rows")
        write_buffers(out, plan.buffers)
        out.line("LocalTensor<float> work = workBuffer.Get<float>();")
        out.line("LocalTensor<float> best = bestBuffer.Get<float>();")
        out.line("LocalTensor<uint32_t> bestBits = best.ReinterpretCast<uint32_t>();")
        if plan.dtype is not DType.F32:
            out.line("LocalTensor<float> values = valueBuffer.Get<float>();")
        with (
            through_queue(out, "tokenQueue", "tokensLocal", "int32_t"),
            out.block("for (uint32_t row = first; row < last; ++row)"),
        ):
            _write_row(out, plan)
        out.line("CopyOut(tokensGm[first], tokensLocal, 1, (last - first) * 4, 0, 0);")
        out.line("tokenQueue.FreeTensor(tokensLocal);")
    return Kernel(name, "argmax", KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _write_row(out: CppWriter, plan: ArgmaxPlan) -> None:
    out.line("float maximum = 0.0f;")
    out.line("uint32_t token = 0;")
    with out.block("for (uint32_t start = 0; start < COLUMNS; start += TILE)"):
        out.line("const uint32_t count = start + TILE < COLUMNS ? TILE : COLUMNS - start;")
        with through_queue(out, "logitQueue", "logitsLocal", CPP_TYPE[plan.dtype]):
            out.line("const uint64_t source = static_cast<uint64_t>(row) * COLUMNS + start;")
            out.line("CopyIn(logitsLocal, logitsGm[source], 1, count * ELEMENT_BYTES, 0, 0);")
        values = "logitsLocal"
        if plan.dtype is not DType.F32:
            out.line("Cast(values, logitsLocal, RoundMode::CAST_NONE, count);")
            values = "values"
        out.line(f"ReduceMax(best, {values}, work, static_cast<int32_t>(count), true);")
        out.line("logitQueue.FreeTensor(logitsLocal);")
        out.line("const float value = best.GetValue(0);")
        with out.block("if (start == 0 || value > maximum)"):
            out.line("maximum = value;")
            out.line("token = start + bestBits.GetValue(1);")
    out.line("tokensLocal.SetValue(row - first, static_cast<int32_t>(token));")
