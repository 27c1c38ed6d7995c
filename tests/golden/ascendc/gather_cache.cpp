// gather_cache: the first sizes[2] <= 640 rows of 512 bf16 of one request,
// 32 at a time over 20 cores; 65,536 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 20;
constexpr uint32_t COLUMNS = 512;
constexpr uint32_t BLOCK_TOKENS = 128;
constexpr uint32_t STEP_ROWS = 32;
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

extern "C" __global__ __aicore__ void gather_cache(GM_ADDR cache, GM_ADDR block_table, GM_ADDR y,
                                                   GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> cacheGm;
    cacheGm.SetGlobalBuffer((__gm__ bfloat16_t*)cache, 589824);
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
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> rowQueue;
    pipe.InitBuffer(rowQueue, 2, 32768);
    for (uint32_t step = first; step < last; ++step) {
        const uint32_t row = step * STEP_ROWS;
        const uint32_t count = context - row < STEP_ROWS ? context - row : STEP_ROWS;
        const uint32_t bytes = count * COLUMNS * ELEMENT_BYTES;
        const uint64_t block = static_cast<uint32_t>(block_tableGm.GetValue(row / BLOCK_TOKENS));
        const uint64_t source = block * BLOCK_TOKENS + row % BLOCK_TOKENS;
        LocalTensor<bfloat16_t> rows = rowQueue.AllocTensor<bfloat16_t>();
        CopyIn(rows, cacheGm[source * COLUMNS], 1, bytes, 0, 0);
        rowQueue.EnQue(rows);
        rows = rowQueue.DeQue<bfloat16_t>();
        CopyOut(yGm[static_cast<uint64_t>(row) * COLUMNS], rows, 1, bytes, 0, 0);
        rowQueue.FreeTensor(rows);
    }
}
