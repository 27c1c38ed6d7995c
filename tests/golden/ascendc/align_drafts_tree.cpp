// align: rows of draft layers, 3 among 6 of each place, that end at its last accepted token; blocks
// of 128 tokens,
// place b < sizes[1] <= 64, 4 at a time over 16 cores; 1,280 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 16;
constexpr uint32_t STEP = 4;
constexpr uint32_t ROWS = 6;
constexpr uint32_t DRAFTS = 2;
constexpr uint32_t WINDOW = 5;
constexpr uint32_t BLOCK_TOKENS = 128;
constexpr uint32_t TABLE_BLOCKS = 9;
constexpr uint32_t TABLE_COLUMNS = 2;
constexpr uint32_t TABLE_PITCH = 8;
constexpr uint32_t RECENT_COLUMNS = 8;
constexpr uint32_t STATE_COLUMNS = 16;
constexpr uint32_t STATE_LENGTH = 0;
constexpr uint32_t STATE_FINISHED = 4;
constexpr uint32_t IDS = 0;
constexpr uint32_t STATE = 24;
constexpr uint32_t ACCEPTED = 88;
constexpr uint32_t NEW = 96;
constexpr uint32_t RECENT = 104;
constexpr uint32_t PATH = 136;
constexpr uint32_t OUT_IDS = 0;
constexpr uint32_t OUT_POSITIONS = 24;
constexpr uint32_t OUT_SLOTS = 48;
constexpr uint32_t OUT_KEPT_AT = 72;
constexpr uint32_t OUT_FOUND_AT = 96;
constexpr uint32_t OUT_LAST_ROWS = 120;

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

// The token `offset` places behind the first row of place `i`: accepted, new, or an earlier one.
__aicore__ inline int32_t Token(const LocalTensor<int32_t>& places, uint32_t i, int32_t offset,
                                int32_t accepted) {
    if (offset > accepted) {
        return places.GetValue(NEW + i);
    }
    return offset >= 0 ? places.GetValue(IDS + i * ROWS + places.GetValue(PATH + i * ROWS + offset))
                       : places.GetValue(RECENT + i * RECENT_COLUMNS - 1 - offset);
}

extern "C" __global__ __aicore__ void align(GM_ADDR token_ids, GM_ADDR block_table, GM_ADDR state,
                                            GM_ADDR accepted, GM_ADDR new_tokens, GM_ADDR recent,
                                            GM_ADDR path, GM_ADDR ids, GM_ADDR positions,
                                            GM_ADDR slots, GM_ADDR last_rows, GM_ADDR kept_at,
                                            GM_ADDR found_at, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<int32_t> token_idsGm;
    token_idsGm.SetGlobalBuffer((__gm__ int32_t*)token_ids, 384);
    GlobalTensor<int32_t> block_tableGm;
    block_tableGm.SetGlobalBuffer((__gm__ int32_t*)block_table, 576);
    GlobalTensor<int32_t> stateGm;
    stateGm.SetGlobalBuffer((__gm__ int32_t*)state, 1024);
    GlobalTensor<int32_t> acceptedGm;
    acceptedGm.SetGlobalBuffer((__gm__ int32_t*)accepted, 64);
    GlobalTensor<int32_t> new_tokensGm;
    new_tokensGm.SetGlobalBuffer((__gm__ int32_t*)new_tokens, 64);
    GlobalTensor<int32_t> recentGm;
    recentGm.SetGlobalBuffer((__gm__ int32_t*)recent, 512);
    GlobalTensor<int32_t> pathGm;
    pathGm.SetGlobalBuffer((__gm__ int32_t*)path, 384);
    GlobalTensor<int32_t> idsGm;
    idsGm.SetGlobalBuffer((__gm__ int32_t*)ids, 384);
    GlobalTensor<int32_t> positionsGm;
    positionsGm.SetGlobalBuffer((__gm__ int32_t*)positions, 384);
    GlobalTensor<int32_t> slotsGm;
    slotsGm.SetGlobalBuffer((__gm__ int32_t*)slots, 384);
    GlobalTensor<int32_t> last_rowsGm;
    last_rowsGm.SetGlobalBuffer((__gm__ int32_t*)last_rows, 64);
    GlobalTensor<int32_t> kept_atGm;
    kept_atGm.SetGlobalBuffer((__gm__ int32_t*)kept_at, 384);
    GlobalTensor<int32_t> found_atGm;
    found_atGm.SetGlobalBuffer((__gm__ int32_t*)found_at, 384);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t requests = static_cast<uint32_t>(sizesGm.GetValue(1));
    const uint32_t share = (requests + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    const uint32_t last = first + share < requests ? first + share : requests;
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 640);
    TQue<TPosition::VECIN, 1> tableQueue;
    pipe.InitBuffer(tableQueue, 1, 128);
    TQue<TPosition::VECOUT, 1> resultQueue;
    pipe.InitBuffer(resultQueue, 1, 512);
    for (uint32_t start = first; start < last; start += STEP) {
        const uint32_t count = start + STEP < last ? STEP : last - start;
        LocalTensor<int32_t> places = placeQueue.AllocTensor<int32_t>();
        CopyIn(places[IDS], token_idsGm[start * ROWS], 1, count * ROWS * 4, 0, 0);
        CopyIn(places[STATE], stateGm[start * STATE_COLUMNS], 1, count * STATE_COLUMNS * 4, 0, 0);
        CopyIn(places[ACCEPTED], acceptedGm[start], 1, count * 4, 0, 0);
        CopyIn(places[NEW], new_tokensGm[start], 1, count * 4, 0, 0);
        CopyIn(places[RECENT], recentGm[start * RECENT_COLUMNS], 1, count * RECENT_COLUMNS * 4, 0,
               0);
        CopyIn(places[PATH], pathGm[start * ROWS], 1, count * ROWS * 4, 0, 0);
        placeQueue.EnQue(places);
        places = placeQueue.DeQue<int32_t>();
        LocalTensor<int32_t> table = tableQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t state = STATE + i * STATE_COLUMNS;
            const int32_t newest =
                places.GetValue(state + STATE_LENGTH) + places.GetValue(ACCEPTED + i);
            const int32_t oldest = newest - static_cast<int32_t>(DRAFTS);
            const uint32_t column = (oldest > 0 ? oldest : 0) / BLOCK_TOKENS;
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
        LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t state = STATE + i * STATE_COLUMNS;
            const bool runs = places.GetValue(state + STATE_FINISHED) == 0;
            const int32_t length = places.GetValue(state + STATE_LENGTH);
            const int32_t accepted = places.GetValue(ACCEPTED + i);
            const int32_t moved = accepted - static_cast<int32_t>(DRAFTS);
            const uint32_t from = length + moved > 0 ? length + moved : 0;
            const uint32_t kept = (start + i) * WINDOW;
            for (uint32_t j = 0; j < ROWS; ++j) {
                const uint32_t row = i * ROWS + j;
                const int32_t offset = moved + static_cast<int32_t>(j);
                const bool inside = length + offset >= 0 && j <= DRAFTS;
                const uint32_t position = inside ? length + offset : 0;
                const uint32_t column = position / BLOCK_TOKENS;
                int32_t slot = -1;
                if (runs && inside && column < TABLE_BLOCKS) {
                    const int32_t block =
                        table.GetValue(i * TABLE_PITCH + column - from / BLOCK_TOKENS);
                    if (block >= 0) {
                        slot = block * BLOCK_TOKENS + position % BLOCK_TOKENS;
                    }
                }
                results.SetValue(OUT_IDS + row,
                                 inside ? Token(places, i, offset + 1, accepted) : 0);
                results.SetValue(OUT_POSITIONS + row, static_cast<int32_t>(position));
                results.SetValue(OUT_SLOTS + row, slot);
                results.SetValue(OUT_FOUND_AT + row,
                                 static_cast<int32_t>(kept + position % WINDOW));
                results.SetValue(OUT_KEPT_AT + row, -1);
            }
            for (int32_t j = 0; runs && j <= accepted; ++j) {
                const uint32_t row = i * ROWS + places.GetValue(PATH + i * ROWS + j);
                results.SetValue(OUT_KEPT_AT + row,
                                 static_cast<int32_t>(kept + (length + j) % WINDOW));
            }
            results.SetValue(OUT_LAST_ROWS + i, static_cast<int32_t>((start + i) * ROWS + DRAFTS));
            for (uint32_t j = RECENT_COLUMNS; j > 0; --j) {
                const int32_t offset = accepted - static_cast<int32_t>(j - 1);
                places.SetValue(RECENT + i * RECENT_COLUMNS + j - 1,
                                Token(places, i, offset, accepted));
            }
        }
        resultQueue.EnQue(results);
        results = resultQueue.DeQue<int32_t>();
        placeQueue.EnQue(places);
        places = placeQueue.DeQue<int32_t>();
        CopyOut(idsGm[start * ROWS], results[OUT_IDS], 1, count * ROWS * 4, 0, 0);
        CopyOut(positionsGm[start * ROWS], results[OUT_POSITIONS], 1, count * ROWS * 4, 0, 0);
        CopyOut(slotsGm[start * ROWS], results[OUT_SLOTS], 1, count * ROWS * 4, 0, 0);
        CopyOut(kept_atGm[start * ROWS], results[OUT_KEPT_AT], 1, count * ROWS * 4, 0, 0);
        CopyOut(found_atGm[start * ROWS], results[OUT_FOUND_AT], 1, count * ROWS * 4, 0, 0);
        CopyOut(last_rowsGm[start], results[OUT_LAST_ROWS], 1, count * 4, 0, 0);
        CopyOut(recentGm[start * RECENT_COLUMNS], places[RECENT], 1, count * RECENT_COLUMNS * 4, 0,
                0);
        resultQueue.FreeTensor(results);
        tableQueue.FreeTensor(table);
        placeQueue.FreeTensor(places);
    }
}
