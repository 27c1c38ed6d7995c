// normed_codes: vector chain, row < sizes[0] <= 128.
//   x0 input1: bf16[128, 7168]
//   x1 input2: bf16[128, 7168]
//   w0 param3: bf16[7168]
//   y0 %3: bf16[128, 7168]
//   y1 %19: i8[128, 7168]
//   y2 %12: f32[128, 1]
// 1 rows at a time, over 48 cores; 159,456 bytes of local memory.
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

extern "C" __global__ __aicore__ void normed_codes(GM_ADDR x0, GM_ADDR x1, GM_ADDR w0, GM_ADDR y0,
                                                   GM_ADDR y1, GM_ADDR y2, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> x0Gm;
    x0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)x0, 917504);
    GlobalTensor<bfloat16_t> x1Gm;
    x1Gm.SetGlobalBuffer((__gm__ bfloat16_t*)x1, 917504);
    GlobalTensor<bfloat16_t> w0Gm;
    w0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)w0, 7168);
    GlobalTensor<bfloat16_t> y0Gm;
    y0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)y0, 917504);
    GlobalTensor<int8_t> y1Gm;
    y1Gm.SetGlobalBuffer((__gm__ int8_t*)y1, 917504);
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
    pipe.InitBuffer(arenaBuffer, 86784);
    TQue<TPosition::VECIN, 1> inBfloatQueue;
    pipe.InitBuffer(inBfloatQueue, 2, 14336);
    TQue<TPosition::VECOUT, 1> outBfloatQueue;
    pipe.InitBuffer(outBfloatQueue, 2, 14336);
    TQue<TPosition::VECOUT, 1> outFloatQueue;
    pipe.InitBuffer(outFloatQueue, 2, 32);
    TQue<TPosition::VECOUT, 1> outCodeQueue;
    pipe.InitBuffer(outCodeQueue, 2, 7168);
    TBuf<TPosition::VECCALC> workBuffer;
    pipe.InitBuffer(workBuffer, 896);
    TBuf<TPosition::VECCALC> blockOffsetsBuffer;
    pipe.InitBuffer(blockOffsetsBuffer, 32);
    LocalTensor<float> arena = arenaBuffer.Get<float>();
    LocalTensor<float> work = workBuffer.Get<float>();
    LocalTensor<float> v5 = arena[0];
    LocalTensor<float> v9 = arena[64];
    LocalTensor<float> v13 = arena[128];
    LocalTensor<float> v0 = arena[7296];
    LocalTensor<float> v1 = arena[14464];
    LocalTensor<float> v2 = arena[7296];
    LocalTensor<float> v3 = arena[14464];
    LocalTensor<float> v4 = arena[21632];
    LocalTensor<float> v6 = arena[21632];
    LocalTensor<float> v7 = arena[21632];
    LocalTensor<float> v8 = arena[21632];
    LocalTensor<float> v10 = arena[21632];
    LocalTensor<float> v11 = arena[14464];
    LocalTensor<float> v12 = arena[7296];
    LocalTensor<float> v14 = arena[7296];
    LocalTensor<float> v15 = arena[14464];
    LocalTensor<float> v16 = arena[14464];
    LocalTensor<float> v17 = arena[21632];
    LocalTensor<float> v18 = arena[14464];
    LocalTensor<float> v19 = arena[14464];
    LocalTensor<float> v20 = arena[14464];
    LocalTensor<float> v21 = arena[14472];
    LocalTensor<float> v22 = arena[7296];
    LocalTensor<float> v23 = arena[7296];
    LocalTensor<float> v24 = arena[7296];
    LocalTensor<float> v25 = arena[7296];
    LocalTensor<float> v27 = arena[14464];
    LocalTensor<int32_t> blockOffsets = blockOffsetsBuffer.Get<int32_t>();
    CreateVecIndex(blockOffsets, static_cast<int32_t>(0), 8);
    Muls(blockOffsets, blockOffsets, static_cast<int32_t>(32), 8);
    Duplicate(v5, 7168.0f, 8);
    Duplicate(v9, 1.0f, 8);
    LocalTensor<bfloat16_t> w0Local13 = inBfloatQueue.AllocTensor<bfloat16_t>();
    CopyIn(w0Local13, w0Gm, 1, 14336, 0, 0);
    inBfloatQueue.EnQue(w0Local13);
    w0Local13 = inBfloatQueue.DeQue<bfloat16_t>();
    Cast(v13, w0Local13, RoundMode::CAST_NONE, 7168);
    inBfloatQueue.FreeTensor(w0Local13);
    for (uint32_t row = first; row < last; row += STEP_ROWS) {
        const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;
        // %3 = add
        LocalTensor<bfloat16_t> x0Local0 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x0Local0, x0Gm[static_cast<uint64_t>(row) * 7168], 1, count * 14336, 0, 0);
        inBfloatQueue.EnQue(x0Local0);
        x0Local0 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v0, x0Local0, RoundMode::CAST_NONE, count * 7168);
        inBfloatQueue.FreeTensor(x0Local0);
        LocalTensor<bfloat16_t> x1Local1 = inBfloatQueue.AllocTensor<bfloat16_t>();
        CopyIn(x1Local1, x1Gm[static_cast<uint64_t>(row) * 7168], 1, count * 14336, 0, 0);
        inBfloatQueue.EnQue(x1Local1);
        x1Local1 = inBfloatQueue.DeQue<bfloat16_t>();
        Cast(v1, x1Local1, RoundMode::CAST_NONE, count * 7168);
        inBfloatQueue.FreeTensor(x1Local1);
        Add(v2, v0, v1, static_cast<int32_t>(count * 7168));
        LocalTensor<bfloat16_t> y0Local26 = outBfloatQueue.AllocTensor<bfloat16_t>();
        Cast(y0Local26, v2, RoundMode::CAST_RINT, count * 7168);
        outBfloatQueue.EnQue(y0Local26);
        y0Local26 = outBfloatQueue.DeQue<bfloat16_t>();
        CopyOut(y0Gm[static_cast<uint64_t>(row) * 7168], y0Local26, 1, count * 14336, 0, 0);
        outBfloatQueue.FreeTensor(y0Local26);
        // %4 = rms_norm
        Mul(v3, v2, v2, static_cast<int32_t>(count * 7168));
        Duplicate(v4, 0.0f, static_cast<int32_t>((count + 7) / 8 * 8));
        for (uint32_t line = 0; line < count; ++line) {
            ReduceSum(v4[line], v3[line * 7168], work, 7168);
        }
        DivColumns(v6, v4, v5, 1, (count + 7) / 8 * 8, 0, 0, 1, 0, 0);
        Adds(v7, v6, 1e-06f, static_cast<int32_t>((count + 7) / 8 * 8));
        Sqrt(v8, v7, static_cast<int32_t>((count + 7) / 8 * 8));
        DivColumns(v10, v9, v8, 1, (count + 7) / 8 * 8, 0, 0, 0, 0, 1);
        SpreadNumbers(v11, v10, count);
        MulColumns(v12, v2, v11, count, 7168, 7168, 7168, 1, 8, 0);
        for (uint32_t i = 0; i < count; ++i) {
            Mul(v14[i * 7168], v12[i * 7168], v13, 7168);
        }
        // %6 = negate
        Muls(v15, v14, -1.0f, static_cast<int32_t>(count * 7168));
        // %7 = maximum
        Max(v16, v14, v15, static_cast<int32_t>(count * 7168));
        // %8 = reduce_max
        for (uint32_t line = 0; line < count; ++line) {
            ReduceMax(v17[line * 8], v16[line * 7168], work, 7168);
        }
        Duplicate(v18, 0.0f, static_cast<int32_t>((count + 7) / 8 * 8));
        Gather(v18, v17, blockOffsets.ReinterpretCast<uint32_t>(), 0, count);
        // %10 = maximum
        Maxs(v19, v18, 7.888609052210118e-31f, static_cast<int32_t>((count + 7) / 8 * 8));
        // %12 = multiply
        Muls(v20, v19, 0.007874015748031496f, static_cast<int32_t>((count + 7) / 8 * 8));
        LocalTensor<float> y2Local29 = outFloatQueue.AllocTensor<float>();
        DataCopy(y2Local29, v20, (count + 7) / 8 * 8);
        outFloatQueue.EnQue(y2Local29);
        y2Local29 = outFloatQueue.DeQue<float>();
        CopyOut(y2Gm[static_cast<uint64_t>(row) * 1], y2Local29, 1, count * 4, 0, 0);
        outFloatQueue.FreeTensor(y2Local29);
        // %13 = divide
        SpreadNumbers(v21, v20, count);
        DivColumns(v22, v14, v21, count, 7168, 7168, 7168, 1, 8, 0);
        // %14 = round
        Cast(v23, v22, RoundMode::CAST_RINT, count * 7168);
        // %16 = minimum
        Mins(v24, v23, 127.0f, static_cast<int32_t>(count * 7168));
        // %18 = maximum
        Maxs(v25, v24, -127.0f, static_cast<int32_t>(count * 7168));
        // %19 = cast
        Cast(v27.ReinterpretCast<half>(), v25, RoundMode::CAST_RINT, count * 7168);
        LocalTensor<int8_t> y1Local28 = outCodeQueue.AllocTensor<int8_t>();
        Cast(y1Local28, v27.ReinterpretCast<half>(), RoundMode::CAST_NONE, count * 7168);
        outCodeQueue.EnQue(y1Local28);
        y1Local28 = outCodeQueue.DeQue<int8_t>();
        CopyOut(y1Gm[static_cast<uint64_t>(row) * 7168], y1Local28, 1, count * 7168, 0, 0);
        outCodeQueue.FreeTensor(y1Local28);
    }
}
