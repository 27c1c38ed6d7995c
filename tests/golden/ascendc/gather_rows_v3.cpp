// embed_tokens: y[i, :] = table[ids[i], :], i < sizes[0] <= 128,
// rows of 7168 bf16, 3 at a time, over 48 cores; 86,080 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t COLUMNS = 7168;
constexpr uint32_t STEP_ROWS = 3;
constexpr uint32_t PITCH = 7168;
constexpr uint32_t PIECE = 7168;
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

extern "C" __global__ __aicore__ void embed_tokens(GM_ADDR table, GM_ADDR ids, GM_ADDR y,
                                                   GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> tableGm;
    tableGm.SetGlobalBuffer((__gm__ bfloat16_t*)table, 926679040);
    GlobalTensor<int32_t> idsGm;
    idsGm.SetGlobalBuffer((__gm__ int32_t*)ids, 128);
    GlobalTensor<bfloat16_t> yGm;
    yGm.SetGlobalBuffer((__gm__ bfloat16_t*)y, 917504);
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
    TQue<TPosition::VECIN, 1> idQueue;
    pipe.InitBuffer(idQueue, 2, 32);
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> rowQueue;
    pipe.InitBuffer(rowQueue, 2, 43008);
    for (uint32_t row = first; row < last; row += STEP_ROWS) {
        const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;
        LocalTensor<int32_t> idsLocal = idQueue.AllocTensor<int32_t>();
        CopyIn(idsLocal, idsGm[row], 1, count * 4, 0, 0);
        idQueue.EnQue(idsLocal);
        idsLocal = idQueue.DeQue<int32_t>();
        constexpr uint32_t column = 0;
        constexpr uint32_t bytes = COLUMNS * ELEMENT_BYTES;
        LocalTensor<bfloat16_t> rowsLocal = rowQueue.AllocTensor<bfloat16_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const uint64_t id = static_cast<uint64_t>(idsLocal.GetValue(i));
            CopyIn(rowsLocal[i * PITCH], tableGm[id * COLUMNS + column], 1, bytes, 0, 0);
        }
        rowQueue.EnQue(rowsLocal);
        rowsLocal = rowQueue.DeQue<bfloat16_t>();
        const uint64_t target = static_cast<uint64_t>(row) * COLUMNS + column;
        CopyOut(yGm[target], rowsLocal, count, bytes, 0, 0);
        rowQueue.FreeTensor(rowsLocal);
        idQueue.FreeTensor(idsLocal);
    }
}
