// advance: emits the tokens of a step and prepares the next one, in place: places of 6 rows (the
// new token, draft tokens below -1, 0, 0, 0, 1, 1),
// blocks of 128 tokens, a ring of 8 steps; place b < sizes[1] <= 64, 4 at a time, over 16 cores;
// 1,568 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 16;
constexpr uint32_t STEP = 4;
constexpr uint32_t REQUESTS = 64;
constexpr uint32_t ROWS = 6;
constexpr uint32_t BLOCK_TOKENS = 128;
constexpr uint32_t TABLE_BLOCKS = 9;
constexpr uint32_t TABLE_COLUMNS = 2;
constexpr uint32_t TABLE_PITCH = 8;
constexpr uint32_t RING_STEPS = 8;
constexpr uint32_t STATE_COLUMNS = 16;
constexpr uint32_t STOP_COLUMNS = 8;
constexpr uint32_t OPTION_COLUMNS = 16;
constexpr uint32_t VOCABULARY = 129280;
constexpr uint32_t DEPTH = 2;
constexpr uint32_t RATE_ONE = 65536;
constexpr uint32_t RATE_SHIFT = 4;
constexpr uint32_t RETRY_STEPS = 16;
constexpr uint32_t OPTION_REPETITION = 4;
constexpr uint32_t OPTION_PRESENCE = 5;
constexpr uint32_t OPTION_FREQUENCY = 6;
constexpr uint32_t STATE_LENGTH = 0;
constexpr uint32_t STATE_GENERATED = 1;
constexpr uint32_t STATE_LIMIT = 2;
constexpr uint32_t STATE_MINIMUM = 3;
constexpr uint32_t STATE_FINISHED = 4;
constexpr uint32_t STATE_DRAFTED = 5;
constexpr uint32_t STATE_DRAFTS = 6;
constexpr uint32_t STATE_RATE = 11;
constexpr uint32_t STATE_ADAPTIVE = 14;
constexpr uint32_t STATE_PROPOSED = 9;
constexpr uint32_t STATE_ACCEPTED = 10;
constexpr uint32_t STATE_STEPS = 12;
constexpr uint32_t STATE_PLACE = 13;
constexpr uint32_t FINISH_RUNS = 0;
constexpr uint32_t FINISH_STOP = 1;
constexpr uint32_t FINISH_LIMIT = 2;
constexpr uint32_t FINISH_NOT_FINITE = 3;
constexpr uint32_t IDS = 0;
constexpr uint32_t POSITIONS = 24;
constexpr uint32_t STATE = 48;
constexpr uint32_t STOPS = 112;
constexpr uint32_t OPTIONS = 144;
constexpr uint32_t ACCEPTED = 208;
constexpr uint32_t NEW = 216;
constexpr uint32_t PATH = 224;
constexpr uint32_t DRAFT_0 = 248;
constexpr uint32_t DRAFT_1 = 256;
constexpr uint32_t DRAFT_2 = 264;
constexpr uint32_t DRAFT_3 = 272;
constexpr uint32_t DRAFT_4 = 280;
constexpr uint32_t SLOTS = 0;
constexpr uint32_t EMITTED = 24;

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

// Why a token does not follow `total` emitted ones, or that it does. No stop token is negative
// where the token is not.
__aicore__ inline uint32_t Cause(const LocalTensor<int32_t>& places, uint32_t stops, int32_t token,
                                 int32_t total, int32_t limit, int32_t minimum) {
    if (total >= limit) {
        return FINISH_LIMIT;
    }
    if (token < 0) {
        return FINISH_NOT_FINITE;
    }
    for (uint32_t i = 0; i < STOP_COLUMNS; ++i) {
        if (total >= minimum && places.GetValue(stops + i) == token) {
            return FINISH_STOP;
        }
    }
    return FINISH_RUNS;
}

// Whether a request changes logits by what its text has.
__aicore__ inline bool IsPenalised(const LocalTensor<float>& options, uint32_t request) {
    const float repetition = options.GetValue(request + OPTION_REPETITION);
    return (repetition != 0.0f && repetition != 1.0f) ||
           options.GetValue(request + OPTION_PRESENCE) != 0.0f ||
           options.GetValue(request + OPTION_FREQUENCY) != 0.0f;
}

// Four bits for the depth of each node, and for the drafts up to each depth.
constexpr uint64_t DEPTHS = 0x221110;
constexpr uint64_t DRAFTS_TO = 0x530;

__aicore__ inline int32_t DepthOf(uint32_t node) {
    return static_cast<int32_t>((DEPTHS >> (4 * node)) % 16);
}

__aicore__ inline int32_t DraftsTo(uint32_t depth) {
    return static_cast<int32_t>((DRAFTS_TO >> (4 * depth)) % 16);
}

// The token at a depth of the accepted path.
__aicore__ inline int32_t Along(const LocalTensor<int32_t>& places, uint32_t i, uint32_t depth) {
    const int32_t node = places.GetValue(PATH + i * ROWS + depth);
    return places.GetValue(IDS + i * ROWS + node);
}

// The rate behind a step: accepted drafts were tried, and the first one that was not accepted.
__aicore__ inline int32_t MovedRate(uint32_t rate, uint32_t accepted, uint32_t drafted) {
    const uint32_t tried = accepted < drafted ? accepted + 1 : accepted;
    return (rate * ((1 << RATE_SHIFT) - tried) + accepted * RATE_ONE) >> RATE_SHIFT;
}

// How many drafts pay at a rate; where none does, one is tried now and then.
__aicore__ inline int32_t ChosenDrafts(const LocalTensor<int32_t>& step, int32_t rate,
                                       int32_t steps) {
    uint32_t depth = 0;
    for (uint32_t i = 1; i <= DEPTH; ++i) {
        if (step.GetValue(i) <= rate) {
            depth += 1;
        }
    }
    if (depth == 0 && steps % RETRY_STEPS == 0) {
        depth = 1;
    }
    return DraftsTo(depth);
}

extern "C" __global__ __aicore__ void advance(GM_ADDR token_ids, GM_ADDR positions, GM_ADDR slots,
                                              GM_ADDR block_table, GM_ADDR state, GM_ADDR stop_ids,
                                              GM_ADDR accepted, GM_ADDR new_tokens, GM_ADDR emitted,
                                              GM_ADDR step, GM_ADDR counts, GM_ADDR options,
                                              GM_ADDR path, GM_ADDR draft_0, GM_ADDR draft_1,
                                              GM_ADDR draft_2, GM_ADDR draft_3, GM_ADDR draft_4,
                                              GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    GlobalTensor<int32_t> token_idsGm;
    token_idsGm.SetGlobalBuffer((__gm__ int32_t*)token_ids, 384);
    GlobalTensor<int32_t> positionsGm;
    positionsGm.SetGlobalBuffer((__gm__ int32_t*)positions, 384);
    GlobalTensor<int32_t> slotsGm;
    slotsGm.SetGlobalBuffer((__gm__ int32_t*)slots, 384);
    GlobalTensor<int32_t> block_tableGm;
    block_tableGm.SetGlobalBuffer((__gm__ int32_t*)block_table, 576);
    GlobalTensor<int32_t> stateGm;
    stateGm.SetGlobalBuffer((__gm__ int32_t*)state, 1024);
    GlobalTensor<int32_t> stop_idsGm;
    stop_idsGm.SetGlobalBuffer((__gm__ int32_t*)stop_ids, 512);
    GlobalTensor<int32_t> acceptedGm;
    acceptedGm.SetGlobalBuffer((__gm__ int32_t*)accepted, 64);
    GlobalTensor<int32_t> new_tokensGm;
    new_tokensGm.SetGlobalBuffer((__gm__ int32_t*)new_tokens, 64);
    GlobalTensor<int32_t> emittedGm;
    emittedGm.SetGlobalBuffer((__gm__ int32_t*)emitted, 3584);
    GlobalTensor<int32_t> stepGm;
    stepGm.SetGlobalBuffer((__gm__ int32_t*)step, 16);
    GlobalTensor<int32_t> countsGm;
    countsGm.SetGlobalBuffer((__gm__ int32_t*)counts, 8273920);
    GlobalTensor<float> optionsGm;
    optionsGm.SetGlobalBuffer((__gm__ float*)options, 1024);
    GlobalTensor<int32_t> pathGm;
    pathGm.SetGlobalBuffer((__gm__ int32_t*)path, 384);
    GlobalTensor<int32_t> draft_0Gm;
    draft_0Gm.SetGlobalBuffer((__gm__ int32_t*)draft_0, 64);
    GlobalTensor<int32_t> draft_1Gm;
    draft_1Gm.SetGlobalBuffer((__gm__ int32_t*)draft_1, 64);
    GlobalTensor<int32_t> draft_2Gm;
    draft_2Gm.SetGlobalBuffer((__gm__ int32_t*)draft_2, 64);
    GlobalTensor<int32_t> draft_3Gm;
    draft_3Gm.SetGlobalBuffer((__gm__ int32_t*)draft_3, 64);
    GlobalTensor<int32_t> draft_4Gm;
    draft_4Gm.SetGlobalBuffer((__gm__ int32_t*)draft_4, 64);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t requests = static_cast<uint32_t>(sizesGm.GetValue(1));
    const uint32_t share = (requests + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    const uint32_t last = first + share < requests ? first + share : requests;
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> stepQueue;
    pipe.InitBuffer(stepQueue, 1, 32);
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 1152);
    TQue<TPosition::VECIN, 1> tableQueue;
    pipe.InitBuffer(tableQueue, 1, 128);
    TQue<TPosition::VECOUT, 1> resultQueue;
    pipe.InitBuffer(resultQueue, 1, 224);
    TQue<TPosition::VECOUT, 1> addendQueue;
    pipe.InitBuffer(addendQueue, 1, 32);
    LocalTensor<int32_t> stepLocal = stepQueue.AllocTensor<int32_t>();
    CopyIn(stepLocal, stepGm, 1, (1 + DEPTH) * 4, 0, 0);
    stepQueue.EnQue(stepLocal);
    stepLocal = stepQueue.DeQue<int32_t>();
    const int32_t number = stepLocal.GetValue(0);
    const uint64_t ring = static_cast<uint64_t>(number % RING_STEPS) * REQUESTS;
    CrossCoreSetFlag<0, PIPE_MTE2>(0);
    LocalTensor<int32_t> addend = addendQueue.AllocTensor<int32_t>();
    addend.SetValue(0, 2);
    addendQueue.EnQue(addend);
    addend = addendQueue.DeQue<int32_t>();
    for (uint32_t start = first; start < last; start += STEP) {
        const uint32_t count = start + STEP < last ? STEP : last - start;
        LocalTensor<int32_t> places = placeQueue.AllocTensor<int32_t>();
        CopyIn(places[IDS], token_idsGm[start * ROWS], 1, count * ROWS * 4, 0, 0);
        CopyIn(places[POSITIONS], positionsGm[start * ROWS], 1, count * ROWS * 4, 0, 0);
        CopyIn(places[STATE], stateGm[start * STATE_COLUMNS], 1, count * STATE_COLUMNS * 4, 0, 0);
        CopyIn(places[STOPS], stop_idsGm[start * STOP_COLUMNS], 1, count * STOP_COLUMNS * 4, 0, 0);
        CopyIn(places[OPTIONS].ReinterpretCast<float>(), optionsGm[start * OPTION_COLUMNS], 1,
               count * OPTION_COLUMNS * 4, 0, 0);
        CopyIn(places[ACCEPTED], acceptedGm[start], 1, count * 4, 0, 0);
        CopyIn(places[NEW], new_tokensGm[start], 1, count * 4, 0, 0);
        CopyIn(places[PATH], pathGm[start * ROWS], 1, count * ROWS * 4, 0, 0);
        CopyIn(places[DRAFT_0], draft_0Gm[start], 1, count * 4, 0, 0);
        CopyIn(places[DRAFT_1], draft_1Gm[start], 1, count * 4, 0, 0);
        CopyIn(places[DRAFT_2], draft_2Gm[start], 1, count * 4, 0, 0);
        CopyIn(places[DRAFT_3], draft_3Gm[start], 1, count * 4, 0, 0);
        CopyIn(places[DRAFT_4], draft_4Gm[start], 1, count * 4, 0, 0);
        placeQueue.EnQue(places);
        places = placeQueue.DeQue<int32_t>();
        LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();
        LocalTensor<int32_t> table = tableQueue.AllocTensor<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t row = IDS + i * ROWS;
            const uint32_t state = STATE + i * STATE_COLUMNS;
            const uint32_t entry = EMITTED + i * (ROWS + 1);
            const int32_t accepted = places.GetValue(ACCEPTED + i);
            const int32_t newToken = places.GetValue(NEW + i);
            const int32_t drafted = places.GetValue(state + STATE_DRAFTED);
            uint32_t finished = static_cast<uint32_t>(places.GetValue(state + STATE_FINISHED));
            int32_t emitted = 0;
            if (finished == FINISH_RUNS) {
                const int32_t generated = places.GetValue(state + STATE_GENERATED);
                const int32_t limit = places.GetValue(state + STATE_LIMIT);
                const int32_t minimum = places.GetValue(state + STATE_MINIMUM);
                for (int32_t j = 0; j <= accepted && finished == FINISH_RUNS; ++j) {
                    const int32_t token = j < accepted ? Along(places, i, j + 1) : newToken;
                    finished =
                        Cause(places, STOPS + i * STOP_COLUMNS, token, generated + emitted, limit,
                              minimum);
                    if (finished == FINISH_RUNS) {
                        emitted += 1;
                        results.SetValue(entry + emitted, token);
                    }
                }
                if (finished == FINISH_RUNS && generated + emitted >= limit) {
                    finished = FINISH_LIMIT;
                }
                places.SetValue(state + STATE_FINISHED, static_cast<int32_t>(finished));
                places.SetValue(state + STATE_GENERATED, generated + emitted);
                places.SetValue(state + STATE_STEPS, places.GetValue(state + STATE_STEPS) + 1);
                const int32_t rate = places.GetValue(state + STATE_RATE);
                places.SetValue(state + STATE_RATE, MovedRate(rate, accepted, DepthOf(drafted)));
            }
            results.SetValue(entry, emitted);
            for (uint32_t j = emitted; j < ROWS; ++j) {
                const bool rejected = static_cast<int32_t>(j) <= drafted;
                results.SetValue(entry + 1 + j, rejected ? -1 : -2);
            }
            if (finished == FINISH_RUNS) {
                const int32_t length = places.GetValue(state + STATE_LENGTH) + accepted + 1;
                places.SetValue(state + STATE_LENGTH, length);
                const int32_t proposed = places.GetValue(state + STATE_PROPOSED);
                const int32_t allAccepted = places.GetValue(state + STATE_ACCEPTED);
                places.SetValue(state + STATE_PROPOSED, proposed + DepthOf(drafted));
                places.SetValue(state + STATE_ACCEPTED, allAccepted + accepted);
                if (places.GetValue(state + STATE_ADAPTIVE) != 0 && stepLocal.GetValue(1) > -1) {
                    const int32_t chosen =
                        ChosenDrafts(stepLocal, places.GetValue(state + STATE_RATE),
                                     places.GetValue(state + STATE_STEPS));
                    places.SetValue(state + STATE_DRAFTS, chosen);
                }
                const int32_t wanted = places.GetValue(state + STATE_DRAFTS);
                const int32_t most = static_cast<int32_t>(ROWS) - 1;
                places.SetValue(state + STATE_DRAFTED, wanted < most ? wanted : most);
                places.SetValue(row, newToken);
                places.SetValue(row + 1, places.GetValue(DRAFT_0 + i));
                places.SetValue(row + 2, places.GetValue(DRAFT_1 + i));
                places.SetValue(row + 3, places.GetValue(DRAFT_2 + i));
                places.SetValue(row + 4, places.GetValue(DRAFT_3 + i));
                places.SetValue(row + 5, places.GetValue(DRAFT_4 + i));
                for (uint32_t j = 0; j < ROWS; ++j) {
                    places.SetValue(POSITIONS + i * ROWS + j, length + DepthOf(j));
                }
                const uint32_t column = static_cast<uint32_t>(length) / BLOCK_TOKENS;
                if (column < TABLE_BLOCKS) {
                    const uint32_t behind = TABLE_BLOCKS - column;
                    const uint32_t columns = TABLE_COLUMNS < behind ? TABLE_COLUMNS : behind;
                    const uint64_t source = static_cast<uint64_t>(start + i) * TABLE_BLOCKS;
                    CopyIn(table[i * TABLE_PITCH], block_tableGm[source + column], 1, columns * 4,
                           0, 0);
                }
            }
        }
        tableQueue.EnQue(table);
        table = tableQueue.DeQue<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            const bool runs = places.GetValue(STATE + i * STATE_COLUMNS + STATE_FINISHED) == 0;
            const uint32_t row = i * ROWS;
            const uint32_t from =
                static_cast<uint32_t>(places.GetValue(POSITIONS + row)) / BLOCK_TOKENS;
            for (uint32_t j = 0; j < ROWS; ++j) {
                const uint32_t position =
                    static_cast<uint32_t>(places.GetValue(POSITIONS + row)) + j;
                const uint32_t column = position / BLOCK_TOKENS;
                int32_t slot = -1;
                if (runs && column < TABLE_BLOCKS) {
                    const int32_t block = table.GetValue(i * TABLE_PITCH + column - from);
                    if (block >= 0) {
                        slot = block * BLOCK_TOKENS + position % BLOCK_TOKENS;
                    }
                }
                results.SetValue(SLOTS + row + j, slot);
            }
        }
        resultQueue.EnQue(results);
        results = resultQueue.DeQue<int32_t>();
        placeQueue.EnQue(places);
        places = placeQueue.DeQue<int32_t>();
        CopyOut(token_idsGm[start * ROWS], places[IDS], 1, count * ROWS * 4, 0, 0);
        CopyOut(positionsGm[start * ROWS], places[POSITIONS], 1, count * ROWS * 4, 0, 0);
        CopyOut(slotsGm[start * ROWS], results[SLOTS], 1, count * ROWS * 4, 0, 0);
        CopyOut(stateGm[start * STATE_COLUMNS], places[STATE], 1, count * STATE_COLUMNS * 4, 0, 0);
        CopyOut(emittedGm[(ring + start) * (ROWS + 1)], results[EMITTED], 1, count * (ROWS + 1) * 4,
                0, 0);
        const LocalTensor<float> options = places[OPTIONS].ReinterpretCast<float>();
        SetAtomicAdd<int32_t>();
        for (uint32_t i = 0; i < count; ++i) {
            if (IsPenalised(options, i * OPTION_COLUMNS)) {
                const int32_t place = places.GetValue(STATE + i * STATE_COLUMNS + STATE_PLACE);
                const uint64_t ofPlace = static_cast<uint64_t>(place) * VOCABULARY;
                const uint32_t entry = EMITTED + i * (ROWS + 1);
                const int32_t emitted = results.GetValue(entry);
                for (int32_t j = 0; j < emitted; ++j) {
                    const int32_t token = results.GetValue(entry + 1 + j);
                    CopyOut(countsGm[ofPlace + token], addend, 1, 4, 0, 0);
                }
            }
        }
        SetAtomicNone();
        resultQueue.FreeTensor(results);
        tableQueue.FreeTensor(table);
        placeQueue.FreeTensor(places);
    }
    addendQueue.FreeTensor(addend);
    CrossCoreWaitFlag(0);
    if (GetBlockIdx() == 0) {
        stepLocal.SetValue(0, number + 1);
        stepQueue.EnQue(stepLocal);
        stepLocal = stepQueue.DeQue<int32_t>();
        CopyOut(stepGm, stepLocal, 1, 4, 0, 0);
    }
    stepQueue.FreeTensor(stepLocal);
}
