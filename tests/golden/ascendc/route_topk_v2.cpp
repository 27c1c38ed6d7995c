// route: top 6 of 160 experts by softmax, row < sizes[0] <= 512;
// the best 3 of 8 groups by max, scores of the others become 0.0;
// 256 sorter slots, 11 rows at a time, over 48 cores; 27,776 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t EXPERTS = 160;
constexpr uint32_t TOP_K = 6;
constexpr uint32_t STEP_ROWS = 11;
constexpr uint32_t ROW_PITCH = 160;
constexpr uint32_t OUT_PITCH = 8;
constexpr uint32_t GROUPS = 8;
constexpr uint32_t GROUP_SIZE = 20;
constexpr uint32_t GROUP_PITCH = 32;
constexpr uint32_t SLOTS = 256;
constexpr uint32_t KEPT = 8;
constexpr float LOWEST = -__builtin_inff();
constexpr uint32_t TOPK_GROUPS = 3;
constexpr float MASKED_VALUE = 0.0f;
constexpr float SCALE = 16.0f;

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

// Merges the lists of 32 records in `to` four by four until one is left, in `to` again.
__aicore__ inline void KeepTop(LocalTensor<float>& to, LocalTensor<float>& from) {
    uint32_t pitch = 64;
    for (uint32_t lists = SLOTS / 32; lists > 1; lists = (lists + 3) / 4) {
        LocalTensor<float> sorted = to;
        to = from;
        from = sorted;
        for (uint32_t i = 0; i < lists; i += 4) {
            if (lists - i == 1) {
                DataCopy(to[i / 4 * 8 * KEPT], from[i * pitch], 2 * KEPT);
            } else {
                const uint32_t count = lists - i < 4 ? lists - i : 4;
                MergeLists(to[i / 4 * 8 * KEPT], from[i * pitch], pitch, KEPT, count * KEPT);
            }
        }
        pitch = 8 * KEPT;
    }
}

extern "C" __global__ __aicore__ void route(GM_ADDR logits, GM_ADDR weights, GM_ADDR ids,
                                            GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<float> logitsGm;
    logitsGm.SetGlobalBuffer((__gm__ float*)logits, 81920);
    GlobalTensor<float> weightsGm;
    weightsGm.SetGlobalBuffer((__gm__ float*)weights, 3072);
    GlobalTensor<int32_t> idsGm;
    idsGm.SetGlobalBuffer((__gm__ int32_t*)ids, 3072);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(0));
    const uint32_t share = (rows + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    if (first >= rows) {
        return;
    }
    const uint32_t last = first + share < rows ? first + share : rows;
    TPipe pipe;
    TBuf<TPosition::VECCALC> recordABuffer;
    pipe.InitBuffer(recordABuffer, 2048);
    TBuf<TPosition::VECCALC> recordBBuffer;
    pipe.InitBuffer(recordBBuffer, 2048);
    TBuf<TPosition::VECCALC> indexBuffer;
    pipe.InitBuffer(indexBuffer, 1024);
    TBuf<TPosition::VECCALC> selectingBuffer;
    pipe.InitBuffer(selectingBuffer, 768);
    TBuf<TPosition::VECCALC> recordOffsetBuffer;
    pipe.InitBuffer(recordOffsetBuffer, 256);
    TBuf<TPosition::VECCALC> weightOffsetBuffer;
    pipe.InitBuffer(weightOffsetBuffer, 256);
    TBuf<TPosition::VECCALC> statisticBuffer;
    pipe.InitBuffer(statisticBuffer, 256);
    TBuf<TPosition::VECCALC> workBuffer;
    pipe.InitBuffer(workBuffer, 256);
    TBuf<TPosition::VECCALC> slotOffsetBuffer;
    pipe.InitBuffer(slotOffsetBuffer, 1024);
    TBuf<TPosition::VECCALC> spreadBuffer;
    pipe.InitBuffer(spreadBuffer, 1024);
    TBuf<TPosition::VECCALC> maskedBuffer;
    pipe.InitBuffer(maskedBuffer, 1024);
    TBuf<TPosition::VECCALC> allMaskedBuffer;
    pipe.InitBuffer(allMaskedBuffer, 1024);
    TBuf<TPosition::VECCALC> groupRecordBuffer;
    pipe.InitBuffer(groupRecordBuffer, 256);
    TBuf<TPosition::VECCALC> groupScoreBuffer;
    pipe.InitBuffer(groupScoreBuffer, 256);
    TBuf<TPosition::VECCALC> groupSecondBuffer;
    pipe.InitBuffer(groupSecondBuffer, 256);
    TBuf<TPosition::VECCALC> groupIndexBuffer;
    pipe.InitBuffer(groupIndexBuffer, 256);
    TBuf<TPosition::VECCALC> groupOffsetBuffer;
    pipe.InitBuffer(groupOffsetBuffer, 256);
    TQue<TPosition::VECIN, 1> scoreQueue;
    pipe.InitBuffer(scoreQueue, 2, 7040);
    TQue<TPosition::VECOUT, 1> weightQueue;
    pipe.InitBuffer(weightQueue, 2, 352);
    TQue<TPosition::VECOUT, 1> idQueue;
    pipe.InitBuffer(idQueue, 2, 352);
    LocalTensor<float> recordA = recordABuffer.Get<float>();
    LocalTensor<float> recordB = recordBBuffer.Get<float>();
    LocalTensor<int32_t> index = indexBuffer.Get<int32_t>();
    LocalTensor<float> selecting = selectingBuffer.Get<float>();
    LocalTensor<int32_t> recordOffset = recordOffsetBuffer.Get<int32_t>();
    LocalTensor<int32_t> weightOffset = weightOffsetBuffer.Get<int32_t>();
    LocalTensor<float> statistic = statisticBuffer.Get<float>();
    LocalTensor<float> work = workBuffer.Get<float>();
    LocalTensor<int32_t> slotOffset = slotOffsetBuffer.Get<int32_t>();
    LocalTensor<float> spread = spreadBuffer.Get<float>();
    LocalTensor<float> masked = maskedBuffer.Get<float>();
    LocalTensor<float> allMasked = allMaskedBuffer.Get<float>();
    LocalTensor<float> groupRecord = groupRecordBuffer.Get<float>();
    LocalTensor<float> groupScore = groupScoreBuffer.Get<float>();
    LocalTensor<float> groupSecond = groupSecondBuffer.Get<float>();
    LocalTensor<int32_t> groupIndex = groupIndexBuffer.Get<int32_t>();
    LocalTensor<int32_t> groupOffset = groupOffsetBuffer.Get<int32_t>();
    for (uint32_t group = 0; group < GROUPS; ++group) {
        LocalTensor<int32_t> part = index[group * GROUP_PITCH];
        CreateVecIndex(part, static_cast<int32_t>(group * GROUP_SIZE), GROUP_PITCH);
    }
    CreateVecIndex(recordOffset, static_cast<int32_t>(0), 32);
    Muls(recordOffset, recordOffset, static_cast<int32_t>(8), 32);
    CreateVecIndex(groupIndex, static_cast<int32_t>(0), 32);
    Muls(groupOffset, groupIndex, static_cast<int32_t>(GROUP_PITCH * 8), 32);
    Duplicate(groupScore, LOWEST, 32);
    Duplicate(allMasked, MASKED_VALUE, static_cast<int32_t>(SLOTS));
    // Slots beyond a group's experts read the lowest value behind the row.
    Duplicate(selecting[ROW_PITCH], LOWEST, 8);
    Muls(slotOffset, index, static_cast<int32_t>(4), static_cast<int32_t>(SLOTS));
    for (uint32_t group = 0; group < GROUPS; ++group) {
        for (uint32_t i = GROUP_SIZE; i < GROUP_PITCH; ++i) {
            slotOffset.SetValue(group * GROUP_PITCH + i, static_cast<int32_t>(ROW_PITCH * 4));
            allMasked.SetValue(group * GROUP_PITCH + i, LOWEST);
        }
    }
    for (uint32_t row = first; row < last; row += STEP_ROWS) {
        const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;
        LocalTensor<float> scores = scoreQueue.AllocTensor<float>();
        CopyIn(scores, logitsGm[row * EXPERTS], count, EXPERTS * 4, 0, 0);
        scoreQueue.EnQue(scores);
        scores = scoreQueue.DeQue<float>();
        LocalTensor<float> weightsLocal = weightQueue.AllocTensor<float>();
        LocalTensor<int32_t> idsLocal = idQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            LocalTensor<float> score = scores[i * ROW_PITCH];
            ReduceMax(statistic, score, work, static_cast<int32_t>(EXPERTS));
            const float maximum = statistic.GetValue(0);
            Adds(score, score, -maximum, static_cast<int32_t>(EXPERTS));
            Exp(score, score, static_cast<int32_t>(EXPERTS));
            ReduceSum(statistic, score, work, static_cast<int32_t>(EXPERTS));
            const float sum = statistic.GetValue(0);
            Muls(score, score, 1.0f / sum, static_cast<int32_t>(EXPERTS));
            DataCopy(selecting, score, ROW_PITCH);
            Gather(spread, selecting, slotOffset.ReinterpretCast<uint32_t>(), 0, SLOTS);
            Sort32(recordA, spread, index.ReinterpretCast<uint32_t>(), SLOTS / 32);
            Gather(groupScore, recordA, groupOffset.ReinterpretCast<uint32_t>(), 0, GROUPS);
            Sort32(groupRecord, groupScore, groupIndex.ReinterpretCast<uint32_t>(), 1);
            DataCopy(masked, allMasked, SLOTS);
            for (uint32_t j = 0; j < TOPK_GROUPS; ++j) {
                const uint32_t start =
                    groupRecord.ReinterpretCast<uint32_t>().GetValue(2 * j + 1) * GROUP_PITCH;
                DataCopy(masked[start], spread[start], GROUP_PITCH);
            }
            LocalTensor<float> records = recordA;
            LocalTensor<float> spare = recordB;
            Sort32(records, masked, index.ReinterpretCast<uint32_t>(), SLOTS / 32);
            KeepTop(records, spare);
            LocalTensor<int32_t> id = idsLocal[i * OUT_PITCH];
            LocalTensor<float> weight = weightsLocal[i * OUT_PITCH];
            Gather(id, records.ReinterpretCast<int32_t>(), recordOffset.ReinterpretCast<uint32_t>(),
                   4, TOP_K);
            Muls(weightOffset, id, static_cast<int32_t>(4), static_cast<int32_t>(TOP_K));
            Gather(weight, score, weightOffset.ReinterpretCast<uint32_t>(), 0, TOP_K);
            Muls(weight, weight, SCALE, static_cast<int32_t>(TOP_K));
        }
        scoreQueue.FreeTensor(scores);
        weightQueue.EnQue(weightsLocal);
        weightsLocal = weightQueue.DeQue<float>();
        CopyOut(weightsGm[row * TOP_K], weightsLocal, count, TOP_K * 4, 0, 0);
        weightQueue.FreeTensor(weightsLocal);
        idQueue.EnQue(idsLocal);
        idsLocal = idQueue.DeQue<int32_t>();
        CopyOut(idsGm[row * TOP_K], idsLocal, count, TOP_K * 4, 0, 0);
        idQueue.FreeTensor(idsLocal);
    }
}
