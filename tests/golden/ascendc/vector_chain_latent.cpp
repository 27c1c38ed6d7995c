// latent: vector chain, row < sizes[0] <= 128.
//   x0 input1: bf16[128, 576]
//   x1 input3: bf16[128, 32]
//   x2 input4: bf16[128, 32]
//   w0 param2: bf16[512]
//   y0 %5: bf16[128, 512]
//   y1 %7: bf16[128, 64]
// 3 rows at a time, over 48 cores; 26,976 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t STEP_ROWS = 3;

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

// target[l, :] = a[l, :] Div b[l, :] for `lines` lines of `columns`, one instruction per line
// and 255 * 64 columns. `pitch`es are elements from line to line, 0 for the same line again;
// `block` 0 means that a line's first block stands for all its columns.
__aicore__ inline void DivColumns(const LocalTensor<float>& target, const LocalTensor<float>& a,
                                  const LocalTensor<float>& b, uint32_t lines, uint32_t columns,
                                  uint32_t pitch, uint32_t aPitch, uint32_t aBlock,
                                  uint32_t bPitch, uint32_t bBlock) {
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = static_cast<uint8_t>(aBlock);
    repeat.src1BlkStride = static_cast<uint8_t>(bBlock);
    repeat.dstRepStride = 8;
    repeat.src0RepStride = static_cast<uint8_t>(8 * aBlock);
    repeat.src1RepStride = static_cast<uint8_t>(8 * bBlock);
    for (uint32_t line = 0; line < lines; ++line) {
        for (uint32_t column = 0; column < columns;) {
            const uint32_t left = columns - column;
            const uint32_t count = left / 64 < 255 ? left / 64 : 255;
            const uint32_t done = count == 0 ? left : count * 64;
            const uint64_t mask = count == 0 ? left : 64;
            Div(target[line * pitch + column], a[line * aPitch + column * aBlock],
                b[line * bPitch + column * bBlock], mask,
                static_cast<uint8_t>(count == 0 ? 1 : count), repeat);
            column += done;
        }
    }
}

// target[l, :] = a[l, :] Mul b[l, :] for `lines` lines of `columns`, one instruction per line
// and 255 * 64 columns. `pitch`es are elements from line to line, 0 for the same line again;
// `block` 0 means that a line's first block stands for all its columns.
__aicore__ inline void MulColumns(const LocalTensor<float>& target, const LocalTensor<float>& a,
                                  const LocalTensor<float>& b, uint32_t lines, uint32_t columns,
                                  uint32_t pitch, uint32_t aPitch, uint32_t aBlock,
                                  uint32_t bPitch, uint32_t bBlock) {
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = static_cast<uint8_t>(aBlock);
    repeat.src1BlkStride = static_cast<uint8_t>(bBlock);
    repeat.dstRepStride = 8;
    repeat.src0RepStride = static_cast<uint8_t>(8 * aBlock);
    repeat.src1RepStride = static_cast<uint8_t>(8 * bBlock);
    for (uint32_t line = 0; line < lines; ++line) {
        for (uint32_t column = 0; column < columns;) {
            const uint32_t left = columns - column;
            const uint32_t count = left / 64 < 255 ? left / 64 : 255;
            const uint32_t done = count == 0 ? left : count * 64;
            const uint64_t mask = count == 0 ? left : 64;
            Mul(target[line * pitch + column], a[line * aPitch + column * aBlock],
                b[line * bPitch + column * bBlock], mask,
                static_cast<uint8_t>(count == 0 ? 1 : count), repeat);
            column += done;
        }
    }
}

// Writes each of `count` numbers eight times.
__aicore__ inline void SpreadNumbers(const LocalTensor<float>& target,
                                     const LocalTensor<float>& source, uint32_t count) {
    BrcbRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.dstRepStride = 8;
    Brcb(target, source, static_cast<uint8_t>((count + 7) / 8), repeat);
}

// target[i] = source[2 * i + first] for a source of `count` elements.
__aicore__ inline void TakeEverySecond(const LocalTensor<float>& target,
                                       const LocalTensor<float>& source, uint8_t first,
                                       uint32_t count) {
    GatherMaskParams once;
    once.src0BlockStride = 1;
    once.repeatTimes = 1;
    once.src0RepeatStride = 8;
    once.src1RepeatStride = 0;
    uint64_t kept = 0;
    const uint8_t pattern = first + 1;
    GatherMask(target, source, pattern, true, count, once, kept);
}

extern "C" __global__ __aicore__ void latent(GM_ADDR x0, GM_ADDR x1, GM_ADDR x2, GM_ADDR w0,
                                             GM_ADDR y0, GM_ADDR y1, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> x0Gm;
    x0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)x0, 73728);
    GlobalTensor<bfloat16_t> x1Gm;
    x1Gm.SetGlobalBuffer((__gm__ bfloat16_t*)x1, 4096);
    GlobalTensor<bfloat16_t> x2Gm;
    x2Gm.SetGlobalBuffer((__gm__ bfloat16_t*)x2, 4096);
    GlobalTensor<bfloat16_t> w0Gm;
    w0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)w0, 512);
    GlobalTensor<bfloat16_t> y0Gm;
    y0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)y0, 65536);
    GlobalTensor<bfloat16_t> y1Gm;
    y1Gm.SetGlobalBuffer((__gm__ bfloat16_t*)y1, 8192);
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
    TBuf<TPosition::VECCALC> arenaBuffer;
    pipe.InitBuffer(arenaBuffer, 14624);
    TQue<TPosition::VECIN, 1> inBfloatQueue;
    pipe.InitBuffer(inBfloatQueue, 2, 3072);
    TQue<TPosition::VECOUT, 1> outBfloatQueue;
    pipe.InitBuffer(outBfloatQueue, 2, 3072);
    TBuf<TPosition::VECCALC> workBuffer;
    pipe.InitBuffer(workBuffer, 64);
    LocalTensor<float> arena = arenaBuffer.Get<float>();
    LocalTensor<float> work = workBuffer.Get<float>();
    LocalTensor<float> v6 = arena[0];
    LocalTensor<float> v10 = arena[64];
    LocalTensor<float> v0 = arena[576];
    LocalTensor<float> v1 = arena[2112];
    LocalTensor<float> v2 = arena[3648];
    LocalTensor<float> v3 = arena[3648];
    LocalTensor<float> v4 = arena[3648];
    LocalTensor<float> v5 = arena[3648];
    LocalTensor<float> v7 = arena[3648];
    LocalTensor<float> v8 = arena[2112];
    LocalTensor<float> v9 = arena[576];
    LocalTensor<float> v11 = arena[576];
    LocalTensor<float> v12 = arena[576];
    LocalTensor<float> v13 = arena[768];
    LocalTensor<float> v14 = arena[864];
    LocalTensor<float> v15 = arena[576];
    LocalTensor<float> v16 = arena[672];
    LocalTensor<float> v17 = arena[960];
    LocalTensor<float> v18 = arena[1056];
    LocalTensor<float> v19 = arena[672];
    LocalTensor<float> v20 = arena[864];
    LocalTensor<float> v21 = arena[768];
    LocalTensor<float> v22 = arena[864];
    Duplicate(v6, 1.0f, 8);
    LocalTensor<bfloat16_t> w0Local10 = inBfloatQueue.AllocTensor<bfloat16_t>();
    CopyIn(w0Local10, w0Gm, 1, 1024, 0, 0);
    inBfloatQueue.EnQue(w0Local10);
    w0Local10 = inBfloatQueue.DeQue<bfloat16_t>();
    Cast(v10, w0Local10, RoundMode::CAST_NONE, 512);
    inBfloatQueue.FreeTensor(w0Local10);
    for (uint32_t row = first; row < last; row += STEP_ROWS) {
        const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;
        // %5 = rms_norm
        LocalTensor<bfloat16_t> x0Local0 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x0Local0, x0Gm[static_cast<uint64_t>(row) * 576], count, 1024, 128, 0);
        inBfloatQueue.EnQue(x0Local0);
        x0Local0 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v0, x0Local0, RoundMode::CAST_NONE, count * 512);
        inBfloatQueue.FreeTensor(x0Local0);
        Mul(v1, v0, v0, static_cast<int32_t>(count * 512));
        Duplicate(v2, 0.0f, static_cast<int32_t>((count + 7) / 8 * 8));
        for (uint32_t line = 0; line < count; ++line) {
            ReduceSum(v2[line], v1[line * 512], work, 512);
        }
        Muls(v3, v2, 0.001953125f, static_cast<int32_t>((count + 7) / 8 * 8));
        Adds(v4, v3, 1e-06f, static_cast<int32_t>((count + 7) / 8 * 8));
        Sqrt(v5, v4, static_cast<int32_t>((count + 7) / 8 * 8));
        DivColumns(v7, v6, v5, 1, (count + 7) / 8 * 8, 0, 0, 0, 0, 1);
        SpreadNumbers(v8, v7, count);
        MulColumns(v9, v0, v8, count, 512, 512, 512, 1, 8, 0);
        for (uint32_t i = 0; i < count; ++i) {
            Mul(v11[i * 512], v9[i * 512], v10, 512);
        }
        LocalTensor<bfloat16_t> y0Local23 = outBfloatQueue.AllocTensor<bfloat16_t>();
        Cast(y0Local23, v11, RoundMode::CAST_RINT, count * 512);
        outBfloatQueue.EnQue(y0Local23);
        y0Local23 = outBfloatQueue.DeQue<bfloat16_t>();
        CopyOut(y0Gm[static_cast<uint64_t>(row) * 512], y0Local23, 1, count * 1024, 0, 0);
        outBfloatQueue.FreeTensor(y0Local23);
        // %7 = rotary
        LocalTensor<bfloat16_t> x0Local12 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x0Local12, x0Gm[static_cast<uint64_t>(row) * 576 + 512], count, 128, 1024, 0);
        inBfloatQueue.EnQue(x0Local12);
        x0Local12 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v12, x0Local12, RoundMode::CAST_NONE, count * 64);
        inBfloatQueue.FreeTensor(x0Local12);
        TakeEverySecond(v13, v12, 0, count * 64);
        TakeEverySecond(v14, v12, 1, count * 64);
        LocalTensor<bfloat16_t> x1Local15 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x1Local15, x1Gm[static_cast<uint64_t>(row) * 32], 1, count * 64, 0, 0);
        inBfloatQueue.EnQue(x1Local15);
        x1Local15 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v15, x1Local15, RoundMode::CAST_NONE, count * 32);
        inBfloatQueue.FreeTensor(x1Local15);
        Mul(v16, v13, v15, static_cast<int32_t>(count * 32));
        LocalTensor<bfloat16_t> x2Local17 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x2Local17, x2Gm[static_cast<uint64_t>(row) * 32], 1, count * 64, 0, 0);
        inBfloatQueue.EnQue(x2Local17);
        x2Local17 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v17, x2Local17, RoundMode::CAST_NONE, count * 32);
        inBfloatQueue.FreeTensor(x2Local17);
        Mul(v18, v14, v17, static_cast<int32_t>(count * 32));
        Sub(v19, v16, v18, static_cast<int32_t>(count * 32));
        LocalTensor<bfloat16_t> y1Local24 = outBfloatQueue.AllocTensor<bfloat16_t>();
        Cast(y1Local24, v19, RoundMode::CAST_RINT, count * 32);
        outBfloatQueue.EnQue(y1Local24);
        y1Local24 = outBfloatQueue.DeQue<bfloat16_t>();
        CopyOut(y1Gm[static_cast<uint64_t>(row) * 64], y1Local24, count, 64, 0, 64);
        outBfloatQueue.FreeTensor(y1Local24);
        // %7 = rotary
        Mul(v20, v14, v15, static_cast<int32_t>(count * 32));
        Mul(v21, v13, v17, static_cast<int32_t>(count * 32));
        Add(v22, v20, v21, static_cast<int32_t>(count * 32));
        LocalTensor<bfloat16_t> y1Local25 = outBfloatQueue.AllocTensor<bfloat16_t>();
        Cast(y1Local25, v22, RoundMode::CAST_RINT, count * 32);
        outBfloatQueue.EnQue(y1Local25);
        y1Local25 = outBfloatQueue.DeQue<bfloat16_t>();
        CopyOut(y1Gm[static_cast<uint64_t>(row) * 64 + 32], y1Local25, count, 64, 0, 64);
        outBfloatQueue.FreeTensor(y1Local25);
    }
}
