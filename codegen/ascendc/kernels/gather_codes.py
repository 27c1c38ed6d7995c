"""``y[j] = round(codes[slot] * scales[slot])``, ``slot`` of token ``j``: cached codes as numbers.

Of one request, its tokens in order; ``slot = block_table[0, j / block] * block + j % block``.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import (
    BLOCK_BYTES,
    BLOCK_FLOATS,
    MAX_REPEAT_STRIDE,
    REPEAT_FLOATS,
)
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
    hand_over,
    kernel_function,
    local_bytes,
    through_queue,
    write_buffers,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_FAMILY = "gather-codes"
_SPREAD_ROWS = 8
"""Scales that one repeat of Brcb spreads."""
_MOST_ROWS = 32


@dataclass(frozen=True, slots=True)
class GatherCodesPlan:
    """How the rows are moved.

    Attributes:
        context: Rows to move, read from the device.
        columns: Numbers of a row.
        cache_blocks: Blocks of the cache.
        max_blocks: Entries of the request's block table.
        block_tokens: Rows of a block.
        dtype: Format of the result.
        step_rows: Rows moved at a time; divides ``block_tokens``.
        blocks: Vector cores used.
        buffers: Local memory.
    """

    context: DeviceSize
    columns: int
    cache_blocks: int
    max_blocks: int
    block_tokens: int
    dtype: DType
    step_rows: int
    blocks: int
    buffers: tuple[LocalBuffer, ...]


def plan_gather_codes(
    *,
    context: DeviceSize,
    columns: int,
    cache_blocks: int,
    max_blocks: int,
    dtype: DType,
    target: Target,
    block_tokens: int = BLOCK_TOKENS,
) -> GatherCodesPlan:
    """Choose rows per step: the most that fit.

    Raises:
        GraphError: A size is not positive, the format is neither f32 nor bf16, a row of codes is no
            multiple of 32 bytes or too long, or the table is too short for the context.
    """
    check_dtype(_FAMILY, dtype)
    check_positive(
        _FAMILY,
        columns=columns,
        cache_blocks=cache_blocks,
        block_tokens=block_tokens,
        context=context.capacity,
    )
    if columns % BLOCK_BYTES or columns // BLOCK_FLOATS > MAX_REPEAT_STRIDE:
        raise GraphError(
            code="unaligned-head",
            reason=f"{_FAMILY}: a row of {columns} codes is no multiple of {BLOCK_BYTES} up to "
            f"{MAX_REPEAT_STRIDE * BLOCK_FLOATS}",
            hint="leave this cache in the format of the model",
        )
    if max_blocks * block_tokens < context.capacity:
        raise GraphError(
            code="block-table-too-short",
            reason=f"{_FAMILY}: {max_blocks} blocks of {block_tokens} tokens hold "
            f"{max_blocks * block_tokens} tokens, the context may have {context.capacity}",
            hint="give the table an entry for every block of the context",
        )
    step_rows = _MOST_ROWS
    while step_rows > _SPREAD_ROWS and local_bytes(_buffers(step_rows, columns, dtype)) > (
        target.unified_buffer
    ):
        step_rows //= 2
    buffers = _buffers(step_rows, columns, dtype)
    check_local_buffers(_FAMILY, buffers, target, hint="the row is too long for this kernel")
    return GatherCodesPlan(
        context=context,
        columns=columns,
        cache_blocks=cache_blocks,
        max_blocks=max_blocks,
        block_tokens=block_tokens,
        dtype=dtype,
        step_rows=step_rows,
        blocks=blocks_for(-(-context.capacity // step_rows), target),
        buffers=buffers,
    )


def _buffers(rows: int, columns: int, dtype: DType) -> tuple[LocalBuffer, ...]:
    numbers = rows * columns
    wide = LocalBuffer("numberBuffer", BufferKind.SCRATCH, 4 * numbers)
    return (
        LocalBuffer("codeQueue", BufferKind.INPUT, numbers, copies=2),
        LocalBuffer("scaleQueue", BufferKind.INPUT, rows * 4, copies=2),
        LocalBuffer("halfBuffer", BufferKind.SCRATCH, 2 * numbers),
        LocalBuffer("blockBuffer", BufferKind.SCRATCH, rows * BLOCK_BYTES),
        *(() if dtype is DType.F32 else (wide,)),
        LocalBuffer("outQueue", BufferKind.OUTPUT, numbers * dtype.bytes, copies=2),
    )


def emit_gather_codes(plan: GatherCodesPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``codes, scales, block_table, y, sizes``."""
    cached = plan.cache_blocks * plan.block_tokens
    arguments = (
        KernelArgument("codes", DType.I8, Direction.IN, cached * plan.columns),
        KernelArgument("scales", DType.F32, Direction.IN, cached),
        KernelArgument("block_table", DType.I32, Direction.IN, plan.max_blocks),
        KernelArgument("y", plan.dtype, Direction.OUT, plan.context.capacity * plan.columns),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan), _SCALE_ROWS)
    with kernel_function(out, name, arguments):
        write_size(out, "context", plan.context)
        out.line("const uint32_t steps = (context + STEP_ROWS - 1) / STEP_ROWS;")
        write_split(out, "steps")
        write_buffers(out, plan.buffers)
        out.line("LocalTensor<half> halves = halfBuffer.Get<half>();")
        out.line("LocalTensor<float> scaleBlocks = blockBuffer.Get<float>();")
        if plan.dtype is not DType.F32:
            out.line("LocalTensor<float> numbers = numberBuffer.Get<float>();")
        with out.block("for (uint32_t step = first; step < last; ++step)"):
            _write_step(out, plan)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _comment(plan: GatherCodesPlan, name: str) -> tuple[str, ...]:
    return (
        f"{name}: the first sizes[{plan.context.slot}] <= {plan.context.capacity} rows of "
        f"{plan.columns} codes of one request",
        f"times their scales, as {plan.dtype.value}; {plan.step_rows} at a time over {plan.blocks} "
        f"cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: GatherCodesPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "COLUMNS": plan.columns,
        "BLOCK_TOKENS": plan.block_tokens,
        "STEP_ROWS": plan.step_rows,
        "ELEMENT_BYTES": plan.dtype.bytes,
    }


_SCALE_ROWS = f"""\
// rows[i, :] *= factor of row i; `factors` holds one 32-byte block per row.
__aicore__ inline void ScaleRows(const LocalTensor<float>& rows,
                                 const LocalTensor<float>& factors) {{
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = 1;
    repeat.src1BlkStride = 0;
    repeat.dstRepStride = COLUMNS / 8;
    repeat.src0RepStride = COLUMNS / 8;
    repeat.src1RepStride = 1;
    for (uint32_t column = 0; column < COLUMNS; column += {REPEAT_FLOATS}) {{
        const uint64_t left = COLUMNS - column;
        const uint64_t columns = left < {REPEAT_FLOATS} ? left : {REPEAT_FLOATS};
        Mul(rows[column], rows[column], factors, columns, STEP_ROWS, repeat);
    }}
}}
"""


def _write_step(out: CppWriter, plan: GatherCodesPlan) -> None:
    scalar = CPP_TYPE[plan.dtype]
    out.line("const uint32_t row = step * STEP_ROWS;")
    out.line("const uint32_t count = context - row < STEP_ROWS ? context - row : STEP_ROWS;")
    out.line(
        "const uint64_t block = static_cast<uint32_t>(block_tableGm.GetValue(row / BLOCK_TOKENS));"
    )
    out.line("const uint64_t source = block * BLOCK_TOKENS + row % BLOCK_TOKENS;")
    out.line("// A step lies in one block: all its rows are there, and those in use are written.")
    with through_queue(out, "codeQueue", "codes", "int8_t"):
        out.line("DataCopy(codes, codesGm[source * COLUMNS], STEP_ROWS * COLUMNS);")
    with through_queue(out, "scaleQueue", "scales", "float"):
        out.line("DataCopy(scales, scalesGm[source], STEP_ROWS);")
    out.line(f"LocalTensor<{scalar}> y = outQueue.AllocTensor<{scalar}>();")
    if plan.dtype is DType.F32:
        out.line("const LocalTensor<float>& numbers = y;")
    out.line("Cast(halves, codes, RoundMode::CAST_NONE, STEP_ROWS * COLUMNS);")
    out.line("codeQueue.FreeTensor(codes);")
    out.line("Cast(numbers, halves, RoundMode::CAST_NONE, STEP_ROWS * COLUMNS);")
    out.line("BrcbRepeatParams spread;")
    out.line("spread.dstBlkStride = 1;")
    out.line("spread.dstRepStride = 8;")
    out.line(f"Brcb(scaleBlocks, scales, STEP_ROWS / {_SPREAD_ROWS}, spread);")
    out.line("scaleQueue.FreeTensor(scales);")
    out.line("ScaleRows(numbers, scaleBlocks);")
    if plan.dtype is not DType.F32:
        out.line("Cast(y, numbers, RoundMode::CAST_RINT, STEP_ROWS * COLUMNS);")
    hand_over(out, "outQueue", "y", scalar)
    out.line("const uint32_t bytes = count * COLUMNS * ELEMENT_BYTES;")
    out.line("CopyOut(yGm[static_cast<uint64_t>(row) * COLUMNS], y, 1, bytes, 0, 0);")
    out.line("outQueue.FreeTensor(y);")
