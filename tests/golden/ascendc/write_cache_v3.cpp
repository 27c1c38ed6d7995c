// write_latent: cache[slots[i], :] = x[i, :] where slots[i] >= 0, i < sizes[0] <= 128,
// rows of 512 bf16 (x: stride 576, offset 0), 3 at a time, over 48 cores;
// 6,208 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t COLUMNS = 512;
constexpr uint32_t STEP_ROWS = 3;
constexpr uint32_t PITCH = 512;
constexpr uint32_t X_STRIDE = 576;
constexpr uint32_t X_OFFSET = 0;
constexpr uint32_t ROW_BYTES = 1024;
constexpr uint32_t X_GAP_BYTES = 128;

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

extern "C" __global__ __aicore__ void write_latent(GM_ADDR x, GM_ADDR slots, GM_ADDR cache,
                                                   GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> xGm;
    xGm.SetGlobalBuffer((__gm__ bfloat16_t*)x, 73664);
    GlobalTensor<int32_t> slotsGm;
    slotsGm.SetGlobalBuffer((__gm__ int32_t*)slots, 128);
    GlobalTensor<bfloat16_t> cacheGm;
    cacheGm.SetGlobalBuffer((__gm__ bfloat16_t*)cache, 67108864);
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
    TQue<TPosition::VECIN, 1> slotQueue;
    pipe.InitBuffer(slotQueue, 2, 32);
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> rowQueue;
    pipe.InitBuffer(rowQueue, 2, 3072);
    for (uint32_t row = first; row < last; row += STEP_ROWS) {
        const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;
        LocalTensor<int32_t> slotsLocal = slotQueue.AllocTensor<int32_t>();
        CopyIn(slotsLocal, slotsGm[row], 1, count * 4, 0, 0);
        slotQueue.EnQue(slotsLocal);
        slotsLocal = slotQueue.DeQue<int32_t>();
        LocalTensor<bfloat16_t> rowsLocal = rowQueue.AllocTensor<bfloat16_t>();
        const uint64_t source = static_cast<uint64_t>(row) * X_STRIDE + X_OFFSET;
        CopyIn(rowsLocal, xGm[source], count, ROW_BYTES, X_GAP_BYTES, 0);
        rowQueue.EnQue(rowsLocal);
        rowsLocal = rowQueue.DeQue<bfloat16_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const int32_t slot = slotsLocal.GetValue(i);
            if (slot >= 0) {
                const uint64_t target = static_cast<uint64_t>(slot) * COLUMNS;
                CopyOut(cacheGm[target], rowsLocal[i * PITCH], 1, ROW_BYTES, 0, 0);
            }
        }
        rowQueue.FreeTensor(rowsLocal);
        slotQueue.FreeTensor(slotsLocal);
    }
}
