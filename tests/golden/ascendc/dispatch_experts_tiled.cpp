// dispatch: pairs p = row * 8 + j by expert ids[p], stable; row < sizes[0] <= 4096, 256 experts.
// Slots: 0 .. 255 mark the end of an expert, 256 + p are pairs. Sort slots by (expert, slot),
// then sort positions by slot: that inverts the order. The place is the position less the markers
// before it.
// Tiles of 256 rows: the first pass counts, the second places each tile behind the earlier ones.
// One core, 97,856 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t TOP_K = 8;
constexpr uint32_t EXPERTS = 256;
constexpr uint32_t TILE_ROWS = 256;
constexpr uint32_t FIRST_PAIR = 256;
constexpr uint32_t SLOTS = 2304;
constexpr float KEY_STEP = 2049.0f;
constexpr float ROWS_PER_PAIR = 0.125f;
constexpr float LAST = -__builtin_inff();

// Copies `count` pieces of `bytes`; behind each piece the source skips `sourceGap` bytes and the
// target `targetGap` blocks of 32 bytes. Every piece starts a block, filled up with zeros.
template <typename T>
__aicore__ inline void CopyIn(const LocalTensor<T>& target, const GlobalTensor<T>& source,
                              uint32_t count, uint32_t bytes,
                              uint32_t sourceGap, uint32_t targetGap) {
    DataCopyExtParams copy;
    copy.blockCount = static_cast<uint16_t>(count);
    copy.blockLen = bytes;
    copy.srcStride = sourceGap;
    copy.dstStride = targetGap;
    DataCopyPadExtParams<T> padding;
    padding.isPad = bytes % 32 != 0;
    padding.rightPadding = static_cast<uint8_t>((32 - bytes % 32) % 32 / sizeof(T));
    DataCopyPad(target, source, copy, padding);
}

// The way back: the source skips `sourceGap` blocks of 32 bytes, the target `targetGap` bytes.
template <typename T>
__aicore__ inline void CopyOut(const GlobalTensor<T>& target, const LocalTensor<T>& source,
                               uint32_t count, uint32_t bytes,
                               uint32_t sourceGap, uint32_t targetGap) {
    DataCopyExtParams copy;
    copy.blockCount = static_cast<uint16_t>(count);
    copy.blockLen = bytes;
    copy.srcStride = sourceGap;
    copy.dstStride = targetGap;
    DataCopyPad(target, source, copy);
}

// Merges two to four sorted lists of `length` records, the last one of what is left of `records`;
// `pitch` floats from list to list.
__aicore__ inline void MergeLists(const LocalTensor<float>& to, const LocalTensor<float>& from,
                                  uint32_t pitch, uint32_t length, uint32_t records) {
    const uint32_t lists = (records + length - 1) / length;
    MrgSort4Info merge;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t left = i < lists ? records - i * length : 0;
        merge.elementLengths[i] = static_cast<uint16_t>(left < length ? left : length);
    }
    merge.ifExhaustedSuspension = false;
    merge.validBit = static_cast<uint16_t>((1 << lists) - 1);
    merge.repeatTimes = 1;
    MrgSortSrcList<float> source;
    source.src1 = from;
    source.src2 = from[pitch];
    source.src3 = lists > 2 ? from[2 * pitch] : from;
    source.src4 = lists > 3 ? from[3 * pitch] : from;
    MrgSort(to, source, merge);
}

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

extern "C" __global__ __aicore__ void dispatch(GM_ADDR ids, GM_ADDR source_row, GM_ADDR place,
                                               GM_ADDR group_ends, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<int32_t> idsGm;
    idsGm.SetGlobalBuffer((__gm__ int32_t*)ids, 32768);
    GlobalTensor<int32_t> source_rowGm;
    source_rowGm.SetGlobalBuffer((__gm__ int32_t*)source_row, 32768);
    GlobalTensor<int32_t> placeGm;
    placeGm.SetGlobalBuffer((__gm__ int32_t*)place, 32768);
    GlobalTensor<int32_t> group_endsGm;
    group_endsGm.SetGlobalBuffer((__gm__ int32_t*)group_ends, 256);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(0));
    TPipe pipe;
    TBuf<TPosition::VECCALC> recordABuffer;
    pipe.InitBuffer(recordABuffer, 18432);
    TBuf<TPosition::VECCALC> recordBBuffer;
    pipe.InitBuffer(recordBBuffer, 18432);
    TQue<TPosition::VECIN, 1> idQueue;
    pipe.InitBuffer(idQueue, 1, 8192);
    TBuf<TPosition::VECCALC> orderBuffer;
    pipe.InitBuffer(orderBuffer, 9216);
    TBuf<TPosition::VECCALC> bitBuffer;
    pipe.InitBuffer(bitBuffer, 288);
    TQue<TPosition::VECOUT, 1> rowQueue;
    pipe.InitBuffer(rowQueue, 1, 8192);
    TQue<TPosition::VECOUT, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 8192);
    TQue<TPosition::VECOUT, 1> endQueue;
    pipe.InitBuffer(endQueue, 1, 1024);
    TBuf<TPosition::VECCALC> arrayBuffer;
    pipe.InitBuffer(arrayBuffer, 9504);
    TBuf<TPosition::VECCALC> nextBuffer;
    pipe.InitBuffer(nextBuffer, 8192);
    TBuf<TPosition::VECCALC> rowBuffer;
    pipe.InitBuffer(rowBuffer, 8192);
    LocalTensor<float> to = recordABuffer.Get<float>();
    LocalTensor<float> from = recordBBuffer.Get<float>();
    LocalTensor<float> order = orderBuffer.Get<float>();
    LocalTensor<uint8_t> isPair = bitBuffer.Get<uint8_t>();
    constexpr uint32_t STRIDE = (EXPERTS + 15) / 8 * 8;
    const int32_t expertCount = static_cast<int32_t>(EXPERTS);
    LocalTensor<int32_t> arrays = arrayBuffer.Get<int32_t>();
    LocalTensor<int32_t> total = arrays[0 * STRIDE];
    LocalTensor<int32_t> tile = arrays[1 * STRIDE];
    LocalTensor<int32_t> before = arrays[2 * STRIDE];
    LocalTensor<int32_t> totalStarts = arrays[3 * STRIDE];
    LocalTensor<int32_t> tileStarts = arrays[4 * STRIDE];
    LocalTensor<int32_t> runStarts = arrays[5 * STRIDE];
    LocalTensor<int32_t> shift = arrays[6 * STRIDE];
    LocalTensor<int32_t> experts = arrays[7 * STRIDE];
    LocalTensor<int32_t> offsets = arrays[8 * STRIDE];
    LocalTensor<uint32_t> startOffsets = offsets.ReinterpretCast<uint32_t>();
    Duplicate(arrays, static_cast<int32_t>(0), static_cast<int32_t>(3 * STRIDE));
    CreateVecIndex(experts, static_cast<int32_t>(0), EXPERTS);
    Muls(offsets, experts, static_cast<int32_t>(4), expertCount);
    Adds(offsets, offsets, static_cast<int32_t>(28), expertCount);
    LocalTensor<int32_t> next = nextBuffer.Get<int32_t>();
    CreateVecIndex(next, static_cast<int32_t>(0), TILE_ROWS * TOP_K);
    Muls(next, next, static_cast<int32_t>(4), static_cast<int32_t>(TILE_ROWS * TOP_K));
    LocalTensor<uint32_t> nextOffsets = next.ReinterpretCast<uint32_t>();
    LocalTensor<int32_t> tileRows = rowBuffer.Get<int32_t>();
    // First pass: inclusive ends of the tiles add up to those of all pairs.
    for (uint32_t row = 0; row < rows; row += TILE_ROWS) {
        const uint32_t tileRowCount = row + TILE_ROWS < rows ? TILE_ROWS : rows - row;
        const uint32_t pairs = tileRowCount * TOP_K;
        const uint32_t slots = (FIRST_PAIR + pairs + 63) / 64 * 64;
        LocalTensor<int32_t> idsLocal = idQueue.AllocTensor<int32_t>();
        CopyIn(idsLocal, idsGm[row * TOP_K], 1, pairs * 4, 0, 0);
        idQueue.EnQue(idsLocal);
        idsLocal = idQueue.DeQue<int32_t>();
        OrderSlots(to, from, order, idsLocal, pairs, slots);
        LocalTensor<int32_t> position = from.ReinterpretCast<int32_t>();
        Sub(tile[8], position, experts, expertCount);
        Add(total[8], total[8], tile[8], expertCount);
        idQueue.FreeTensor(idsLocal);
    }
    LocalTensor<int32_t> endsLocal = endQueue.AllocTensor<int32_t>();
    Adds(endsLocal, total[8], static_cast<int32_t>(0), expertCount);
    endQueue.EnQue(endsLocal);
    endsLocal = endQueue.DeQue<int32_t>();
    CopyOut(group_endsGm, endsLocal, 1, EXPERTS * 4, 0, 0);
    endQueue.FreeTensor(endsLocal);
    Gather(totalStarts, total, startOffsets, 0, EXPERTS);
    // Second pass: a tile's pairs of an expert follow those of the earlier tiles.
    for (uint32_t row = 0; row < rows; row += TILE_ROWS) {
        const uint32_t tileRowCount = row + TILE_ROWS < rows ? TILE_ROWS : rows - row;
        const uint32_t pairs = tileRowCount * TOP_K;
        const uint32_t slots = (FIRST_PAIR + pairs + 63) / 64 * 64;
        LocalTensor<int32_t> idsLocal = idQueue.AllocTensor<int32_t>();
        CopyIn(idsLocal, idsGm[row * TOP_K], 1, pairs * 4, 0, 0);
        idQueue.EnQue(idsLocal);
        idsLocal = idQueue.DeQue<int32_t>();
        OrderSlots(to, from, order, idsLocal, pairs, slots);
        LocalTensor<int32_t> position = from.ReinterpretCast<int32_t>();
        Sub(tile[8], position, experts, expertCount);
        Gather(tileStarts, tile, startOffsets, 0, EXPERTS);
        Gather(shift, before, startOffsets, 0, EXPERTS);
        Sub(shift, before[8], shift, expertCount);
        Add(runStarts, totalStarts, shift, expertCount);
        Sub(shift, runStarts, tileStarts, expertCount);
        LocalTensor<int32_t> placeLocal = placeQueue.AllocTensor<int32_t>();
        // As many markers stand before a pair as there are experts before its own.
        Sub(placeLocal, position[FIRST_PAIR], idsLocal, static_cast<int32_t>(pairs));
        LocalTensor<int32_t> moved = to.ReinterpretCast<int32_t>();
        LocalTensor<int32_t> byExpert = to[SLOTS].ReinterpretCast<int32_t>();
        Muls(byExpert, idsLocal, static_cast<int32_t>(4), static_cast<int32_t>(pairs));
        Gather(moved, shift, byExpert.ReinterpretCast<uint32_t>(), 0, pairs);
        Add(placeLocal, placeLocal, moved, static_cast<int32_t>(pairs));
        placeQueue.EnQue(placeLocal);
        placeLocal = placeQueue.DeQue<int32_t>();
        idQueue.FreeTensor(idsLocal);
        CopyOut(placeGm[row * TOP_K], placeLocal, 1, pairs * 4, 0, 0);
        placeQueue.FreeTensor(placeLocal);
        TakeRows(tileRows, order, to, isPair, pairs, slots);
        Adds(tileRows, tileRows, static_cast<int32_t>(row), static_cast<int32_t>(pairs));
        for (uint32_t expert = 0; expert < EXPERTS; ++expert) {
            const uint32_t start = static_cast<uint32_t>(tileStarts.GetValue(expert));
            const uint32_t end = static_cast<uint32_t>(tile.GetValue(8 + expert));
            if (start == end) {
                continue;
            }
            LocalTensor<int32_t> runLocal = rowQueue.AllocTensor<int32_t>();
            Gather(runLocal, tileRows, nextOffsets, start * 4, end - start);
            rowQueue.EnQue(runLocal);
            runLocal = rowQueue.DeQue<int32_t>();
            const uint32_t target = static_cast<uint32_t>(runStarts.GetValue(expert));
            CopyOut(source_rowGm[target], runLocal, 1, (end - start) * 4, 0, 0);
            rowQueue.FreeTensor(runLocal);
        }
        Add(before[8], before[8], tile[8], expertCount);
    }
}
