// gated_codes: vector chain, row < sizes[0] <= 128.
//   x0 input1: i32[128, 4096]
//   x1 input2: f32[128, 1]
//   w0 param3: f32[4096]
//   y0 %8: f32[128, 2048]
//   y1 %23: i8[128, 2048]
//   y2 %16: f32[128, 1]
// 1 rows at a time, over 48 cores; 102,752 bytes of local memory.
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

// Copies `blocks` blocks of 32 bytes of every line inside local memory; gaps are in blocks.
__aicore__ inline void CopyBlocks(const LocalTensor<float>& target,
                                  const LocalTensor<float>& source, uint32_t lines,
                                  uint32_t blocks, uint32_t sourceGap, uint32_t targetGap) {
    DataCopyParams copy;
    copy.blockCount = static_cast<uint16_t>(lines);
    copy.blockLen = static_cast<uint16_t>(blocks);
    copy.srcStride = static_cast<uint16_t>(sourceGap);
    copy.dstStride = static_cast<uint16_t>(targetGap);
    DataCopy(target, source, copy);
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

extern "C" __global__ __aicore__ void gated_codes(GM_ADDR x0, GM_ADDR x1, GM_ADDR w0, GM_ADDR y0,
                                                  GM_ADDR y1, GM_ADDR y2, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<int32_t> x0Gm;
    x0Gm.SetGlobalBuffer((__gm__ int32_t*)x0, 524288);
    GlobalTensor<float> x1Gm;
    x1Gm.SetGlobalBuffer((__gm__ float*)x1, 128);
    GlobalTensor<float> w0Gm;
    w0Gm.SetGlobalBuffer((__gm__ float*)w0, 4096);
    GlobalTensor<float> y0Gm;
    y0Gm.SetGlobalBuffer((__gm__ float*)y0, 262144);
    GlobalTensor<int8_t> y1Gm;
    y1Gm.SetGlobalBuffer((__gm__ int8_t*)y1, 262144);
    GlobalTensor<float> y2Gm;
    y2Gm.SetGlobalBuffer((__gm__ float*)y2, 128);
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
    pipe.InitBuffer(arenaBuffer, 32768);
    TQue<TPosition::VECIN, 1> v4Queue;
    pipe.InitBuffer(v4Queue, 1, 16384);
    TQue<TPosition::VECIN, 1> v1Queue;
    pipe.InitBuffer(v1Queue, 2, 32);
    TQue<TPosition::VECIN, 1> inIntegerQueue;
    pipe.InitBuffer(inIntegerQueue, 2, 16384);
    TQue<TPosition::VECOUT, 1> outFloatQueue;
    pipe.InitBuffer(outFloatQueue, 2, 8192);
    TQue<TPosition::VECOUT, 1> outCodeQueue;
    pipe.InitBuffer(outCodeQueue, 2, 2048);
    TBuf<TPosition::VECCALC> workBuffer;
    pipe.InitBuffer(workBuffer, 256);
    TBuf<TPosition::VECCALC> blockOffsetsBuffer;
    pipe.InitBuffer(blockOffsetsBuffer, 32);
    LocalTensor<float> arena = arenaBuffer.Get<float>();
    LocalTensor<float> work = workBuffer.Get<float>();
    LocalTensor<float> v0 = arena[0];
    LocalTensor<float> v2 = arena[4096];
    LocalTensor<float> v3 = arena[0];
    LocalTensor<float> v5 = arena[0];
    LocalTensor<float> v6 = arena[4096];
    LocalTensor<float> v7 = arena[6144];
    LocalTensor<float> v8 = arena[0];
    LocalTensor<float> v9 = arena[0];
    LocalTensor<float> v10 = arena[0];
    LocalTensor<float> v11 = arena[4096];
    LocalTensor<float> v12 = arena[4096];
    LocalTensor<float> v13 = arena[0];
    LocalTensor<float> v14 = arena[0];
    LocalTensor<float> v15 = arena[2048];
    LocalTensor<float> v16 = arena[0];
    LocalTensor<float> v17 = arena[0];
    LocalTensor<float> v18 = arena[0];
    LocalTensor<float> v19 = arena[8];
    LocalTensor<float> v20 = arena[4096];
    LocalTensor<float> v21 = arena[4096];
    LocalTensor<float> v22 = arena[4096];
    LocalTensor<float> v23 = arena[4096];
    LocalTensor<float> v25 = arena[0];
    LocalTensor<int32_t> blockOffsets = blockOffsetsBuffer.Get<int32_t>();
    CreateVecIndex(blockOffsets, static_cast<int32_t>(0), 8);
    Muls(blockOffsets, blockOffsets, static_cast<int32_t>(32), 8);
    LocalTensor<float> v4 = v4Queue.AllocTensor<float>();
    CopyIn(v4, w0Gm, 1, 16384, 0, 0);
    v4Queue.EnQue(v4);
    v4 = v4Queue.DeQue<float>();
    for (uint32_t row = first; row < last; row += STEP_ROWS) {
        const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;
        // %4 = multiply
        LocalTensor<int32_t> x0Local0 = inIntegerQueue.AllocTensor<int32_t>();
        CopyIn(x0Local0, x0Gm[static_cast<uint64_t>(row) * 4096], 1, count * 16384, 0, 0);
        inIntegerQueue.EnQue(x0Local0);
        x0Local0 = inIntegerQueue.DeQue<int32_t>();
        Cast(v0, x0Local0, RoundMode::CAST_RINT, count * 4096);
        inIntegerQueue.FreeTensor(x0Local0);
        LocalTensor<float> v1 = v1Queue.AllocTensor<float>();
        CopyIn(v1, x1Gm[static_cast<uint64_t>(row) * 1], 1, count * 4, 0, 0);
        v1Queue.EnQue(v1);
        v1 = v1Queue.DeQue<float>();
        SpreadNumbers(v2, v1, count);
        v1Queue.FreeTensor(v1);
        MulColumns(v3, v0, v2, count, 4096, 4096, 4096, 1, 8, 0);
        // %5 = multiply
        for (uint32_t i = 0; i < count; ++i) {
            Mul(v5[i * 4096], v3[i * 4096], v4, 4096);
        }
        // %6 = slice
        CopyBlocks(v6, v5, count, 256, 256, 0);
        // %7 = slice
        CopyBlocks(v7, v5[2048], count, 256, 256, 0);
        // %8 = swiglu
        Muls(v8, v6, -1.0f, static_cast<int32_t>(count * 2048));
        Exp(v9, v8, static_cast<int32_t>(count * 2048));
        Adds(v10, v9, 1.0f, static_cast<int32_t>(count * 2048));
        Div(v11, v6, v10, static_cast<int32_t>(count * 2048));
        Mul(v12, v11, v7, static_cast<int32_t>(count * 2048));
        LocalTensor<float> y0Local24 = outFloatQueue.AllocTensor<float>();
        DataCopy(y0Local24, v12, count * 2048);
        outFloatQueue.EnQue(y0Local24);
        y0Local24 = outFloatQueue.DeQue<float>();
        CopyOut(y0Gm[static_cast<uint64_t>(row) * 2048], y0Local24, 1, count * 8192, 0, 0);
        outFloatQueue.FreeTensor(y0Local24);
        // %10 = negate
        Muls(v13, v12, -1.0f, static_cast<int32_t>(count * 2048));
        // %11 = maximum
        Max(v14, v12, v13, static_cast<int32_t>(count * 2048));
        // %12 = reduce_max
        for (uint32_t line = 0; line < count; ++line) {
            ReduceMax(v15[line * 8], v14[line * 2048], work, 2048);
        }
        Duplicate(v16, 0.0f, static_cast<int32_t>((count + 7) / 8 * 8));
        Gather(v16, v15, blockOffsets.ReinterpretCast<uint32_t>(), 0, count);
        // %14 = maximum
        Maxs(v17, v16, 7.888609052210118e-31f, static_cast<int32_t>((count + 7) / 8 * 8));
        // %16 = multiply
        Muls(v18, v17, 0.007874015748031496f, static_cast<int32_t>((count + 7) / 8 * 8));
        LocalTensor<float> y2Local27 = outFloatQueue.AllocTensor<float>();
        DataCopy(y2Local27, v18, (count + 7) / 8 * 8);
        outFloatQueue.EnQue(y2Local27);
        y2Local27 = outFloatQueue.DeQue<float>();
        CopyOut(y2Gm[static_cast<uint64_t>(row) * 1], y2Local27, 1, count * 4, 0, 0);
        outFloatQueue.FreeTensor(y2Local27);
        // %17 = divide
        SpreadNumbers(v19, v18, count);
        DivColumns(v20, v12, v19, count, 2048, 2048, 2048, 1, 8, 0);
        // %18 = round
        Cast(v21, v20, RoundMode::CAST_RINT, count * 2048);
        // %20 = minimum
        Mins(v22, v21, 127.0f, static_cast<int32_t>(count * 2048));
        // %22 = maximum
        Maxs(v23, v22, -127.0f, static_cast<int32_t>(count * 2048));
        // %23 = cast
        Cast(v25.ReinterpretCast<half>(), v23, RoundMode::CAST_RINT, count * 2048);
        LocalTensor<int8_t> y1Local26 = outCodeQueue.AllocTensor<int8_t>();
        Cast(y1Local26, v25.ReinterpretCast<half>(), RoundMode::CAST_NONE, count * 2048);
        outCodeQueue.EnQue(y1Local26);
        y1Local26 = outCodeQueue.DeQue<int8_t>();
        CopyOut(y1Gm[static_cast<uint64_t>(row) * 2048], y1Local26, 1, count * 2048, 0, 0);
        outCodeQueue.FreeTensor(y1Local26);
    }
    v4Queue.FreeTensor(v4);
}
