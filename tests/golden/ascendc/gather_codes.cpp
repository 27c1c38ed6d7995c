// gather_codes: the first sizes[2] <= 640 rows of 512 codes of one request
// times their scales, as bf16; 16 at a time over 40 cores; 98,944 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 40;
constexpr uint32_t COLUMNS = 512;
constexpr uint32_t BLOCK_TOKENS = 128;
constexpr uint32_t STEP_ROWS = 16;
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

// rows[i, :] *= factor of row i; `factors` holds one 32-byte block per row.
__aicore__ inline void ScaleRows(const LocalTensor<float>& rows,
                                 const LocalTensor<float>& factors) {
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = 1;
    repeat.src1BlkStride = 0;
    repeat.dstRepStride = COLUMNS / 8;
    repeat.src0RepStride = COLUMNS / 8;
    repeat.src1RepStride = 1;
    for (uint32_t column = 0; column < COLUMNS; column += 64) {
        const uint64_t left = COLUMNS - column;
        const uint64_t columns = left < 64 ? left : 64;
        Mul(rows[column], rows[column], factors, columns, STEP_ROWS, repeat);
    }
}

extern "C" __global__ __aicore__ void gather_codes(GM_ADDR codes, GM_ADDR scales,
                                                   GM_ADDR block_table, GM_ADDR y, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<int8_t> codesGm;
    codesGm.SetGlobalBuffer((__gm__ int8_t*)codes, 589824);
    GlobalTensor<float> scalesGm;
    scalesGm.SetGlobalBuffer((__gm__ float*)scales, 1152);
    GlobalTensor<int32_t> block_tableGm;
    block_tableGm.SetGlobalBuffer((__gm__ int32_t*)block_table, 5);
    GlobalTensor<bfloat16_t> yGm;
    yGm.SetGlobalBuffer((__gm__ bfloat16_t*)y, 327680);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t context = static_cast<uint32_t>(sizesGm.GetValue(2));
    const uint32_t steps = (context + STEP_ROWS - 1) / STEP_ROWS;
    const uint32_t share = (steps + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    if (first >= steps) {
        return;
    }
    const uint32_t last = first + share < steps ? first + share : steps;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> codeQueue;
    pipe.InitBuffer(codeQueue, 2, 8192);
    TQue<TPosition::VECIN, 1> scaleQueue;
    pipe.InitBuffer(scaleQueue, 2, 64);
    TBuf<TPosition::VECCALC> halfBuffer;
    pipe.InitBuffer(halfBuffer, 16384);
    TBuf<TPosition::VECCALC> blockBuffer;
    pipe.InitBuffer(blockBuffer, 512);
    TBuf<TPosition::VECCALC> numberBuffer;
    pipe.InitBuffer(numberBuffer, 32768);
    TQue<TPosition::VECOUT, 1> outQueue;
    pipe.InitBuffer(outQueue, 2, 16384);
    LocalTensor<half> halves = halfBuffer.Get<half>();
    LocalTensor<float> scaleBlocks = blockBuffer.Get<float>();
    LocalTensor<float> numbers = numberBuffer.Get<float>();
    for (uint32_t step = first; step < last; ++step) {
        const uint32_t row = step * STEP_ROWS;
        const uint32_t count = context - row < STEP_ROWS ? context - row : STEP_ROWS;
        const uint64_t block = static_cast<uint32_t>(block_tableGm.GetValue(row / BLOCK_TOKENS));
        const uint64_t source = block * BLOCK_TOKENS + row % BLOCK_TOKENS;
        // A step lies in one block: all its rows are there, and those in use are written.
        LocalTensor<int8_t> codes = codeQueue.AllocTensor<int8_t>();
        DataCopy(codes, codesGm[source * COLUMNS], STEP_ROWS * COLUMNS);
        codeQueue.EnQue(codes);
        codes = codeQueue.DeQue<int8_t>();
        LocalTensor<float> scales = scaleQueue.AllocTensor<float>();
        DataCopy(scales, scalesGm[source], STEP_ROWS);
        scaleQueue.EnQue(scales);
        scales = scaleQueue.DeQue<float>();
        LocalTensor<bfloat16_t> y = outQueue.AllocTensor<bfloat16_t>();
        Cast(halves, codes, RoundMode::CAST_NONE, STEP_ROWS * COLUMNS);
        codeQueue.FreeTensor(codes);
        Cast(numbers, halves, RoundMode::CAST_NONE, STEP_ROWS * COLUMNS);
        BrcbRepeatParams spread;
        spread.dstBlkStride = 1;
        spread.dstRepStride = 8;
        Brcb(scaleBlocks, scales, STEP_ROWS / 8, spread);
        scaleQueue.FreeTensor(scales);
        ScaleRows(numbers, scaleBlocks);
        Cast(y, numbers, RoundMode::CAST_RINT, STEP_ROWS * COLUMNS);
        outQueue.EnQue(y);
        y = outQueue.DeQue<bfloat16_t>();
        const uint32_t bytes = count * COLUMNS * ELEMENT_BYTES;
        CopyOut(yGm[static_cast<uint64_t>(row) * COLUMNS], y, 1, bytes, 0, 0);
        outQueue.FreeTensor(y);
    }
}
