// move: accepted ones of 6 entries of bf16 in each of 4 caches move to where a chain's stand;
// blocks of 128 tokens,
// place b < sizes[1] <= 64 over 48 cores; 8,320 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t CACHES = 4;
constexpr uint32_t NODES = 6;
constexpr uint32_t ELEMENT_BYTES = 2;
constexpr uint32_t BLOCK_TOKENS = 128;
constexpr uint32_t TABLE_BLOCKS = 9;
constexpr uint32_t TABLE_COLUMNS = 2;
constexpr uint32_t STATE_COLUMNS = 16;
constexpr uint32_t STATE_LENGTH = 0;
constexpr uint32_t STATE_FINISHED = 4;
constexpr uint32_t STATE = 0;
constexpr uint32_t PATH = 16;

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

// The slot of a position of a request; -1 without. `table` begins with the block of `length`.
__aicore__ inline int64_t Slot(const LocalTensor<int32_t>& table, uint32_t length,
                               uint32_t position) {
    const uint32_t column = position / BLOCK_TOKENS;
    if (column >= TABLE_BLOCKS) {
        return -1;
    }
    const int64_t block = table.GetValue(column - length / BLOCK_TOKENS);
    return block < 0 ? -1 : block * BLOCK_TOKENS + position % BLOCK_TOKENS;
}

__aicore__ inline void Move(TQueBind<TPosition::VECIN, TPosition::VECOUT, 1>& queue,
                            const GlobalTensor<bfloat16_t>& cache, uint32_t columns,
                            const LocalTensor<int32_t>& place, const LocalTensor<int32_t>& table,
                            uint32_t length) {
    const uint32_t bytes = columns * ELEMENT_BYTES;
    const uint32_t pitch = (bytes + 31) / 32 * 32 / ELEMENT_BYTES;
    LocalTensor<bfloat16_t> entries = queue.AllocTensor<bfloat16_t>();
    for (uint32_t j = 1; j + 1 < NODES; ++j) {
        const int32_t node = place.GetValue(PATH + j);
        if (node > static_cast<int32_t>(j)) {
            const int64_t source = Slot(table, length, length + static_cast<uint32_t>(node));
            const int64_t target = Slot(table, length, length + j);
            if (source >= 0 && target >= 0) {
                CopyIn(entries[(j - 1) * pitch], cache[source * columns], 1, bytes, 0, 0);
            }
        }
    }
    queue.EnQue(entries);
    entries = queue.DeQue<bfloat16_t>();
    for (uint32_t j = 1; j + 1 < NODES; ++j) {
        const int32_t node = place.GetValue(PATH + j);
        if (node > static_cast<int32_t>(j)) {
            const int64_t source = Slot(table, length, length + static_cast<uint32_t>(node));
            const int64_t target = Slot(table, length, length + j);
            if (source >= 0 && target >= 0) {
                CopyOut(cache[target * columns], entries[(j - 1) * pitch], 1, bytes, 0, 0);
            }
        }
    }
    queue.FreeTensor(entries);
}

extern "C" __global__ __aicore__ void move(GM_ADDR cache_0, GM_ADDR cache_1, GM_ADDR cache_2,
                                           GM_ADDR cache_3, GM_ADDR block_table, GM_ADDR state,
                                           GM_ADDR path, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> cache_0Gm;
    cache_0Gm.SetGlobalBuffer((__gm__ bfloat16_t*)cache_0, 13107200);
    GlobalTensor<bfloat16_t> cache_1Gm;
    cache_1Gm.SetGlobalBuffer((__gm__ bfloat16_t*)cache_1, 1638400);
    GlobalTensor<bfloat16_t> cache_2Gm;
    cache_2Gm.SetGlobalBuffer((__gm__ bfloat16_t*)cache_2, 13107200);
    GlobalTensor<bfloat16_t> cache_3Gm;
    cache_3Gm.SetGlobalBuffer((__gm__ bfloat16_t*)cache_3, 1638400);
    GlobalTensor<int32_t> block_tableGm;
    block_tableGm.SetGlobalBuffer((__gm__ int32_t*)block_table, 576);
    GlobalTensor<int32_t> stateGm;
    stateGm.SetGlobalBuffer((__gm__ int32_t*)state, 1024);
    GlobalTensor<int32_t> pathGm;
    pathGm.SetGlobalBuffer((__gm__ int32_t*)path, 384);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t requests = static_cast<uint32_t>(sizesGm.GetValue(1));
    const uint32_t items = requests * CACHES;
    const uint32_t share = (items + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    if (first >= items) {
        return;
    }
    const uint32_t last = first + share < items ? first + share : items;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 96);
    TQue<TPosition::VECIN, 1> tableQueue;
    pipe.InitBuffer(tableQueue, 1, 32);
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> entryQueue;
    pipe.InitBuffer(entryQueue, 2, 4096);
    for (uint32_t i = first / CACHES; i * CACHES < last; ++i) {
        LocalTensor<int32_t> place = placeQueue.AllocTensor<int32_t>();
        CopyIn(place[STATE], stateGm[i * STATE_COLUMNS], 1, STATE_COLUMNS * 4, 0, 0);
        CopyIn(place[PATH], pathGm[i * NODES], 1, NODES * 4, 0, 0);
        placeQueue.EnQue(place);
        place = placeQueue.DeQue<int32_t>();
        const bool runs = place.GetValue(STATE + STATE_FINISHED) == 0;
        const uint32_t length = static_cast<uint32_t>(place.GetValue(STATE + STATE_LENGTH));
        const uint32_t column = length / BLOCK_TOKENS;
        LocalTensor<int32_t> table = tableQueue.AllocTensor<int32_t>();
        if (column < TABLE_BLOCKS) {
            const uint32_t behind = TABLE_BLOCKS - column;
            const uint32_t columns = TABLE_COLUMNS < behind ? TABLE_COLUMNS : behind;
            const uint64_t source = static_cast<uint64_t>(i) * TABLE_BLOCKS + column;
            CopyIn(table, block_tableGm[source], 1, columns * 4, 0, 0);
        }
        tableQueue.EnQue(table);
        table = tableQueue.DeQue<int32_t>();
        const uint32_t begin = first > i * CACHES ? first - i * CACHES : 0;
        const uint32_t end = last - i * CACHES < CACHES ? last - i * CACHES : CACHES;
        for (uint32_t cache = begin; runs && cache < end; ++cache) {
            if (cache == 0) {
                Move(entryQueue, cache_0Gm, 512, place, table, length);
            }
            if (cache == 1) {
                Move(entryQueue, cache_1Gm, 64, place, table, length);
            }
            if (cache == 2) {
                Move(entryQueue, cache_2Gm, 512, place, table, length);
            }
            if (cache == 3) {
                Move(entryQueue, cache_3Gm, 64, place, table, length);
            }
        }
        tableQueue.FreeTensor(table);
        placeQueue.FreeTensor(place);
    }
}
