// sample_greedy: tokens[i] = argmax logits[i, :], lowest index first, i < sizes[1] <= 64,
// rows of 129280 bf16 in tiles of 16384, a row per core at a time over 48 cores;
// 133,280 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t COLUMNS = 129280;
constexpr uint32_t TILE = 16384;
constexpr uint32_t ELEMENT_BYTES = 2;

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

extern "C" __global__ __aicore__ void sample_greedy(GM_ADDR logits, GM_ADDR tokens, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> logitsGm;
    logitsGm.SetGlobalBuffer((__gm__ bfloat16_t*)logits, 8273920);
    GlobalTensor<int32_t> tokensGm;
    tokensGm.SetGlobalBuffer((__gm__ int32_t*)tokens, 64);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(1));
    const uint32_t share = (rows + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    if (first >= rows) {
        return;
    }
    const uint32_t last = first + share < rows ? first + share : rows;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> logitQueue;
    pipe.InitBuffer(logitQueue, 2, 32768);
    TBuf<TPosition::VECCALC> valueBuffer;
    pipe.InitBuffer(valueBuffer, 65536);
    TBuf<TPosition::VECCALC> workBuffer;
    pipe.InitBuffer(workBuffer, 2144);
    TBuf<TPosition::VECCALC> bestBuffer;
    pipe.InitBuffer(bestBuffer, 32);
    TQue<TPosition::VECOUT, 1> tokenQueue;
    pipe.InitBuffer(tokenQueue, 1, 32);
    LocalTensor<float> work = workBuffer.Get<float>();
    LocalTensor<float> best = bestBuffer.Get<float>();
    LocalTensor<uint32_t> bestBits = best.ReinterpretCast<uint32_t>();
    LocalTensor<float> values = valueBuffer.Get<float>();
    LocalTensor<int32_t> tokensLocal = tokenQueue.AllocTensor<int32_t>();
    for (uint32_t row = first; row < last; ++row) {
        float maximum = 0.0f;
        uint32_t token = 0;
        for (uint32_t start = 0; start < COLUMNS; start += TILE) {
            const uint32_t count = start + TILE < COLUMNS ? TILE : COLUMNS - start;
            LocalTensor<bfloat16_t> logitsLocal = logitQueue.AllocTensor<bfloat16_t>();
            const uint64_t source = static_cast<uint64_t>(row) * COLUMNS + start;
            CopyIn(logitsLocal, logitsGm[source], 1, count * ELEMENT_BYTES, 0, 0);
            logitQueue.EnQue(logitsLocal);
            logitsLocal = logitQueue.DeQue<bfloat16_t>();
            Cast(values, logitsLocal, RoundMode::CAST_NONE, count);
            ReduceMax(best, values, work, static_cast<int32_t>(count), true);
            logitQueue.FreeTensor(logitsLocal);
            const float value = best.GetValue(0);
            if (start == 0 || value > maximum) {
                maximum = value;
                token = start + bestBits.GetValue(1);
            }
        }
        tokensLocal.SetValue(row - first, static_cast<int32_t>(token));
    }
    tokenQueue.EnQue(tokensLocal);
    tokensLocal = tokenQueue.DeQue<int32_t>();
    CopyOut(tokensGm[first], tokensLocal, 1, (last - first) * 4, 0, 0);
    tokenQueue.FreeTensor(tokensLocal);
}
