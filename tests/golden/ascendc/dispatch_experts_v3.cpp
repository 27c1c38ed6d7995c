// dispatch: pairs p = row * 8 + j by expert ids[p], stable; row < sizes[0] <= 512, 256 experts.
// Slots: 0 .. 255 mark the end of an expert, 256 + p are pairs. Sort slots by (expert, slot),
// then sort positions by slot: that inverts the order. The place is the position less the markers
// before it.
// One core, 137,760 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t TOP_K = 8;
constexpr uint32_t EXPERTS = 256;
constexpr uint32_t FIRST_PAIR = 256;
constexpr uint32_t SLOTS = 4352;
constexpr float KEY_STEP = 4097.0f;
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
    idsGm.SetGlobalBuffer((__gm__ int32_t*)ids, 4096);
    GlobalTensor<int32_t> source_rowGm;
    source_rowGm.SetGlobalBuffer((__gm__ int32_t*)source_row, 4096);
    GlobalTensor<int32_t> placeGm;
    placeGm.SetGlobalBuffer((__gm__ int32_t*)place, 4096);
    GlobalTensor<int32_t> group_endsGm;
    group_endsGm.SetGlobalBuffer((__gm__ int32_t*)group_ends, 256);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(0));
    TPipe pipe;
    TBuf<TPosition::VECCALC> recordABuffer;
    pipe.InitBuffer(recordABuffer, 34816);
    TBuf<TPosition::VECCALC> recordBBuffer;
    pipe.InitBuffer(recordBBuffer, 34816);
    TQue<TPosition::VECIN, 1> idQueue;
    pipe.InitBuffer(idQueue, 1, 16384);
    TBuf<TPosition::VECCALC> orderBuffer;
    pipe.InitBuffer(orderBuffer, 17408);
    TBuf<TPosition::VECCALC> bitBuffer;
    pipe.InitBuffer(bitBuffer, 544);
    TQue<TPosition::VECOUT, 1> rowQueue;
    pipe.InitBuffer(rowQueue, 1, 16384);
    TQue<TPosition::VECOUT, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 16384);
    TQue<TPosition::VECOUT, 1> endQueue;
    pipe.InitBuffer(endQueue, 1, 1024);
    LocalTensor<float> to = recordABuffer.Get<float>();
    LocalTensor<float> from = recordBBuffer.Get<float>();
    LocalTensor<float> order = orderBuffer.Get<float>();
    LocalTensor<uint8_t> isPair = bitBuffer.Get<uint8_t>();
    const uint32_t pairs = rows * TOP_K;
    const uint32_t slots = (FIRST_PAIR + pairs + 63) / 64 * 64;
    LocalTensor<int32_t> idsLocal = idQueue.AllocTensor<int32_t>();
    CopyIn(idsLocal, idsGm, 1, pairs * 4, 0, 0);
    idQueue.EnQue(idsLocal);
    idsLocal = idQueue.DeQue<int32_t>();
    OrderSlots(to, from, order, idsLocal, pairs, slots);
    LocalTensor<int32_t> position = from.ReinterpretCast<int32_t>();
    LocalTensor<int32_t> rowsLocal = rowQueue.AllocTensor<int32_t>();
    TakeRows(rowsLocal, order, to, isPair, pairs, slots);
    rowQueue.EnQue(rowsLocal);
    rowsLocal = rowQueue.DeQue<int32_t>();
    CopyOut(source_rowGm, rowsLocal, 1, pairs * 4, 0, 0);
    rowQueue.FreeTensor(rowsLocal);
    LocalTensor<int32_t> placeLocal = placeQueue.AllocTensor<int32_t>();
    // As many markers stand before a pair as there are experts before its own.
    Sub(placeLocal, position[FIRST_PAIR], idsLocal, static_cast<int32_t>(pairs));
    placeQueue.EnQue(placeLocal);
    placeLocal = placeQueue.DeQue<int32_t>();
    idQueue.FreeTensor(idsLocal);
    CopyOut(placeGm, placeLocal, 1, pairs * 4, 0, 0);
    placeQueue.FreeTensor(placeLocal);
    LocalTensor<int32_t> endsLocal = endQueue.AllocTensor<int32_t>();
    LocalTensor<int32_t> experts = to.ReinterpretCast<int32_t>();
    CreateVecIndex(experts, static_cast<int32_t>(0), EXPERTS);
    Sub(endsLocal, position, experts, static_cast<int32_t>(EXPERTS));
    endQueue.EnQue(endsLocal);
    endsLocal = endQueue.DeQue<int32_t>();
    CopyOut(group_endsGm, endsLocal, 1, EXPERTS * 4, 0, 0);
    endQueue.FreeTensor(endsLocal);
}
