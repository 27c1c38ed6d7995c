// pack: the rows of each place, up to 3, close together; their number becomes sizes[5], 8 times
// that
// sizes[6]; place b < sizes[1] <= 64, 4 at a time over 16 cores; 2,816 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 16;
constexpr uint32_t STEP = 4;
constexpr uint32_t ROWS = 3;
constexpr uint32_t PAIRS = 8;
constexpr uint32_t PIECES = 64;
constexpr uint32_t LANES = 8;
constexpr uint32_t STATE_COLUMNS = 16;
constexpr uint32_t FIRST_COLUMN = 4;
constexpr uint32_t DRAFTED_BEHIND = 1;
constexpr uint32_t FINISH_RUNS = 0;
constexpr uint32_t FINISH_NOT_FINITE = 3;
constexpr uint32_t PACKED_ROWS = 5;
constexpr uint32_t IDS = 0;
constexpr uint32_t POSITIONS = 16;
constexpr uint32_t SLOTS = 32;
constexpr uint32_t STATE = 48;
constexpr uint32_t OUT_IDS = 0;
constexpr uint32_t OUT_PACKED_POSITIONS = 16;
constexpr uint32_t OUT_PACKED_SLOTS = 32;
constexpr uint32_t OUT_ROW_REQUEST = 48;
constexpr uint32_t ROW_START = 64;

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

// Rows of a place, from the columns of its state that are held at `at`.
__aicore__ inline uint32_t RowsOf(const LocalTensor<int32_t>& states, uint32_t at) {
    const int32_t finished = states.GetValue(at);
    const uint32_t drafted = static_cast<uint32_t>(states.GetValue(at + DRAFTED_BEHIND));
    if (finished != FINISH_RUNS && finished != FINISH_NOT_FINITE) {
        return 1;
    }
    return drafted < ROWS ? drafted + 1 : ROWS;
}

extern "C" __global__ __aicore__ void pack(GM_ADDR token_ids, GM_ADDR positions, GM_ADDR slots,
                                           GM_ADDR state, GM_ADDR ids, GM_ADDR packed_positions,
                                           GM_ADDR packed_slots, GM_ADDR row_request,
                                           GM_ADDR row_start, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<int32_t> token_idsGm;
    token_idsGm.SetGlobalBuffer((__gm__ int32_t*)token_ids, 192);
    GlobalTensor<int32_t> positionsGm;
    positionsGm.SetGlobalBuffer((__gm__ int32_t*)positions, 192);
    GlobalTensor<int32_t> slotsGm;
    slotsGm.SetGlobalBuffer((__gm__ int32_t*)slots, 192);
    GlobalTensor<int32_t> stateGm;
    stateGm.SetGlobalBuffer((__gm__ int32_t*)state, 1024);
    GlobalTensor<int32_t> idsGm;
    idsGm.SetGlobalBuffer((__gm__ int32_t*)ids, 192);
    GlobalTensor<int32_t> packed_positionsGm;
    packed_positionsGm.SetGlobalBuffer((__gm__ int32_t*)packed_positions, 192);
    GlobalTensor<int32_t> packed_slotsGm;
    packed_slotsGm.SetGlobalBuffer((__gm__ int32_t*)packed_slots, 192);
    GlobalTensor<int32_t> row_requestGm;
    row_requestGm.SetGlobalBuffer((__gm__ int32_t*)row_request, 192);
    GlobalTensor<int32_t> row_startGm;
    row_startGm.SetGlobalBuffer((__gm__ int32_t*)row_start, 64);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t requests = static_cast<uint32_t>(sizesGm.GetValue(1));
    const uint32_t share = (requests + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    const uint32_t last = first + share < requests ? first + share : requests;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> stateQueue;
    pipe.InitBuffer(stateQueue, 1, 2048);
    TQue<TPosition::VECOUT, 1> sizeQueue;
    pipe.InitBuffer(sizeQueue, 1, 32);
    TQue<TPosition::VECIN, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 448);
    TQue<TPosition::VECOUT, 1> resultQueue;
    pipe.InitBuffer(resultQueue, 1, 288);
    uint32_t row = 0;  // the first of place `first`
    uint32_t total = 0;
    const uint32_t counted = GetBlockIdx() == 0 ? requests : first < requests ? first : 0;
    for (uint32_t from = 0; from < counted; from += PIECES) {
        const uint32_t pieces = from + PIECES < counted ? PIECES : counted - from;
        LocalTensor<int32_t> states = stateQueue.AllocTensor<int32_t>();
        CopyIn(states, stateGm[from * STATE_COLUMNS + FIRST_COLUMN], pieces, 8,
               STATE_COLUMNS * 4 - 8, 0);
        stateQueue.EnQue(states);
        states = stateQueue.DeQue<int32_t>();
        for (uint32_t i = 0; i < pieces; ++i) {
            total += RowsOf(states, i * LANES);
        }
        stateQueue.FreeTensor(states);
    }
    row = GetBlockIdx() == 0 ? 0 : total;
    if (GetBlockIdx() == 0 && requests > 0) {
        LocalTensor<int32_t> counts = sizeQueue.AllocTensor<int32_t>();
        counts.SetValue(0, static_cast<int32_t>(total));
        counts.SetValue(1, static_cast<int32_t>(total * PAIRS));
        sizeQueue.EnQue(counts);
        counts = sizeQueue.DeQue<int32_t>();
        CopyOut(sizesGm[PACKED_ROWS], counts, 1, 8, 0, 0);
        sizeQueue.FreeTensor(counts);
    }
    for (uint32_t start = first; start < last; start += STEP) {
        const uint32_t count = start + STEP < last ? STEP : last - start;
        LocalTensor<int32_t> places = placeQueue.AllocTensor<int32_t>();
        CopyIn(places[IDS], token_idsGm[start * ROWS], 1, count * ROWS * 4, 0, 0);
        CopyIn(places[POSITIONS], positionsGm[start * ROWS], 1, count * ROWS * 4, 0, 0);
        CopyIn(places[SLOTS], slotsGm[start * ROWS], 1, count * ROWS * 4, 0, 0);
        CopyIn(places[STATE], stateGm[start * STATE_COLUMNS], 1, count * STATE_COLUMNS * 4, 0, 0);
        placeQueue.EnQue(places);
        places = placeQueue.DeQue<int32_t>();
        LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();
        uint32_t made = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t rows = RowsOf(places, STATE + i * STATE_COLUMNS + FIRST_COLUMN);
            results.SetValue(ROW_START + i, static_cast<int32_t>(row + made));
            for (uint32_t j = 0; j < rows; ++j) {
                results.SetValue(OUT_IDS + made, places.GetValue(IDS + i * ROWS + j));
                results.SetValue(OUT_PACKED_POSITIONS + made,
                                 places.GetValue(POSITIONS + i * ROWS + j));
                results.SetValue(OUT_PACKED_SLOTS + made, places.GetValue(SLOTS + i * ROWS + j));
                results.SetValue(OUT_ROW_REQUEST + made, static_cast<int32_t>(start + i));
                made += 1;
            }
        }
        resultQueue.EnQue(results);
        results = resultQueue.DeQue<int32_t>();
        CopyOut(idsGm[row], results[OUT_IDS], 1, made * 4, 0, 0);
        CopyOut(packed_positionsGm[row], results[OUT_PACKED_POSITIONS], 1, made * 4, 0, 0);
        CopyOut(packed_slotsGm[row], results[OUT_PACKED_SLOTS], 1, made * 4, 0, 0);
        CopyOut(row_requestGm[row], results[OUT_ROW_REQUEST], 1, made * 4, 0, 0);
        CopyOut(row_startGm[start], results[ROW_START], 1, count * 4, 0, 0);
        row += made;
        resultQueue.FreeTensor(results);
        placeQueue.FreeTensor(places);
    }
}
