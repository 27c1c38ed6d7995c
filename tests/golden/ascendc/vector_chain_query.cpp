// query: vector chain, row < sizes[0] <= 128.
//   x0 input1: bf16[128, 24576]
//   x1 input2: bf16[128, 1, 32]
//   x2 input3: bf16[128, 1, 32]
//   y0 %7: bf16[128, 128, 192]
// 1 rows at a time, over 48 cores; 180,224 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t STEP_ROWS = 1;

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

// target[l, :] = a[l, :] Mul b[l, :] for `lines` lines of `columns`, one instruction per 64
// columns. `pitch`es are elements from line to line, 0 for the same line again; `block` 0 means
// that a line's first block stands for all its columns.
__aicore__ inline void MulLines(const LocalTensor<float>& target, const LocalTensor<float>& a,
                                const LocalTensor<float>& b, uint32_t lines, uint32_t columns,
                                uint32_t pitch, uint32_t aPitch, uint32_t aBlock,
                                uint32_t bPitch, uint32_t bBlock) {
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = static_cast<uint8_t>(aBlock);
    repeat.src1BlkStride = static_cast<uint8_t>(bBlock);
    repeat.dstRepStride = static_cast<uint8_t>(pitch / 8);
    repeat.src0RepStride = static_cast<uint8_t>(aPitch / 8);
    repeat.src1RepStride = static_cast<uint8_t>(bPitch / 8);
    for (uint32_t line = 0; line < lines; line += 255) {
        const uint32_t count = lines - line < 255 ? lines - line : 255;
        for (uint32_t column = 0; column < columns; column += 64) {
            const uint64_t mask = columns - column < 64 ? columns - column : 64;
            Mul(target[line * pitch + column], a[line * aPitch + column * aBlock],
                b[line * bPitch + column * bBlock], mask, static_cast<uint8_t>(count), repeat);
        }
    }
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

extern "C" __global__ __aicore__ void query(GM_ADDR x0, GM_ADDR x1, GM_ADDR x2, GM_ADDR y0,
                                            GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> x0Gm;
    x0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)x0, 3145728);
    GlobalTensor<bfloat16_t> x1Gm;
    x1Gm.SetGlobalBuffer((__gm__ bfloat16_t*)x1, 4096);
    GlobalTensor<bfloat16_t> x2Gm;
    x2Gm.SetGlobalBuffer((__gm__ bfloat16_t*)x2, 4096);
    GlobalTensor<bfloat16_t> y0Gm;
    y0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)y0, 3145728);
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
    pipe.InitBuffer(arenaBuffer, 81920);
    TQue<TPosition::VECIN, 1> inBfloatQueue;
    pipe.InitBuffer(inBfloatQueue, 2, 32768);
    TQue<TPosition::VECOUT, 1> outBfloatQueue;
    pipe.InitBuffer(outBfloatQueue, 1, 32768);
    LocalTensor<float> arena = arenaBuffer.Get<float>();
    LocalTensor<float> v0 = arena[0];
    LocalTensor<float> v1 = arena[8192];
    LocalTensor<float> v2 = arena[12288];
    LocalTensor<float> v3 = arena[0];
    LocalTensor<float> v4 = arena[32];
    LocalTensor<float> v5 = arena[4128];
    LocalTensor<float> v6 = arena[16384];
    LocalTensor<float> v7 = arena[32];
    LocalTensor<float> v8 = arena[12288];
    LocalTensor<float> v9 = arena[8192];
    LocalTensor<float> v10 = arena[12288];
    LocalTensor<float> v11 = arena[0];
    for (uint32_t row = first; row < last; row += STEP_ROWS) {
        const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;
        // %6 = rotary
        LocalTensor<bfloat16_t> x0Local0 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x0Local0, x0Gm[static_cast<uint64_t>(row) * 24576 + 128], count * 128, 128, 256, 0);
        inBfloatQueue.EnQue(x0Local0);
        x0Local0 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v0, x0Local0, RoundMode::CAST_NONE, count * 8192);
        inBfloatQueue.FreeTensor(x0Local0);
        TakeEverySecond(v1, v0, 0, count * 8192);
        TakeEverySecond(v2, v0, 1, count * 8192);
        LocalTensor<bfloat16_t> x1Local3 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x1Local3, x1Gm[static_cast<uint64_t>(row) * 32], 1, count * 64, 0, 0);
        inBfloatQueue.EnQue(x1Local3);
        x1Local3 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v3, x1Local3, RoundMode::CAST_NONE, count * 32);
        inBfloatQueue.FreeTensor(x1Local3);
        for (uint32_t i = 0; i < count; ++i) {
            MulLines(v4[i * 4096], v1[i * 4096], v3[i * 32], 128, 32, 32, 32, 1, 0, 1);
        }
        LocalTensor<bfloat16_t> x2Local5 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x2Local5, x2Gm[static_cast<uint64_t>(row) * 32], 1, count * 64, 0, 0);
        inBfloatQueue.EnQue(x2Local5);
        x2Local5 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v5, x2Local5, RoundMode::CAST_NONE, count * 32);
        inBfloatQueue.FreeTensor(x2Local5);
        for (uint32_t i = 0; i < count; ++i) {
            MulLines(v6[i * 4096], v2[i * 4096], v5[i * 32], 128, 32, 32, 32, 1, 0, 1);
        }
        Sub(v7, v4, v6, static_cast<int32_t>(count * 4096));
        LocalTensor<bfloat16_t> y0Local13 = outBfloatQueue.AllocTensor<bfloat16_t>();
        Cast(y0Local13, v7, RoundMode::CAST_RINT, count * 4096);
        outBfloatQueue.EnQue(y0Local13);
        y0Local13 = outBfloatQueue.DeQue<bfloat16_t>();
        CopyOut(y0Gm[static_cast<uint64_t>(row) * 24576 + 128], y0Local13, count * 128, 64, 0, 320);
        outBfloatQueue.FreeTensor(y0Local13);
        // %6 = rotary
        for (uint32_t i = 0; i < count; ++i) {
            MulLines(v8[i * 4096], v2[i * 4096], v3[i * 32], 128, 32, 32, 32, 1, 0, 1);
        }
        for (uint32_t i = 0; i < count; ++i) {
            MulLines(v9[i * 4096], v1[i * 4096], v5[i * 32], 128, 32, 32, 32, 1, 0, 1);
        }
        Add(v10, v8, v9, static_cast<int32_t>(count * 4096));
        LocalTensor<bfloat16_t> y0Local14 = outBfloatQueue.AllocTensor<bfloat16_t>();
        Cast(y0Local14, v10, RoundMode::CAST_RINT, count * 4096);
        outBfloatQueue.EnQue(y0Local14);
        y0Local14 = outBfloatQueue.DeQue<bfloat16_t>();
        CopyOut(y0Gm[static_cast<uint64_t>(row) * 24576 + 160], y0Local14, count * 128, 64, 0, 320);
        outBfloatQueue.FreeTensor(y0Local14);
        // %7 = concat
        LocalTensor<bfloat16_t> x0Local11 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x0Local11, x0Gm[static_cast<uint64_t>(row) * 24576], count * 128, 256, 128, 0);
        inBfloatQueue.EnQue(x0Local11);
        x0Local11 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v11, x0Local11, RoundMode::CAST_NONE, count * 16384);
        inBfloatQueue.FreeTensor(x0Local11);
        LocalTensor<bfloat16_t> y0Local12 = outBfloatQueue.AllocTensor<bfloat16_t>();
        Cast(y0Local12, v11, RoundMode::CAST_RINT, count * 16384);
        outBfloatQueue.EnQue(y0Local12);
        y0Local12 = outBfloatQueue.DeQue<bfloat16_t>();
        CopyOut(y0Gm[static_cast<uint64_t>(row) * 24576], y0Local12, count * 128, 256, 0, 128);
        outBfloatQueue.FreeTensor(y0Local12);
    }
}
