"""``y[j] = cache[block_table[0, j / block], j % block]``: one request's paged rows, in order."""

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

_FAMILY = "gather-cache"
_STEP_BYTES = 2 * FAST_COPY_BYTES
"""Local bytes of one step."""


@dataclass(frozen=True, slots=True)
class GatherCachePlan:
    """How the rows are moved.

    Attributes:
        context: Rows to move, read from the device.
        columns: Row length in elements.
        cache_blocks: Blocks of the cache.
        max_blocks: Entries of the request's block table.
        block_tokens: Rows of a block.
        dtype: Element format.
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


def plan_gather_cache(
    *,
    context: DeviceSize,
    columns: int,
    cache_blocks: int,
    max_blocks: int,
    dtype: DType,
    target: Target,
    block_tokens: int = BLOCK_TOKENS,
) -> GatherCachePlan:
    """Choose rows per step: as many as a step holds, in whole parts of a block.

    Raises:
        GraphError: A size is not positive, the format is neither f32 nor bf16, the table is too
            short for the context, or a row does not fit.
    """
    check_dtype(_FAMILY, dtype)
    check_positive(
        _FAMILY,
        columns=columns,
        cache_blocks=cache_blocks,
        block_tokens=block_tokens,
        context=context.capacity,
    )
    if max_blocks * block_tokens < context.capacity:
        raise GraphError(
            code="block-table-too-short",
            reason=f"{_FAMILY}: {max_blocks} blocks of {block_tokens} tokens hold "
            f"{max_blocks * block_tokens} tokens, the context may have {context.capacity}",
            hint="give the table an entry for every block of the context",
        )
    step_rows = block_tokens
    while step_rows % 2 == 0 and step_rows * columns * dtype.bytes > _STEP_BYTES:
        step_rows //= 2
    size = round_up(step_rows * columns * dtype.bytes, target.copy_granule)
    buffers = (LocalBuffer("rowQueue", BufferKind.THROUGH, size, copies=2),)
    check_local_buffers(_FAMILY, buffers, target, hint="the row is too long for this kernel")
    return GatherCachePlan(
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


def emit_gather_cache(plan: GatherCachePlan, name: str) -> Kernel:
    """Return the kernel; arguments ``cache, block_table, y, sizes``."""
    cached = plan.cache_blocks * plan.block_tokens * plan.columns
    arguments = (
        KernelArgument("cache", plan.dtype, Direction.IN, cached),
        KernelArgument("block_table", DType.I32, Direction.IN, plan.max_blocks),
        KernelArgument("y", plan.dtype, Direction.OUT, plan.context.capacity * plan.columns),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan))
    with kernel_function(out, name, arguments):
        write_size(out, "context", plan.context)
        out.line("const uint32_t steps = (context + STEP_ROWS - 1) / STEP_ROWS;")
        write_split(out, "steps")
        write_buffers(out, plan.buffers)
        with out.block("for (uint32_t step = first; step < last; ++step)"):
            _write_step(out, plan)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _comment(plan: GatherCachePlan, name: str) -> tuple[str, ...]:
    return (
        f"{name}: the first sizes[{plan.context.slot}] <= {plan.context.capacity} rows of "
        f"{plan.columns} {plan.dtype.value} of one request,",
        f"{plan.step_rows} at a time over {plan.blocks} cores; "
        f"{local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: GatherCachePlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "COLUMNS": plan.columns,
        "BLOCK_TOKENS": plan.block_tokens,
        "STEP_ROWS": plan.step_rows,
        "ELEMENT_BYTES": plan.dtype.bytes,
    }


def _write_step(out: CppWriter, plan: GatherCachePlan) -> None:
    out.line("const uint32_t row = step * STEP_ROWS;")
    out.line("const uint32_t count = context - row < STEP_ROWS ? context - row : STEP_ROWS;")
    out.line("const uint32_t bytes = count * COLUMNS * ELEMENT_BYTES;")
    out.line(
        "const uint64_t block = static_cast<uint32_t>(block_tableGm.GetValue(row / BLOCK_TOKENS));"
    )
    out.line("const uint64_t source = block * BLOCK_TOKENS + row % BLOCK_TOKENS;")
    with through_queue(out, "rowQueue", "rows", CPP_TYPE[plan.dtype]):
        out.line("CopyIn(rows, cacheGm[source * COLUMNS], 1, bytes, 0, 0);")
    out.line("CopyOut(yGm[static_cast<uint64_t>(row) * COLUMNS], rows, 1, bytes, 0, 0);")
    out.line("rowQueue.FreeTensor(rows);")
