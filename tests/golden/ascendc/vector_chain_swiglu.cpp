// swiglu: vector chain, row < sizes[0] <= 128.
//   x0 input1: bf16[128, 36864]
//   y0 %3: bf16[128, 18432]
// 9 pieces of 2048 columns per row, over 48 cores; 32,768 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t COLUMNS = 18432;
constexpr uint32_t PIECE = 2048;
constexpr uint32_t PIECES = 9;

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

extern "C" __global__ __aicore__ void swiglu(GM_ADDR x0, GM_ADDR y0, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> x0Gm;
    x0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)x0, 4718592);
    GlobalTensor<bfloat16_t> y0Gm;
    y0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)y0, 2359296);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(0));
    const uint32_t items = rows * PIECES;
    const uint32_t share = (items + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    if (first >= items) {
        return;
    }
    const uint32_t last = first + share < items ? first + share : items;
    TPipe pipe;
    TBuf<TPosition::VECCALC> arenaBuffer;
    pipe.InitBuffer(arenaBuffer, 16384);
    TQue<TPosition::VECIN, 1> inBfloatQueue;
    pipe.InitBuffer(inBfloatQueue, 2, 4096);
    TQue<TPosition::VECOUT, 1> outBfloatQueue;
    pipe.InitBuffer(outBfloatQueue, 2, 4096);
    LocalTensor<float> arena = arenaBuffer.Get<float>();
    LocalTensor<float> v0 = arena[0];
    LocalTensor<float> v1 = arena[2048];
    LocalTensor<float> v2 = arena[2048];
    LocalTensor<float> v3 = arena[2048];
    LocalTensor<float> v4 = arena[0];
    LocalTensor<float> v5 = arena[2048];
    LocalTensor<float> v6 = arena[0];
    for (uint32_t item = first; item < last; ++item) {
        const uint32_t row = item / PIECES;
        const uint32_t column = item % PIECES * PIECE;
        const uint32_t width = column + PIECE < COLUMNS ? PIECE : COLUMNS - column;
        const uint32_t padded = (width + 7) / 8 * 8;
        // %3 = swiglu
        LocalTensor<bfloat16_t> x0Local0 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x0Local0, x0Gm[static_cast<uint64_t>(row) * 36864 + column], 1, width * 2, 0, 0);
        inBfloatQueue.EnQue(x0Local0);
        x0Local0 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v0, x0Local0, RoundMode::CAST_NONE, padded);
        inBfloatQueue.FreeTensor(x0Local0);
        Muls(v1, v0, -1.0f, static_cast<int32_t>(padded));
        Exp(v2, v1, static_cast<int32_t>(padded));
        Adds(v3, v2, 1.0f, static_cast<int32_t>(padded));
        Div(v4, v0, v3, static_cast<int32_t>(padded));
        LocalTensor<bfloat16_t> x0Local5 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x0Local5, x0Gm[static_cast<uint64_t>(row) * 36864 + 18432 + column], 1, width * 2, 0,
               0);
        inBfloatQueue.EnQue(x0Local5);
        x0Local5 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v5, x0Local5, RoundMode::CAST_NONE, padded);
        inBfloatQueue.FreeTensor(x0Local5);
        Mul(v6, v4, v5, static_cast<int32_t>(padded));
        LocalTensor<bfloat16_t> y0Local7 = outBfloatQueue.AllocTensor<bfloat16_t>();
        Cast(y0Local7, v6, RoundMode::CAST_RINT, padded);
        outBfloatQueue.EnQue(y0Local7);
        y0Local7 = outBfloatQueue.DeQue<bfloat16_t>();
        CopyOut(y0Gm[static_cast<uint64_t>(row) * 18432 + column], y0Local7, 1, width * 2, 0, 0);
        outBfloatQueue.FreeTensor(y0Local7);
    }
}
