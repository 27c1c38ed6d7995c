// verify: how many of the drafts of place b, rows behind row_start[b], equal the tokens sampled
// before them,
// b < sizes[1] <= 64, 4 at a time, over 16 cores; 512 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 16;
constexpr uint32_t STEP = 4;
constexpr uint32_t ROWS = 3;
constexpr uint32_t STATE_COLUMNS = 16;
constexpr uint32_t DRAFTED = 5;
constexpr uint32_t IDS = 0;
constexpr uint32_t SAMPLED = 16;
constexpr uint32_t STATE = 32;
constexpr uint32_t ROW_START = 96;
constexpr uint32_t ACCEPTED = 0;
constexpr uint32_t LAST_ROWS = 8;
constexpr uint32_t NEW_TOKENS = 16;

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

extern "C" __global__ __aicore__ void verify(GM_ADDR token_ids, GM_ADDR sampled, GM_ADDR state,
                                             GM_ADDR row_start, GM_ADDR accepted, GM_ADDR last_rows,
                                             GM_ADDR new_tokens, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<int32_t> token_idsGm;
    token_idsGm.SetGlobalBuffer((__gm__ int32_t*)token_ids, 192);
    GlobalTensor<int32_t> sampledGm;
    sampledGm.SetGlobalBuffer((__gm__ int32_t*)sampled, 192);
    GlobalTensor<int32_t> stateGm;
    stateGm.SetGlobalBuffer((__gm__ int32_t*)state, 1024);
    GlobalTensor<int32_t> row_startGm;
    row_startGm.SetGlobalBuffer((__gm__ int32_t*)row_start, 64);
    GlobalTensor<int32_t> acceptedGm;
    acceptedGm.SetGlobalBuffer((__gm__ int32_t*)accepted, 64);
    GlobalTensor<int32_t> last_rowsGm;
    last_rowsGm.SetGlobalBuffer((__gm__ int32_t*)last_rows, 64);
    GlobalTensor<int32_t> new_tokensGm;
    new_tokensGm.SetGlobalBuffer((__gm__ int32_t*)new_tokens, 64);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t requests = static_cast<uint32_t>(sizesGm.GetValue(1));
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(5));
    const uint32_t share = (requests + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    const uint32_t last = first + share < requests ? first + share : requests;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 416);
    TQue<TPosition::VECOUT, 1> resultQueue;
    pipe.InitBuffer(resultQueue, 1, 96);
    for (uint32_t start = first; start < last; start += STEP) {
        const uint32_t count = start + STEP < last ? STEP : last - start;
        const uint32_t begin = static_cast<uint32_t>(row_startGm.GetValue(start));
        const uint32_t end = start + count < requests
            ? static_cast<uint32_t>(row_startGm.GetValue(start + count)) : rows;
        LocalTensor<int32_t> places = placeQueue.AllocTensor<int32_t>();
        CopyIn(places[IDS], token_idsGm[begin], 1, (end - begin) * 4, 0, 0);
        CopyIn(places[SAMPLED], sampledGm[begin], 1, (end - begin) * 4, 0, 0);
        CopyIn(places[STATE], stateGm[start * STATE_COLUMNS], 1, count * STATE_COLUMNS * 4, 0, 0);
        CopyIn(places[ROW_START], row_startGm[start], 1, count * 4, 0, 0);
        placeQueue.EnQue(places);
        places = placeQueue.DeQue<int32_t>();
        LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const int32_t drafted = places.GetValue(STATE + i * STATE_COLUMNS + DRAFTED);
            uint32_t accepted = 0;
            const uint32_t own = static_cast<uint32_t>(places.GetValue(ROW_START + i)) - begin;
            const uint32_t behind = i + 1 < count
                ? static_cast<uint32_t>(places.GetValue(ROW_START + i + 1)) - begin : end - begin;
            const uint32_t rowsOf = behind - own;
            while (accepted + 1 < rowsOf && static_cast<int32_t>(accepted) < drafted && places.GetValue(IDS + own + accepted + 1) == places.GetValue(SAMPLED + own + accepted)) {
                accepted += 1;
            }
            const uint32_t row = own + accepted;
            results.SetValue(ACCEPTED + i, static_cast<int32_t>(accepted));
            results.SetValue(LAST_ROWS + i, static_cast<int32_t>(begin + row));
            results.SetValue(NEW_TOKENS + i, places.GetValue(SAMPLED + row));
        }
        resultQueue.EnQue(results);
        results = resultQueue.DeQue<int32_t>();
        CopyOut(acceptedGm[start], results[ACCEPTED], 1, count * 4, 0, 0);
        CopyOut(last_rowsGm[start], results[LAST_ROWS], 1, count * 4, 0, 0);
        CopyOut(new_tokensGm[start], results[NEW_TOKENS], 1, count * 4, 0, 0);
        resultQueue.FreeTensor(results);
        placeQueue.FreeTensor(places);
    }
}
