"""Order the (row, expert) pairs of one step by expert: the index side of a mixture of experts.

Pair ``p = row * top_k + j`` goes to expert ``ids[row, j]``. The order is stable:

* ``source_row[q]`` is the row of the q-th pair in expert order,
* ``place[p]`` is where pair ``p`` went,
* ``group_ends[e]`` is the number of pairs with an expert up to and including ``e``.

One core sorts records (key, slot). The slots are one marker per expert, which sorts behind all
pairs of its expert, and the pairs. Every key is different, so nothing depends on how the sorter
treats ties. A second sort by slot inverts the permutation; the position of a slot, less the number
of markers before it, is the answer for pairs and markers alike.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    check_local_buffers,
    check_positive,
    float_literal,
    kernel_function,
    local_bytes,
    round_up,
    through_queue,
    write_buffers,
    write_head,
    write_size,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_SORT_WIDTH = 32
"""Records one Sort32 repeat orders."""

_MAX_REPEAT = 255
"""Largest repeat count of a vector instruction."""

_EXACT_INTEGERS = 1 << 24
"""Integers up to here are exact in f32."""

_MAX_LIST = 4_095
"""Longest list MrgSort takes (asc-devkit, MrgSort)."""


@dataclass(frozen=True, slots=True)
class DispatchExpertsPlan:
    """Sizes of the sort.

    Attributes:
        rows: Number of token rows, read from the device.
        top_k: Pairs per row.
        experts: Number of experts.
        first_pair: Slot of pair 0: the markers, rounded up to whole sorter repeats.
        key_step: Distance of the keys of neighbouring experts, more than the pairs of a step.
        slots: Most slots a step can have.
        buffers: Local memory.
    """

    rows: DeviceSize
    top_k: int
    experts: int
    first_pair: int
    key_step: int
    slots: int
    buffers: tuple[LocalBuffer, ...]


def plan_dispatch_experts(
    *, rows: DeviceSize, top_k: int, experts: int, target: Target
) -> DispatchExpertsPlan:
    """Lay the slots out.

    Raises:
        GraphError: A size is not positive, the pairs do not fit the local memory or the sorter,
            or the keys are not exact.
    """
    check_positive("dispatch-experts", top_k=top_k, experts=experts, rows=rows.capacity)
    pairs = rows.capacity * top_k
    first_pair = round_up(experts, _SORT_WIDTH)
    slots = round_up(first_pair + pairs, 2 * _SORT_WIDTH)
    key_step = pairs + 1
    hint = "split the step into chunks of fewer rows"
    if experts * key_step > _EXACT_INTEGERS:
        raise GraphError(
            code="keys-not-exact",
            reason=f"dispatch-experts: {experts} experts times {pairs} pairs need keys up to "
            f"{experts * key_step:,}, f32 counts exactly to {_EXACT_INTEGERS:,}",
            hint=hint,
        )
    granule = target.copy_granule
    buffers = (
        LocalBuffer("recordBufferA", BufferKind.SCRATCH, slots * 8),
        LocalBuffer("recordBufferB", BufferKind.SCRATCH, slots * 8),
        LocalBuffer("idQueue", BufferKind.INPUT, round_up(pairs * 4, granule)),
        LocalBuffer("orderBuffer", BufferKind.SCRATCH, slots * 4),
        LocalBuffer("bitBuffer", BufferKind.SCRATCH, round_up(slots // 8, granule)),
        LocalBuffer("rowQueue", BufferKind.OUTPUT, slots * 4),
        LocalBuffer("placeQueue", BufferKind.OUTPUT, round_up(pairs * 4, granule)),
        LocalBuffer("endQueue", BufferKind.OUTPUT, round_up(experts * 4, granule)),
    )
    check_local_buffers("dispatch-experts", buffers, target, hint=hint)
    longest = min(slots, _MAX_REPEAT * _SORT_WIDTH, 4 * _longest_list(slots))
    if longest < slots:
        raise GraphError(
            code="too-many-pairs",
            reason=f"dispatch-experts: {pairs} pairs and {experts} experts are {slots} records, "
            f"the sorter takes {longest}",
            hint=hint,
        )
    return DispatchExpertsPlan(rows, top_k, experts, first_pair, key_step, slots, buffers)


def _longest_list(slots: int) -> int:
    """Return the widest list of the merge levels that MrgSort takes for ``slots`` records."""
    width = _SORT_WIDTH
    while 4 * width < slots and 4 * width <= _MAX_LIST:
        width *= 4
    return width


def emit_dispatch_experts(plan: DispatchExpertsPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``ids, source_row, place, group_ends, sizes``."""
    pairs = plan.rows.capacity * plan.top_k
    arguments = (
        KernelArgument("ids", DType.I32, Direction.IN, pairs),
        KernelArgument("source_row", DType.I32, Direction.OUT, pairs),
        KernelArgument("place", DType.I32, Direction.OUT, pairs),
        KernelArgument("group_ends", DType.I32, Direction.OUT, plan.experts),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    comment = (
        f"{name}: pairs p = row * {plan.top_k} + j by expert ids[p], stable; row < sizes"
        f"[{plan.rows.slot}] <= {plan.rows.capacity}, {plan.experts} experts.",
        f"Slots: 0 .. {plan.experts - 1} mark the end of an expert, {plan.first_pair} + p are "
        "pairs. Sort slots by (expert, slot),",
        "then sort positions by slot: that inverts the order. Position less markers before it is "
        "the place.",
        f"One core, {local_bytes(plan.buffers):,} bytes of local memory.",
    )
    write_head(out, comment, _constants(plan), _SORT_RECORDS)
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        _write_sort_by_expert(out, plan)
        _write_outputs(out)
    return Kernel(name, "dispatch-experts", KernelKind.VECTOR, 1, arguments, out.text())


def _constants(plan: DispatchExpertsPlan) -> dict[str, int | str]:
    return {
        "TOP_K": plan.top_k,
        "EXPERTS": plan.experts,
        "FIRST_PAIR": plan.first_pair,
        "SLOTS": plan.slots,
        "KEY_STEP": float_literal(plan.key_step),
        "ROWS_PER_PAIR": float_literal(1.0 / plan.top_k),
        "LAST": float_literal(float("-inf")),
    }


_SORT_RECORDS = """\
// Sorts `slots` records (a multiple of 64) downwards by key, where the first half of `from` holds
// the keys and the second half the payload. `to` holds the result, `from` is overwritten.
__aicore__ inline void SortRecords(LocalTensor<float>& to, LocalTensor<float>& from,
                                   uint32_t slots) {
    Sort32(to, from, from[SLOTS].ReinterpretCast<uint32_t>(), static_cast<int32_t>(slots / 32));
    for (uint32_t width = 32; width < slots; width *= 4) {
        LocalTensor<float> sorted = to;
        to = from;
        from = sorted;
        for (uint32_t start = 0; start < slots; start += 4 * width) {
            uint32_t lengths[4];
            uint32_t lists = 0;
            for (uint32_t i = 0; i < 4; ++i) {
                const uint32_t begin = start + i * width;
                const uint32_t left = begin < slots ? slots - begin : 0;
                lengths[i] = left < width ? left : width;
                lists += left > 0 ? 1 : 0;
            }
            if (lists == 1) {
                DataCopy(to[2 * start], from[2 * start], 2 * lengths[0]);
                continue;
            }
            MrgSort4Info merge;
            for (uint32_t i = 0; i < 4; ++i) {
                merge.elementLengths[i] = static_cast<uint16_t>(lengths[i]);
            }
            merge.ifExhaustedSuspension = false;
            merge.validBit = static_cast<uint16_t>((1 << lists) - 1);
            merge.repeatTimes = 1;
            MrgSortSrcList<float> source;
            source.src1 = from[2 * start];
            source.src2 = from[2 * (start + width)];
            source.src3 = lists > 2 ? from[2 * (start + 2 * width)] : from[2 * start];
            source.src4 = lists > 3 ? from[2 * (start + 3 * width)] : from[2 * start];
            MrgSort(to[2 * start], source, merge);
        }
    }
}

// Takes the payload of `slots` sorted records.
__aicore__ inline void TakePayload(const LocalTensor<int32_t>& payload,
                                   const LocalTensor<float>& records, uint32_t slots) {
    GatherMaskParams every;
    every.src0BlockStride = 1;
    every.repeatTimes = static_cast<uint16_t>(slots / 32);
    every.src0RepeatStride = 8;
    every.src1RepeatStride = 0;
    uint64_t kept = 0;
    const uint8_t odd = 2;
    GatherMask(payload, records.ReinterpretCast<int32_t>(), odd, false, 0, every, kept);
}
"""


def _write_sort_by_expert(out: CppWriter, plan: DispatchExpertsPlan) -> None:
    out.line("const uint32_t pairs = rows * TOP_K;")
    out.line("const uint32_t slots = (FIRST_PAIR + pairs + 63) / 64 * 64;")
    write_buffers(out, plan.buffers)
    with through_queue(out, "idQueue", "idsLocal", "int32_t"):
        out.line("CopyIn(idsLocal, idsGm, 1, pairs * 4, 0, 0);")
    out.lines(
        (
            "LocalTensor<float> to = recordBufferA.Get<float>();",
            "LocalTensor<float> from = recordBufferB.Get<float>();",
            "",
            "// Keys, negated because the sorter goes downwards: pair p of expert e has "
            "e * KEY_STEP + p,",
            "// the marker of e has (e + 1) * KEY_STEP - 1, more than any of its pairs. The rest "
            "goes last.",
            "Duplicate(from, LAST, static_cast<int32_t>(slots));",
            "LocalTensor<float> pairKeys = from[FIRST_PAIR];",
            "CreateVecIndex(to, 0.0f, slots);",
            "Cast(pairKeys, idsLocal, RoundMode::CAST_NONE, pairs);",
            "Muls(pairKeys, pairKeys, -KEY_STEP, static_cast<int32_t>(pairs));",
            "Sub(pairKeys, pairKeys, to, static_cast<int32_t>(pairs));",
            "Muls(from, to, -KEY_STEP, static_cast<int32_t>(EXPERTS));",
            "Adds(from, from, 1.0f - KEY_STEP, static_cast<int32_t>(EXPERTS));",
            "LocalTensor<int32_t> payload = from[SLOTS].ReinterpretCast<int32_t>();",
            "CreateVecIndex(payload, static_cast<int32_t>(0), slots);",
            "SortRecords(to, from, slots);",
            "",
            "// The slots in expert order; pairs among them give the rows.",
            "LocalTensor<float> order = orderBuffer.Get<float>();",
            "LocalTensor<int32_t> orderSlots = from.ReinterpretCast<int32_t>();",
            "TakePayload(orderSlots, to, slots);",
            "Cast(order, orderSlots, RoundMode::CAST_NONE, slots);",
            "LocalTensor<uint8_t> isPair = bitBuffer.Get<uint8_t>();",
            "const float lastMarker = static_cast<float>(FIRST_PAIR) - 0.5f;",
            "CompareScalar(isPair, order, lastMarker, CMPMODE::GT, slots);",
        )
    )
    with through_queue(out, "rowQueue", "rowsLocal", "int32_t"):
        out.lines(
            (
                "GatherMaskParams once;",
                "once.src0BlockStride = 1;",
                "once.repeatTimes = 1;",
                "once.src0RepeatStride = 8;",
                "once.src1RepeatStride = 8;",
                "uint64_t kept = 0;",
                "LocalTensor<float> pairOrder = to;",
                "LocalTensor<uint32_t> pairBits = isPair.ReinterpretCast<uint32_t>();",
                "GatherMask(pairOrder, order, pairBits, true, slots, once, kept);",
                "// (p + 1/2) / TOP_K is at least 1 / (2 TOP_K) away from an integer: rounding is "
                "harmless.",
                "Adds(pairOrder, pairOrder, 0.5f - static_cast<float>(FIRST_PAIR), "
                "static_cast<int32_t>(pairs));",
                "Muls(pairOrder, pairOrder, ROWS_PER_PAIR, static_cast<int32_t>(pairs));",
                "Cast(rowsLocal, pairOrder, RoundMode::CAST_FLOOR, pairs);",
            )
        )
    out.line("CopyOut(source_rowGm, rowsLocal, 1, pairs * 4, 0, 0);")
    out.line("rowQueue.FreeTensor(rowsLocal);")


def _write_outputs(out: CppWriter) -> None:
    out.lines(
        (
            "",
            "// Sort the positions by slot.",
            "Muls(from, order, -1.0f, static_cast<int32_t>(slots));",
            "payload = from[SLOTS].ReinterpretCast<int32_t>();",
            "CreateVecIndex(payload, static_cast<int32_t>(0), slots);",
            "SortRecords(to, from, slots);",
            "LocalTensor<int32_t> position = from.ReinterpretCast<int32_t>();",
            "TakePayload(position, to, slots);",
        )
    )
    with through_queue(out, "placeQueue", "placeLocal", "int32_t"):
        out.line("// As many markers stand before a pair as there are experts before its own.")
        out.line("Sub(placeLocal, position[FIRST_PAIR], idsLocal, static_cast<int32_t>(pairs));")
    out.line("idQueue.FreeTensor(idsLocal);")
    out.line("CopyOut(placeGm, placeLocal, 1, pairs * 4, 0, 0);")
    out.line("placeQueue.FreeTensor(placeLocal);")
    with through_queue(out, "endQueue", "endsLocal", "int32_t"):
        out.line("LocalTensor<int32_t> experts = to.ReinterpretCast<int32_t>();")
        out.line("CreateVecIndex(experts, static_cast<int32_t>(0), EXPERTS);")
        out.line("Sub(endsLocal, position, experts, static_cast<int32_t>(EXPERTS));")
    out.line("CopyOut(group_endsGm, endsLocal, 1, EXPERTS * 4, 0, 0);")
    out.line("endQueue.FreeTensor(endsLocal);")
