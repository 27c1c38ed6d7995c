// shift: shifted[r] = ids[r + 1] before last_rows[q], new_tokens[q] there, ids[r] behind,
// q = row_request[r], r < sizes[0] <= 128, q < sizes[1] <= 64, 8 rows at a time, over 16 cores; 672
// bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 16;
constexpr uint32_t STEP = 8;
constexpr uint32_t LAST_ROWS = 0;
constexpr uint32_t NEW = 64;
constexpr uint32_t REQUEST = 0;
constexpr uint32_t IDS = 16;

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

extern "C" __global__ __aicore__ void shift(GM_ADDR ids, GM_ADDR last_rows, GM_ADDR row_request,
                                            GM_ADDR new_tokens, GM_ADDR shifted, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<int32_t> idsGm;
    idsGm.SetGlobalBuffer((__gm__ int32_t*)ids, 128);
    GlobalTensor<int32_t> last_rowsGm;
    last_rowsGm.SetGlobalBuffer((__gm__ int32_t*)last_rows, 64);
    GlobalTensor<int32_t> row_requestGm;
    row_requestGm.SetGlobalBuffer((__gm__ int32_t*)row_request, 128);
    GlobalTensor<int32_t> new_tokensGm;
    new_tokensGm.SetGlobalBuffer((__gm__ int32_t*)new_tokens, 64);
    GlobalTensor<int32_t> shiftedGm;
    shiftedGm.SetGlobalBuffer((__gm__ int32_t*)shifted, 128);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(0));
    const uint32_t requests = static_cast<uint32_t>(sizesGm.GetValue(1));
    const uint32_t share = (rows + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    if (first >= rows) {
        return;
    }
    const uint32_t last = first + share < rows ? first + share : rows;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> tableQueue;
    pipe.InitBuffer(tableQueue, 1, 512);
    TQue<TPosition::VECIN, 1> rowQueue;
    pipe.InitBuffer(rowQueue, 1, 128);
    TQue<TPosition::VECOUT, 1> resultQueue;
    pipe.InitBuffer(resultQueue, 1, 32);
    LocalTensor<int32_t> tables = tableQueue.AllocTensor<int32_t>();
    CopyIn(tables[LAST_ROWS], last_rowsGm, 1, requests * 4, 0, 0);
    CopyIn(tables[NEW], new_tokensGm, 1, requests * 4, 0, 0);
    tableQueue.EnQue(tables);
    tables = tableQueue.DeQue<int32_t>();
    for (uint32_t start = first; start < last; start += STEP) {
        const uint32_t count = start + STEP < last ? STEP : last - start;
        const uint32_t read = start + count < rows ? count + 1 : count;
        LocalTensor<int32_t> rowsLocal = rowQueue.AllocTensor<int32_t>();
        CopyIn(rowsLocal[REQUEST], row_requestGm[start], 1, count * 4, 0, 0);
        CopyIn(rowsLocal[IDS], idsGm[start], 1, read * 4, 0, 0);
        rowQueue.EnQue(rowsLocal);
        rowsLocal = rowQueue.DeQue<int32_t>();
        LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t request = static_cast<uint32_t>(rowsLocal.GetValue(REQUEST + i));
            const uint32_t end = static_cast<uint32_t>(tables.GetValue(LAST_ROWS + request));
            const uint32_t next = start + i < end ? IDS + i + 1 : IDS + i;
            int32_t token = rowsLocal.GetValue(next);
            if (start + i == end) {
                token = tables.GetValue(NEW + request);
            }
            results.SetValue(i, token);
        }
        resultQueue.EnQue(results);
        results = resultQueue.DeQue<int32_t>();
        CopyOut(shiftedGm[start], results, 1, count * 4, 0, 0);
        resultQueue.FreeTensor(results);
        rowQueue.FreeTensor(rowsLocal);
    }
    tableQueue.FreeTensor(tables);
}
