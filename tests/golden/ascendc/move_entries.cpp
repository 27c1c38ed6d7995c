// move: accepted ones of 6 entries of 512 bf16 move to where a chain's stand; blocks of 128 tokens,
// place b < sizes[1] <= 64, 2 at a time over 48 cores; 8,448 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t STEP = 2;
constexpr uint32_t NODES = 6;
constexpr uint32_t COLUMNS = 512;
constexpr uint32_t PITCH = 512;
constexpr uint32_t ENTRY_BYTES = 1024;
constexpr uint32_t BLOCK_TOKENS = 128;
constexpr uint32_t TABLE_BLOCKS = 9;
constexpr uint32_t TABLE_COLUMNS = 2;
constexpr uint32_t TABLE_PITCH = 8;
constexpr uint32_t STATE_COLUMNS = 16;
constexpr uint32_t STATE_LENGTH = 0;
constexpr uint32_t STATE_FINISHED = 4;
constexpr uint32_t STATE = 0;
constexpr uint32_t PATH = 32;

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

// The slot of a place of a request; -1 without. `table` begins with the block of `length`.
__aicore__ inline int64_t Slot(const LocalTensor<int32_t>& table, uint32_t length,
                               uint32_t place) {
    const uint32_t column = place / BLOCK_TOKENS;
    if (column >= TABLE_BLOCKS) {
        return -1;
    }
    const int64_t block = table.GetValue(column - length / BLOCK_TOKENS);
    return block < 0 ? -1 : block * BLOCK_TOKENS + place % BLOCK_TOKENS;
}

extern "C" __global__ __aicore__ void move(GM_ADDR cache, GM_ADDR block_table, GM_ADDR state,
                                           GM_ADDR path, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> cacheGm;
    cacheGm.SetGlobalBuffer((__gm__ bfloat16_t*)cache, 13107200);
    GlobalTensor<int32_t> block_tableGm;
    block_tableGm.SetGlobalBuffer((__gm__ int32_t*)block_table, 576);
    GlobalTensor<int32_t> stateGm;
    stateGm.SetGlobalBuffer((__gm__ int32_t*)state, 1024);
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
    pipe.InitBuffer(placeQueue, 1, 192);
    TQue<TPosition::VECIN, 1> tableQueue;
    pipe.InitBuffer(tableQueue, 1, 64);
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> entryQueue;
    pipe.InitBuffer(entryQueue, 2, 4096);
    for (uint32_t start = first; start < last; start += STEP) {
        const uint32_t count = start + STEP < last ? STEP : last - start;
        LocalTensor<int32_t> places = placeQueue.AllocTensor<int32_t>();
        CopyIn(places[STATE], stateGm[start * STATE_COLUMNS], 1, count * STATE_COLUMNS * 4, 0, 0);
        CopyIn(places[PATH], pathGm[start * NODES], 1, count * NODES * 4, 0, 0);
        placeQueue.EnQue(places);
        places = placeQueue.DeQue<int32_t>();
        LocalTensor<int32_t> table = tableQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t length =
                static_cast<uint32_t>(places.GetValue(STATE + i * STATE_COLUMNS + STATE_LENGTH));
            const uint32_t column = length / BLOCK_TOKENS;
            if (column < TABLE_BLOCKS) {
                const uint32_t behind = TABLE_BLOCKS - column;
                const uint32_t columns = TABLE_COLUMNS < behind ? TABLE_COLUMNS : behind;
                const uint64_t source = static_cast<uint64_t>(start + i) * TABLE_BLOCKS;
                CopyIn(table[i * TABLE_PITCH], block_tableGm[source + column], 1, columns * 4, 0,
                       0);
            }
        }
        tableQueue.EnQue(table);
        table = tableQueue.DeQue<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t state = STATE + i * STATE_COLUMNS;
            if (places.GetValue(state + STATE_FINISHED) != 0) {
                continue;
            }
            const uint32_t length = static_cast<uint32_t>(places.GetValue(state + STATE_LENGTH));
            const LocalTensor<int32_t> blocks = table[i * TABLE_PITCH];
            LocalTensor<bfloat16_t> entries = entryQueue.AllocTensor<bfloat16_t>();
            for (uint32_t j = 1; j + 1 < NODES; ++j) {
                const int32_t node = places.GetValue(PATH + i * NODES + j);
                if (node > static_cast<int32_t>(j)) {
                    const int64_t source =
                        Slot(blocks, length, length + static_cast<uint32_t>(node));
                    const int64_t target = Slot(blocks, length, length + j);
                    if (source >= 0 && target >= 0) {
                        CopyIn(entries[(j - 1) * PITCH], cacheGm[source * COLUMNS], 1, ENTRY_BYTES,
                               0, 0);
                    }
                }
            }
            entryQueue.EnQue(entries);
            entries = entryQueue.DeQue<bfloat16_t>();
            for (uint32_t j = 1; j + 1 < NODES; ++j) {
                const int32_t node = places.GetValue(PATH + i * NODES + j);
                if (node > static_cast<int32_t>(j)) {
                    const int64_t source =
                        Slot(blocks, length, length + static_cast<uint32_t>(node));
                    const int64_t target = Slot(blocks, length, length + j);
                    if (source >= 0 && target >= 0) {
                        CopyOut(cacheGm[target * COLUMNS], entries[(j - 1) * PITCH], 1, ENTRY_BYTES,
                                0, 0);
                    }
                }
            }
            entryQueue.FreeTensor(entries);
        }
        tableQueue.FreeTensor(table);
        placeQueue.FreeTensor(places);
    }
}
