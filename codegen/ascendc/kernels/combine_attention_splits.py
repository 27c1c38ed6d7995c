"""Merge the splits of decode attention: one vector kernel after `latent_decode_attention`.

For row ``t``, head ``h`` and splits ``s`` with sums ``o_s``, maxima ``m_s`` and totals ``l_s``::

    w_s = exp(m_s - max m)        out[t, h] = sum_s (w_s / sum_s w_s l_s) o_s

A split without keys has ``o = 0, l = 0`` and a negligible ``m``. A row without keys gives 0.

Source: derived from the definition of softmax; the log-sum-exp merge of FlashDecoding.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import (
    BLOCK_BYTES,
    BLOCK_FLOATS,
    FAST_COPY_BYTES,
    REPEAT_FLOATS,
    round_up,
)
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import LatentDecodePlan
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    CPP_TYPE,
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    blocks_for,
    check_local_buffers,
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

_FAMILY = "combine-attention-splits"


@dataclass(frozen=True, slots=True)
class CombineSplitsPlan:
    """How the merge is cut.

    Attributes:
        rows: Query rows of the step.
        heads: Heads of a row.
        width: Columns of a head.
        splits: Splits to merge.
        statistics_pitch: Elements from one row of the statistics to the next.
        dtype: Format of the result.
        out: Where the result lies, a row per token and a matrix per head; None: dense.
        group: Heads handled at a time, a multiple of 8.
        blocks: Vector cores used.
        buffers: Local memory.
    """

    rows: DeviceSize
    heads: int
    width: int
    splits: int
    statistics_pitch: int
    dtype: DType
    out: MatrixView | None
    group: int
    blocks: int
    buffers: tuple[LocalBuffer, ...]

    @property
    def items(self) -> int:
        """Pieces of work at capacity: groups of heads of all rows."""
        return self.rows.capacity * -(-self.heads // self.group)


def plan_combine_attention_splits(
    decode: LatentDecodePlan, target: Target, *, out: MatrixView | None = None
) -> CombineSplitsPlan:
    """Choose heads per step: about 16 KiB of sums, and not more than there are heads.

    Args:
        decode: The kernel that makes the splits.
        target: The chip.
        out: Where ``[rows, heads, width]`` goes, for example one matrix per head; by default dense.

    Raises:
        GraphError: One group of heads does not fit.
    """
    shape = decode.shape
    row_bytes = shape.latent * 4
    wanted = max(FAST_COPY_BYTES // row_bytes // BLOCK_FLOATS * BLOCK_FLOATS, BLOCK_FLOATS)
    group = min(wanted, round_up(shape.heads, BLOCK_FLOATS), REPEAT_FLOATS)
    statistics = decode.splits * group * 4
    buffers = (
        LocalBuffer("maximumQueue", BufferKind.INPUT, statistics),
        LocalBuffer("totalQueue", BufferKind.INPUT, statistics),
        LocalBuffer("sumQueue", BufferKind.INPUT, group * row_bytes, copies=2),
        LocalBuffer(
            "outQueue", BufferKind.OUTPUT, group * shape.latent * shape.dtype.bytes, copies=2
        ),
        LocalBuffer("peakBuffer", BufferKind.SCRATCH, group * 4),
        LocalBuffer("normBuffer", BufferKind.SCRATCH, group * 4),
        LocalBuffer("factorBuffer", BufferKind.SCRATCH, group * BLOCK_BYTES),
    )
    if shape.dtype is not DType.F32:
        buffers = (*buffers, LocalBuffer("mergedBuffer", BufferKind.SCRATCH, group * row_bytes))
    check_local_buffers(_FAMILY, buffers, target)
    items = shape.rows.capacity * -(-shape.heads // group)
    return CombineSplitsPlan(
        rows=shape.rows,
        heads=shape.heads,
        width=shape.latent,
        splits=decode.splits,
        statistics_pitch=decode.statistics_pitch,
        dtype=shape.dtype,
        out=out,
        group=group,
        blocks=blocks_for(items, target),
        buffers=buffers,
    )


def emit_combine_attention_splits(plan: CombineSplitsPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``partial, maximum, total, out, sizes``."""
    rows = plan.rows.capacity
    statistics = plan.splits * rows * plan.statistics_pitch
    result = rows * plan.heads * plan.width
    arguments = (
        KernelArgument("partial", DType.F32, Direction.IN, plan.splits * result),
        KernelArgument("maximum", DType.F32, Direction.IN, statistics),
        KernelArgument("total", DType.F32, Direction.IN, statistics),
        KernelArgument("out", plan.dtype, Direction.OUT, _out_elements(plan)),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan), _HELPERS)
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        out.line("const uint32_t items = rows * GROUPS;")
        write_split(out, "items")
        write_buffers(out, plan.buffers)
        out.line("LocalTensor<float> peak = peakBuffer.Get<float>();")
        out.line("LocalTensor<float> norm = normBuffer.Get<float>();")
        out.line("LocalTensor<float> factor = factorBuffer.Get<float>();")
        if plan.dtype is not DType.F32:
            out.line("LocalTensor<float> merged = mergedBuffer.Get<float>();")
        with out.block("for (uint32_t item = first; item < last; ++item)"):
            _write_item(out, plan)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _out_elements(plan: CombineSplitsPlan) -> int:
    rows = plan.rows.capacity
    if plan.out is None:
        return rows * plan.heads * plan.width
    return plan.out.size(rows=rows, columns=plan.width, batch=plan.heads)


def _comment(plan: CombineSplitsPlan, name: str) -> tuple[str, ...]:
    return (
        f"{name}: {plan.splits} splits of [{plan.rows.capacity} rows, {plan.heads} heads, "
        f"{plan.width}] f32 to {plan.dtype.value},",
        f"{plan.group} heads at a time over {plan.blocks} cores; "
        f"{local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: CombineSplitsPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "ROWS": plan.rows.capacity,
        "HEADS": plan.heads,
        "WIDTH": plan.width,
        "SPLITS": plan.splits,
        "STATISTICS_PITCH": plan.statistics_pitch,
        "GROUP": plan.group,
        "GROUPS": -(-plan.heads // plan.group),
    }


_HELPERS = f"""\
// rows[i, :] *= factor of row i; `factor` holds one 32-byte block per row.
__aicore__ inline void ScaleRows(const LocalTensor<float>& rows, const LocalTensor<float>& factor,
                                 uint8_t count) {{
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = 1;
    repeat.src1BlkStride = 0;
    repeat.dstRepStride = WIDTH / 8;
    repeat.src0RepStride = WIDTH / 8;
    repeat.src1RepStride = 1;
    for (uint32_t column = 0; column < WIDTH; column += {REPEAT_FLOATS}) {{
        const uint64_t left = WIDTH - column;
        const uint64_t columns = left < {REPEAT_FLOATS} ? left : {REPEAT_FLOATS};
        Mul(rows[column], rows[column], factor, columns, count, repeat);
    }}
}}
"""

_MERGE_STATISTICS = """\
const int32_t count = static_cast<int32_t>(lanes);
// maxima become weights, each already divided by the common total.
Adds(peak, maxima, 0.0f, count);
for (uint32_t split = 1; split < SPLITS; ++split) {
    Max(peak, peak, maxima[split * GROUP], count);
}
Duplicate(norm, 0.0f, count);
for (uint32_t split = 0; split < SPLITS; ++split) {
    Sub(maxima[split * GROUP], maxima[split * GROUP], peak, count);
    Exp(maxima[split * GROUP], maxima[split * GROUP], count);
    Mul(totals[split * GROUP], totals[split * GROUP], maxima[split * GROUP], count);
    Add(norm, norm, totals[split * GROUP], count);
}
Maxs(norm, norm, 1.0e-30f, count);
for (uint32_t split = 0; split < SPLITS; ++split) {
    Div(maxima[split * GROUP], maxima[split * GROUP], norm, count);
}
"""


def _write_item(out: CppWriter, plan: CombineSplitsPlan) -> None:
    out.line("const uint32_t row = item / GROUPS;")
    out.line("const uint32_t head = item % GROUPS * GROUP;")
    out.line("const uint32_t heads = HEADS - head < GROUP ? HEADS - head : GROUP;")
    out.line("const uint32_t lanes = (heads + 7) / 8 * 8;")
    out.line("const uint64_t statistic = static_cast<uint64_t>(row) * STATISTICS_PITCH + head;")
    for queue, name, source in (
        ("maximumQueue", "maxima", "maximumGm"),
        ("totalQueue", "totals", "totalGm"),
    ):
        with through_queue(out, queue, name, "float"):
            out.line(f"CopyIn({name}, {source}[statistic], SPLITS, lanes * 4,")
            out.line("       (ROWS * STATISTICS_PITCH - lanes) * 4, (GROUP - lanes) / 8);")
    out.lines(_MERGE_STATISTICS.splitlines())
    if plan.dtype is DType.F32:
        out.line("LocalTensor<float> merged = outQueue.AllocTensor<float>();")
    out.line("Duplicate(merged, 0.0f, static_cast<int32_t>(heads * WIDTH));")
    with out.block("for (uint32_t split = 0; split < SPLITS; ++split)"):
        _write_split_sum(out)
    out.line("maximumQueue.FreeTensor(maxima);")
    out.line("totalQueue.FreeTensor(totals);")
    _write_result(out, plan)


def _write_split_sum(out: CppWriter) -> None:
    out.line("const uint64_t sum = (static_cast<uint64_t>(split) * ROWS + row) * HEADS + head;")
    with through_queue(out, "sumQueue", "sums", "float"):
        out.line("CopyIn(sums, partialGm[sum * WIDTH], 1, heads * WIDTH * 4, 0, 0);")
    out.line("BrcbRepeatParams spread;")
    out.line("spread.dstBlkStride = 1;")
    out.line("spread.dstRepStride = 8;")
    out.line("Brcb(factor, maxima[split * GROUP], static_cast<uint8_t>(lanes / 8), spread);")
    out.line("ScaleRows(sums, factor, static_cast<uint8_t>(heads));")
    out.line("Add(merged, merged, sums, static_cast<int32_t>(heads * WIDTH));")
    out.line("sumQueue.FreeTensor(sums);")


def _write_result(out: CppWriter, plan: CombineSplitsPlan) -> None:
    scalar = CPP_TYPE[plan.dtype]
    source = "merged"
    if plan.dtype is not DType.F32:
        out.line(f"LocalTensor<{scalar}> rounded = outQueue.AllocTensor<{scalar}>();")
        out.line("Cast(rounded, merged, RoundMode::CAST_RINT, heads * WIDTH);")
        source = "rounded"
    out.line(f"outQueue.EnQue({source});")
    out.line(f"{source} = outQueue.DeQue<{scalar}>();")
    if plan.out is None:
        out.line(
            f"CopyOut(outGm[(static_cast<uint64_t>(row) * HEADS + head) * WIDTH], {source}, 1, "
            f"heads * WIDTH * {plan.dtype.bytes}, 0, 0);"
        )
    else:
        offset = f"{plan.out.offset} + " if plan.out.offset else ""
        out.line(
            f"const uint64_t target = {offset}static_cast<uint64_t>(row) * {plan.out.row_stride} "
            f"+ static_cast<uint64_t>(head) * {plan.out.batch_stride};"
        )
        out.line(
            f"CopyOut(outGm[target], {source}, heads, WIDTH * {plan.dtype.bytes}, 0, "
            f"{(plan.out.batch_stride - plan.width) * plan.dtype.bytes});"
        )
    out.line(f"outQueue.FreeTensor({source});")
