// row_groups: y[row] = number of ends that are not beyond row, at most 255;
// row < sizes[0] <= 1024, 22 at a time over 48 cores; 1,120 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t GROUPS = 256;
constexpr uint32_t STEP = 22;

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

extern "C" __global__ __aicore__ void row_groups(GM_ADDR ends, GM_ADDR y, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<int32_t> endsGm;
    endsGm.SetGlobalBuffer((__gm__ int32_t*)ends, 256);
    GlobalTensor<int32_t> yGm;
    yGm.SetGlobalBuffer((__gm__ int32_t*)y, 1024);
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
    TQue<TPosition::VECIN, 1> endQueue;
    pipe.InitBuffer(endQueue, 1, 1024);
    TQue<TPosition::VECOUT, 1> resultQueue;
    pipe.InitBuffer(resultQueue, 1, 96);
    LocalTensor<int32_t> bounds = endQueue.AllocTensor<int32_t>();
    CopyIn(bounds, endsGm, 1, GROUPS * 4, 0, 0);
    endQueue.EnQue(bounds);
    bounds = endQueue.DeQue<int32_t>();
    uint32_t group = 0;
    for (uint32_t row = first; row < last; row += STEP) {
        const uint32_t count = row + STEP < last ? STEP : last - row;
        LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            while (group + 1 < GROUPS && bounds.GetValue(group) <= static_cast<int32_t>(row + i)) {
                group += 1;
            }
            results.SetValue(i, static_cast<int32_t>(group));
        }
        resultQueue.EnQue(results);
        results = resultQueue.DeQue<int32_t>();
        CopyOut(yGm[row], results, 1, count * 4, 0, 0);
        resultQueue.FreeTensor(results);
    }
    endQueue.FreeTensor(bounds);
}
