"""The Ascend C text of `dispatch_experts`."""

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernels.merge_lists_text import MERGE_LISTS
from ascendfx.codegen.ascendc.kernels.vector_kernel import through_queue

_ARRAYS = (
    "total",
    "tile",
    "before",
    "totalStarts",
    "tileStarts",
    "runStarts",
    "shift",
    "experts",
    "offsets",
)
"""Integers per expert of a tiled step; the first three are inclusive ends behind eight zeros."""

EXPERT_ARRAYS = len(_ARRAYS)
"""Number of those arrays."""

ORDER_SLOTS = (
    MERGE_LISTS
    + """
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
            const uint32_t records = slots - start < 4 * width ? slots - start : 4 * width;
            if (records <= width) {
                DataCopy(to[2 * start], from[2 * start], 2 * records);
            } else {
                MergeLists(to[2 * start], from[2 * start], 2 * width, width, records);
            }
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

// Orders the slots of `pairs` pairs by (expert, slot): `order` holds the slots in that order,
// `from`, as int32, the position of each slot.
__aicore__ inline void OrderSlots(LocalTensor<float>& to, LocalTensor<float>& from,
                                  const LocalTensor<float>& order,
                                  const LocalTensor<int32_t>& ids, uint32_t pairs, uint32_t slots) {
    // Keys, negated because the sorter goes downwards: pair p of expert e has e * KEY_STEP + p, the
    // marker of e has (e + 1) * KEY_STEP - 1, more than any of its pairs. The rest goes last.
    Duplicate(from, LAST, static_cast<int32_t>(slots));
    LocalTensor<float> pairKeys = from[FIRST_PAIR];
    CreateVecIndex(to, 0.0f, slots);
    Cast(pairKeys, ids, RoundMode::CAST_NONE, pairs);
    Muls(pairKeys, pairKeys, -KEY_STEP, static_cast<int32_t>(pairs));
    Sub(pairKeys, pairKeys, to, static_cast<int32_t>(pairs));
    Muls(from, to, -KEY_STEP, static_cast<int32_t>(EXPERTS));
    Adds(from, from, 1.0f - KEY_STEP, static_cast<int32_t>(EXPERTS));
    LocalTensor<int32_t> payload = from[SLOTS].ReinterpretCast<int32_t>();
    CreateVecIndex(payload, static_cast<int32_t>(0), slots);
    SortRecords(to, from, slots);
    LocalTensor<int32_t> taken = from.ReinterpretCast<int32_t>();
    TakePayload(taken, to, slots);
    Cast(order, taken, RoundMode::CAST_NONE, slots);
    // Sort the positions by slot.
    Muls(from, order, -1.0f, static_cast<int32_t>(slots));
    payload = from[SLOTS].ReinterpretCast<int32_t>();
    CreateVecIndex(payload, static_cast<int32_t>(0), slots);
    SortRecords(to, from, slots);
    taken = from.ReinterpretCast<int32_t>();
    TakePayload(taken, to, slots);
}

// Takes the rows of the pairs in `order`; `pairOrder` and `isPair` are scratch.
__aicore__ inline void TakeRows(const LocalTensor<int32_t>& rows, const LocalTensor<float>& order,
                                const LocalTensor<float>& pairOrder,
                                const LocalTensor<uint8_t>& isPair, uint32_t pairs,
                                uint32_t slots) {
    const float lastMarker = static_cast<float>(FIRST_PAIR) - 0.5f;
    CompareScalar(isPair, order, lastMarker, CMPMODE::GT, slots);
    GatherMaskParams once;
    once.src0BlockStride = 1;
    once.repeatTimes = 1;
    once.src0RepeatStride = 8;
    once.src1RepeatStride = 8;
    uint64_t kept = 0;
    GatherMask(pairOrder, order, isPair.ReinterpretCast<uint32_t>(), true, slots, once, kept);
    // (p + 1/2) / TOP_K is at least 1 / (2 TOP_K) away from an integer: rounding is harmless.
    Adds(pairOrder, pairOrder, 0.5f - static_cast<float>(FIRST_PAIR), static_cast<int32_t>(pairs));
    Muls(pairOrder, pairOrder, ROWS_PER_PAIR, static_cast<int32_t>(pairs));
    Cast(rows, pairOrder, RoundMode::CAST_FLOOR, pairs);
}
"""
)


def _write_order(out: CppWriter, first_pair: str) -> None:
    """Copy the ids of ``pairs`` pairs in and order their slots."""
    out.line("const uint32_t slots = (FIRST_PAIR + pairs + 63) / 64 * 64;")
    with through_queue(out, "idQueue", "idsLocal", "int32_t"):
        out.line(f"CopyIn(idsLocal, idsGm{first_pair}, 1, pairs * 4, 0, 0);")
    out.line("OrderSlots(to, from, order, idsLocal, pairs, slots);")
    out.line("LocalTensor<int32_t> position = from.ReinterpretCast<int32_t>();")


def write_whole(out: CppWriter) -> None:
    """Write the kernel of a step whose pairs all fit."""
    out.line("const uint32_t pairs = rows * TOP_K;")
    _write_order(out, "")
    with through_queue(out, "rowQueue", "rowsLocal", "int32_t"):
        out.line("TakeRows(rowsLocal, order, to, isPair, pairs, slots);")
    out.line("CopyOut(source_rowGm, rowsLocal, 1, pairs * 4, 0, 0);")
    out.line("rowQueue.FreeTensor(rowsLocal);")
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


def write_tiles(out: CppWriter) -> None:
    """Write the kernel of a step that is taken in tiles of rows."""
    _write_tables(out)
    out.line("// First pass: inclusive ends of the tiles add up to those of all pairs.")
    with out.block("for (uint32_t row = 0; row < rows; row += TILE_ROWS)"):
        _write_tile_pairs(out)
        out.line("Sub(tile[8], position, experts, expertCount);")
        out.line("Add(total[8], total[8], tile[8], expertCount);")
        out.line("idQueue.FreeTensor(idsLocal);")
    with through_queue(out, "endQueue", "endsLocal", "int32_t"):
        out.line("Adds(endsLocal, total[8], static_cast<int32_t>(0), expertCount);")
    out.line("CopyOut(group_endsGm, endsLocal, 1, EXPERTS * 4, 0, 0);")
    out.line("endQueue.FreeTensor(endsLocal);")
    out.line("Gather(totalStarts, total, startOffsets, 0, EXPERTS);")
    out.line("// Second pass: a tile's pairs of an expert follow those of the earlier tiles.")
    with out.block("for (uint32_t row = 0; row < rows; row += TILE_ROWS)"):
        _write_tile_pairs(out)
        out.lines(
            (
                "Sub(tile[8], position, experts, expertCount);",
                "Gather(tileStarts, tile, startOffsets, 0, EXPERTS);",
                "Gather(shift, before, startOffsets, 0, EXPERTS);",
                "Sub(shift, before[8], shift, expertCount);",
                "Add(runStarts, totalStarts, shift, expertCount);",
                "Sub(shift, runStarts, tileStarts, expertCount);",
            )
        )
        _write_tile_places(out)
        _write_tile_rows(out)
        out.line("Add(before[8], before[8], tile[8], expertCount);")


def _write_tables(out: CppWriter) -> None:
    """Write the arrays per expert; eight zeros before inclusive ends make starts of them."""
    out.line("constexpr uint32_t STRIDE = (EXPERTS + 15) / 8 * 8;")
    out.line("const int32_t expertCount = static_cast<int32_t>(EXPERTS);")
    out.line("LocalTensor<int32_t> arrays = arrayBuffer.Get<int32_t>();")
    for i, name in enumerate(_ARRAYS):
        out.line(f"LocalTensor<int32_t> {name} = arrays[{i} * STRIDE];")
    out.line("LocalTensor<uint32_t> startOffsets = offsets.ReinterpretCast<uint32_t>();")
    out.line("Duplicate(arrays, static_cast<int32_t>(0), static_cast<int32_t>(3 * STRIDE));")
    out.line("CreateVecIndex(experts, static_cast<int32_t>(0), EXPERTS);")
    out.line("Muls(offsets, experts, static_cast<int32_t>(4), expertCount);")
    out.line("Adds(offsets, offsets, static_cast<int32_t>(28), expertCount);")
    out.line("LocalTensor<int32_t> next = nextBuffer.Get<int32_t>();")
    out.line("CreateVecIndex(next, static_cast<int32_t>(0), TILE_ROWS * TOP_K);")
    out.line("Muls(next, next, static_cast<int32_t>(4), static_cast<int32_t>(TILE_ROWS * TOP_K));")
    out.line("LocalTensor<uint32_t> nextOffsets = next.ReinterpretCast<uint32_t>();")
    out.line("LocalTensor<int32_t> tileRows = rowBuffer.Get<int32_t>();")


def _write_tile_pairs(out: CppWriter) -> None:
    out.line("const uint32_t tileRowCount = row + TILE_ROWS < rows ? TILE_ROWS : rows - row;")
    out.line("const uint32_t pairs = tileRowCount * TOP_K;")
    _write_order(out, "[row * TOP_K]")


def _write_tile_places(out: CppWriter) -> None:
    with through_queue(out, "placeQueue", "placeLocal", "int32_t"):
        out.lines(
            (
                "// As many markers stand before a pair as there are experts before its own.",
                "Sub(placeLocal, position[FIRST_PAIR], idsLocal, static_cast<int32_t>(pairs));",
                "LocalTensor<int32_t> moved = to.ReinterpretCast<int32_t>();",
                "LocalTensor<int32_t> byExpert = to[SLOTS].ReinterpretCast<int32_t>();",
                "Muls(byExpert, idsLocal, static_cast<int32_t>(4), static_cast<int32_t>(pairs));",
                "Gather(moved, shift, byExpert.ReinterpretCast<uint32_t>(), 0, pairs);",
                "Add(placeLocal, placeLocal, moved, static_cast<int32_t>(pairs));",
            )
        )
    out.line("idQueue.FreeTensor(idsLocal);")
    out.line("CopyOut(placeGm[row * TOP_K], placeLocal, 1, pairs * 4, 0, 0);")
    out.line("placeQueue.FreeTensor(placeLocal);")


def _write_tile_rows(out: CppWriter) -> None:
    out.line("TakeRows(tileRows, order, to, isPair, pairs, slots);")
    out.line("Adds(tileRows, tileRows, static_cast<int32_t>(row), static_cast<int32_t>(pairs));")
    with out.block("for (uint32_t expert = 0; expert < EXPERTS; ++expert)"):
        out.line("const uint32_t start = static_cast<uint32_t>(tileStarts.GetValue(expert));")
        out.line("const uint32_t end = static_cast<uint32_t>(tile.GetValue(8 + expert));")
        with out.block("if (start == end)"):
            out.line("continue;")
        with through_queue(out, "rowQueue", "runLocal", "int32_t"):
            out.line("Gather(runLocal, tileRows, nextOffsets, start * 4, end - start);")
        out.line("const uint32_t target = static_cast<uint32_t>(runStarts.GetValue(expert));")
        out.line("CopyOut(source_rowGm[target], runLocal, 1, (end - start) * 4, 0, 0);")
        out.line("rowQueue.FreeTensor(runLocal);")
