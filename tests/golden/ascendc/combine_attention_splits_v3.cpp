// combine_attention_splits_v3: 2 splits of [8 rows, 128 heads, 512] f32 to bf16,
// 8 heads at a time over 40 cores; 65,984 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 40;
constexpr uint32_t ROWS = 8;
constexpr uint32_t HEADS = 128;
constexpr uint32_t WIDTH = 512;
constexpr uint32_t SPLITS = 2;
constexpr uint32_t STATISTICS_PITCH = 128;
constexpr uint32_t GROUP = 8;
constexpr uint32_t GROUPS = 16;

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

// rows[i, :] *= factor of row i; `factor` holds one 32-byte block per row.
__aicore__ inline void ScaleRows(const LocalTensor<float>& rows, const LocalTensor<float>& factor,
                                 uint8_t count) {
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = 1;
    repeat.src1BlkStride = 0;
    repeat.dstRepStride = WIDTH / 8;
    repeat.src0RepStride = WIDTH / 8;
    repeat.src1RepStride = 1;
    for (uint32_t column = 0; column < WIDTH; column += 64) {
        const uint64_t left = WIDTH - column;
        const uint64_t columns = left < 64 ? left : 64;
        Mul(rows[column], rows[column], factor, columns, count, repeat);
    }
}

extern "C" __global__ __aicore__ void combine_attention_splits_v3(
        GM_ADDR partial, GM_ADDR maximum, GM_ADDR total, GM_ADDR out, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<float> partialGm;
    partialGm.SetGlobalBuffer((__gm__ float*)partial, 1048576);
    GlobalTensor<float> maximumGm;
    maximumGm.SetGlobalBuffer((__gm__ float*)maximum, 2048);
    GlobalTensor<float> totalGm;
    totalGm.SetGlobalBuffer((__gm__ float*)total, 2048);
    GlobalTensor<bfloat16_t> outGm;
    outGm.SetGlobalBuffer((__gm__ bfloat16_t*)out, 524288);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(0));
    const uint32_t items = rows * GROUPS;
    const uint32_t share = (items + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    if (first >= items) {
        return;
    }
    const uint32_t last = first + share < items ? first + share : items;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> maximumQueue;
    pipe.InitBuffer(maximumQueue, 1, 64);
    TQue<TPosition::VECIN, 1> totalQueue;
    pipe.InitBuffer(totalQueue, 1, 64);
    TQue<TPosition::VECIN, 1> sumQueue;
    pipe.InitBuffer(sumQueue, 2, 16384);
    TQue<TPosition::VECOUT, 1> outQueue;
    pipe.InitBuffer(outQueue, 2, 8192);
    TBuf<TPosition::VECCALC> peakBuffer;
    pipe.InitBuffer(peakBuffer, 32);
    TBuf<TPosition::VECCALC> normBuffer;
    pipe.InitBuffer(normBuffer, 32);
    TBuf<TPosition::VECCALC> factorBuffer;
    pipe.InitBuffer(factorBuffer, 256);
    TBuf<TPosition::VECCALC> mergedBuffer;
    pipe.InitBuffer(mergedBuffer, 16384);
    LocalTensor<float> peak = peakBuffer.Get<float>();
    LocalTensor<float> norm = normBuffer.Get<float>();
    LocalTensor<float> factor = factorBuffer.Get<float>();
    LocalTensor<float> merged = mergedBuffer.Get<float>();
    for (uint32_t item = first; item < last; ++item) {
        const uint32_t row = item / GROUPS;
        const uint32_t head = item % GROUPS * GROUP;
        const uint32_t heads = HEADS - head < GROUP ? HEADS - head : GROUP;
        const uint32_t lanes = (heads + 7) / 8 * 8;
        const uint64_t statistic = static_cast<uint64_t>(row) * STATISTICS_PITCH + head;
        LocalTensor<float> maxima = maximumQueue.AllocTensor<float>();
        CopyIn(maxima, maximumGm[statistic], SPLITS, lanes * 4,
               (ROWS * STATISTICS_PITCH - lanes) * 4, (GROUP - lanes) / 8);
        maximumQueue.EnQue(maxima);
        maxima = maximumQueue.DeQue<float>();
        LocalTensor<float> totals = totalQueue.AllocTensor<float>();
        CopyIn(totals, totalGm[statistic], SPLITS, lanes * 4,
               (ROWS * STATISTICS_PITCH - lanes) * 4, (GROUP - lanes) / 8);
        totalQueue.EnQue(totals);
        totals = totalQueue.DeQue<float>();
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
        Duplicate(merged, 0.0f, static_cast<int32_t>(heads * WIDTH));
        for (uint32_t split = 0; split < SPLITS; ++split) {
            const uint64_t sum = (static_cast<uint64_t>(split) * ROWS + row) * HEADS + head;
            LocalTensor<float> sums = sumQueue.AllocTensor<float>();
            CopyIn(sums, partialGm[sum * WIDTH], 1, heads * WIDTH * 4, 0, 0);
            sumQueue.EnQue(sums);
            sums = sumQueue.DeQue<float>();
            BrcbRepeatParams spread;
            spread.dstBlkStride = 1;
            spread.dstRepStride = 8;
            Brcb(factor, maxima[split * GROUP], static_cast<uint8_t>(lanes / 8), spread);
            ScaleRows(sums, factor, static_cast<uint8_t>(heads));
            Add(merged, merged, sums, static_cast<int32_t>(heads * WIDTH));
            sumQueue.FreeTensor(sums);
        }
        maximumQueue.FreeTensor(maxima);
        totalQueue.FreeTensor(totals);
        LocalTensor<bfloat16_t> rounded = outQueue.AllocTensor<bfloat16_t>();
        Cast(rounded, merged, RoundMode::CAST_RINT, heads * WIDTH);
        outQueue.EnQue(rounded);
        rounded = outQueue.DeQue<bfloat16_t>();
        CopyOut(outGm[(static_cast<uint64_t>(row) * HEADS + head) * WIDTH], rounded, 1,
                heads * WIDTH * 2, 0, 0);
        outQueue.FreeTensor(rounded);
    }
}
