// route: top 8 of 256 experts by sigmoid + bias, row < sizes[0] <= 512;
// the best 4 of 8 groups by top2_sum, scores of the others become -inf;
// 256 sorter slots, 11 rows at a time, over 48 cores; 46,976 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t EXPERTS = 256;
constexpr uint32_t TOP_K = 8;
constexpr uint32_t STEP_ROWS = 11;
constexpr uint32_t ROW_PITCH = 256;
constexpr uint32_t OUT_PITCH = 8;
constexpr uint32_t GROUPS = 8;
constexpr uint32_t GROUP_SIZE = 32;
constexpr uint32_t GROUP_PITCH = 32;
constexpr uint32_t SLOTS = 256;
constexpr uint32_t KEPT = 8;
constexpr float LOWEST = -__builtin_inff();
constexpr uint32_t TOPK_GROUPS = 4;
constexpr float MASKED_VALUE = -__builtin_inff();
constexpr float SCALE = 2.5f;

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

extern "C" __global__ __aicore__ void route(GM_ADDR logits, GM_ADDR bias, GM_ADDR weights,
                                            GM_ADDR ids, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<float> logitsGm;
    logitsGm.SetGlobalBuffer((__gm__ float*)logits, 131072);
    GlobalTensor<float> biasGm;
    biasGm.SetGlobalBuffer((__gm__ float*)bias, 256);
    GlobalTensor<float> weightsGm;
    weightsGm.SetGlobalBuffer((__gm__ float*)weights, 4096);
    GlobalTensor<int32_t> idsGm;
    idsGm.SetGlobalBuffer((__gm__ int32_t*)ids, 4096);
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
    pipe.InitBuffer(selectingBuffer, 1280);
    TBuf<TPosition::VECCALC> recordOffsetBuffer;
    pipe.InitBuffer(recordOffsetBuffer, 256);
    TBuf<TPosition::VECCALC> weightOffsetBuffer;
    pipe.InitBuffer(weightOffsetBuffer, 256);
    TBuf<TPosition::VECCALC> statisticBuffer;
    pipe.InitBuffer(statisticBuffer, 256);
    TBuf<TPosition::VECCALC> workBuffer;
    pipe.InitBuffer(workBuffer, 256);
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
    TBuf<TPosition::VECCALC> onesBuffer;
    pipe.InitBuffer(onesBuffer, 11264);
    TQue<TPosition::VECIN, 1> biasQueue;
    pipe.InitBuffer(biasQueue, 1, 1024);
    TQue<TPosition::VECIN, 1> scoreQueue;
    pipe.InitBuffer(scoreQueue, 2, 11264);
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
    LocalTensor<float> masked = maskedBuffer.Get<float>();
    LocalTensor<float> allMasked = allMaskedBuffer.Get<float>();
    LocalTensor<float> groupRecord = groupRecordBuffer.Get<float>();
    LocalTensor<float> groupScore = groupScoreBuffer.Get<float>();
    LocalTensor<float> groupSecond = groupSecondBuffer.Get<float>();
    LocalTensor<int32_t> groupIndex = groupIndexBuffer.Get<int32_t>();
    LocalTensor<int32_t> groupOffset = groupOffsetBuffer.Get<int32_t>();
    LocalTensor<float> ones = onesBuffer.Get<float>();
    for (uint32_t group = 0; group < GROUPS; ++group) {
        LocalTensor<int32_t> part = index[group * GROUP_PITCH];
        CreateVecIndex(part, static_cast<int32_t>(group * GROUP_SIZE), GROUP_PITCH);
    }
    CreateVecIndex(recordOffset, static_cast<int32_t>(0), 32);
    Muls(recordOffset, recordOffset, static_cast<int32_t>(8), 32);
    Duplicate(ones, 1.0f, static_cast<int32_t>(STEP_ROWS * ROW_PITCH));
    CreateVecIndex(groupIndex, static_cast<int32_t>(0), 32);
    Muls(groupOffset, groupIndex, static_cast<int32_t>(GROUP_PITCH * 8), 32);
    Duplicate(groupScore, LOWEST, 32);
    Duplicate(allMasked, MASKED_VALUE, static_cast<int32_t>(SLOTS));
    LocalTensor<float> biasLocal = biasQueue.AllocTensor<float>();
    CopyIn(biasLocal, biasGm, 1, EXPERTS * 4, 0, 0);
    biasQueue.EnQue(biasLocal);
    biasLocal = biasQueue.DeQue<float>();
    for (uint32_t row = first; row < last; row += STEP_ROWS) {
        const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;
        LocalTensor<float> scores = scoreQueue.AllocTensor<float>();
        CopyIn(scores, logitsGm[row * EXPERTS], count, EXPERTS * 4, 0, 0);
        scoreQueue.EnQue(scores);
        scores = scoreQueue.DeQue<float>();
        const int32_t elements = static_cast<int32_t>(count * ROW_PITCH);
        Muls(scores, scores, -1.0f, elements);
        Exp(scores, scores, elements);
        Adds(scores, scores, 1.0f, elements);
        Div(scores, ones, scores, elements);
        LocalTensor<float> weightsLocal = weightQueue.AllocTensor<float>();
        LocalTensor<int32_t> idsLocal = idQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            LocalTensor<float> score = scores[i * ROW_PITCH];
            Add(selecting, score, biasLocal, static_cast<int32_t>(EXPERTS));
            Sort32(recordA, selecting, index.ReinterpretCast<uint32_t>(), SLOTS / 32);
            Gather(groupScore, recordA, groupOffset.ReinterpretCast<uint32_t>(), 0, GROUPS);
            Gather(groupSecond, recordA, groupOffset.ReinterpretCast<uint32_t>(), 8, GROUPS);
            Add(groupScore, groupScore, groupSecond, static_cast<int32_t>(GROUPS));
            Sort32(groupRecord, groupScore, groupIndex.ReinterpretCast<uint32_t>(), 1);
            DataCopy(masked, allMasked, SLOTS);
            for (uint32_t j = 0; j < TOPK_GROUPS; ++j) {
                const uint32_t start =
                    groupRecord.ReinterpretCast<uint32_t>().GetValue(2 * j + 1) * GROUP_PITCH;
                DataCopy(masked[start], selecting[start], GROUP_PITCH);
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
            ReduceSum(statistic, weight, work, static_cast<int32_t>(TOP_K));
            const float total = statistic.GetValue(0) + 1e-20f;
            Muls(weight, weight, SCALE / total, static_cast<int32_t>(TOP_K));
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
    biasQueue.FreeTensor(biasLocal);
}
