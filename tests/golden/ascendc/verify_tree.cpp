// verify: the path of place b, nodes 0, 1, 2, 3, 4, 5 below -1, 0, 0, 1, 1, 2, that equals the
// tokens sampled before it,
// b < sizes[1] <= 64, 4 at a time over 16 cores; 640 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 16;
constexpr uint32_t STEP = 4;
constexpr uint32_t NODES = 6;
constexpr uint32_t STATE_COLUMNS = 16;
constexpr uint32_t STATE_DRAFTED = 5;
constexpr uint32_t IDS = 0;
constexpr uint32_t SAMPLED = 24;
constexpr uint32_t STATE = 48;
constexpr uint32_t ACCEPTED = 0;
constexpr uint32_t LAST_ROWS = 8;
constexpr uint32_t NEW_TOKENS = 16;
constexpr uint32_t PATH = 24;

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

// Four bits for the parent of each node.
constexpr uint64_t PARENTS = 0x211000;

__aicore__ inline uint32_t ParentOf(uint32_t node) {
    return static_cast<uint32_t>(PARENTS >> (4 * node)) % 16;
}

extern "C" __global__ __aicore__ void verify(GM_ADDR token_ids, GM_ADDR sampled, GM_ADDR state,
                                             GM_ADDR accepted, GM_ADDR last_rows,
                                             GM_ADDR new_tokens, GM_ADDR path, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<int32_t> token_idsGm;
    token_idsGm.SetGlobalBuffer((__gm__ int32_t*)token_ids, 384);
    GlobalTensor<int32_t> sampledGm;
    sampledGm.SetGlobalBuffer((__gm__ int32_t*)sampled, 384);
    GlobalTensor<int32_t> stateGm;
    stateGm.SetGlobalBuffer((__gm__ int32_t*)state, 1024);
    GlobalTensor<int32_t> acceptedGm;
    acceptedGm.SetGlobalBuffer((__gm__ int32_t*)accepted, 64);
    GlobalTensor<int32_t> last_rowsGm;
    last_rowsGm.SetGlobalBuffer((__gm__ int32_t*)last_rows, 64);
    GlobalTensor<int32_t> new_tokensGm;
    new_tokensGm.SetGlobalBuffer((__gm__ int32_t*)new_tokens, 64);
    GlobalTensor<int32_t> pathGm;
    pathGm.SetGlobalBuffer((__gm__ int32_t*)path, 384);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t requests = static_cast<uint32_t>(sizesGm.GetValue(1));
    const uint32_t share = (requests + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    const uint32_t last = first + share < requests ? first + share : requests;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 448);
    TQue<TPosition::VECOUT, 1> resultQueue;
    pipe.InitBuffer(resultQueue, 1, 192);
    for (uint32_t start = first; start < last; start += STEP) {
        const uint32_t count = start + STEP < last ? STEP : last - start;
        LocalTensor<int32_t> places = placeQueue.AllocTensor<int32_t>();
        CopyIn(places[IDS], token_idsGm[start * NODES], 1, count * NODES * 4, 0, 0);
        CopyIn(places[SAMPLED], sampledGm[start * NODES], 1, count * NODES * 4, 0, 0);
        CopyIn(places[STATE], stateGm[start * STATE_COLUMNS], 1, count * STATE_COLUMNS * 4, 0, 0);
        placeQueue.EnQue(places);
        places = placeQueue.DeQue<int32_t>();
        LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const int32_t drafted = places.GetValue(STATE + i * STATE_COLUMNS + STATE_DRAFTED);
            uint32_t node = 0;
            uint32_t accepted = 0;
            results.SetValue(PATH + i * NODES, 0);
            for (uint32_t child = 1; child < NODES; ++child) {
                results.SetValue(PATH + i * NODES + child, -1);
                if (static_cast<int32_t>(child) <= drafted && ParentOf(child) == node &&
                    places.GetValue(IDS + i * NODES + child) == places.GetValue(SAMPLED + i * NODES + node)) {
                    node = child;
                    accepted += 1;
                    results.SetValue(PATH + i * NODES + accepted, static_cast<int32_t>(child));
                }
            }
            results.SetValue(ACCEPTED + i, static_cast<int32_t>(accepted));
            results.SetValue(LAST_ROWS + i, static_cast<int32_t>((start + i) * NODES + node));
            results.SetValue(NEW_TOKENS + i, places.GetValue(SAMPLED + i * NODES + node));
        }
        resultQueue.EnQue(results);
        results = resultQueue.DeQue<int32_t>();
        CopyOut(acceptedGm[start], results[ACCEPTED], 1, count * 4, 0, 0);
        CopyOut(last_rowsGm[start], results[LAST_ROWS], 1, count * 4, 0, 0);
        CopyOut(new_tokensGm[start], results[NEW_TOKENS], 1, count * 4, 0, 0);
        CopyOut(pathGm[start * NODES], results[PATH], 1, count * NODES * 4, 0, 0);
        resultQueue.FreeTensor(results);
        placeQueue.FreeTensor(places);
    }
}
