"""The Ascend C text of `sample_tokens`: rows and what their requests want, and penalties."""

REQUEST = """\
GlobalTensor<int32_t> counts;
uint64_t countsStart;
bool isPenalised;
float repetition;  // 1: none
float frequency;
float presence;
bool isBlank;  // every tile of a row with penalties starts with 0

bool isGreedy;
bool isCut;  // filters take tokens away
float topP;  // 1: no nucleus
float minP;
uint32_t seedLow;
uint32_t seedHigh;
int32_t length;
int32_t early;  // new tokens before a stop token may come

__aicore__ inline void CountIn(const GlobalTensor<int32_t>& table) {
    counts = table;
}

// Takes up what a request wants; its rows follow.
__aicore__ inline void Begin(const LocalTensor<int32_t>& request) {
    const LocalTensor<float> options = request[OPTIONS].ReinterpretCast<float>();
    stops = request[STOPS];
    length = request.GetValue(LENGTH);
    early = request.GetValue(MINIMUM) - request.GetValue(GENERATED);
    seedLow = static_cast<uint32_t>(request.GetValue(SEED_LOW));
    seedHigh = static_cast<uint32_t>(request.GetValue(SEED_HIGH));
    const float temperature = options.GetValue(TEMPERATURE);
    isGreedy = !(temperature > 0.0f);
    inverse = 1.0f;
    if (!isGreedy) {
        inverse = temperature < 1e-30f ? 1e30f : temperature > 1e30f ? 1e-30f : 1.0f / temperature;
    }
    const float topK = options.GetValue(TOP_K);
    wanted = COLUMNS;
    if (topK >= 1.0f && topK < COLUMNS) {
        wanted = static_cast<uint32_t>(static_cast<int32_t>(topK));
    }
    rank = wanted < KEPT ? wanted : KEPT;
    topP = options.GetValue(TOP_P);
    topP = topP > 0.0f && topP < 1.0f ? topP : 1.0f;
    minP = options.GetValue(MIN_P);
    isCut = !isGreedy && (wanted < COLUMNS || topP < 1.0f || minP > 0.0f);
    isFiltered = isCut;
    repetition = options.GetValue(REPETITION);
    repetition = repetition == 0.0f ? 1.0f : repetition;
    frequency = options.GetValue(FREQUENCY);
    presence = options.GetValue(PRESENCE);
    isPenalised = repetition != 1.0f || frequency != 0.0f || presence != 0.0f;
    countsStart = static_cast<uint64_t>(request.GetValue(PLACE)) * COLUMNS;
@    BeginDrafts(request, options);
}

// Reads a row; whether a token follows it.
__aicore__ inline bool Read(int32_t position) {
    bans = position - length < early ? STOP_COLUMNS : 0;
    isBlank = true;
    Scan();
    return IsChoosable();
}

// The number that chooses the token behind a row.
__aicore__ inline float Sampled(int32_t position) const {
    return Uniform(seedLow, seedHigh, static_cast<uint32_t>(position + 1), SAMPLE, 0);
}
"""

PENALISING = """\
__aicore__ inline void FetchCounts(uint32_t start) {
    LocalTensor<int32_t> next = countQueue.AllocTensor<int32_t>();
    CopyIn(next, counts[countsStart + start], 1, CountOf(start) * 4, 0, 0);
    countQueue.EnQue(next);
}

// Changes the logits of tokens of the text. Of two products with the repetition penalty and its
// inverse the one that is meant is known without the sign of the logit.
__aicore__ inline void Penalise(uint32_t start, uint32_t elements) {
    LocalTensor<int32_t> known = countQueue.DeQue<int32_t>();
    isBlank = isBlank && values.GetValue(0) == 0.0f;
@    CountDrafts(known, start, elements);
    const int32_t count = static_cast<int32_t>(elements);
    if (repetition != 1.0f) {
        const uint32_t whole = (elements + 63) / 64 * 64;
        CompareScalar(bits, known, static_cast<int32_t>(0), CMPMODE::EQ, whole);
        Muls(weights, values, repetition, count);
        Muls(merged, values, 1.0f / repetition, count);
        if (repetition > 1.0f) {
            Min(weights, weights, merged, count);
        } else {
            Max(weights, weights, merged, count);
        }
        Select(values, bits, values, weights, SELMODE::VSEL_TENSOR_TENSOR_MODE, elements);
    }
    if (frequency != 0.0f || presence != 0.0f) {
        LocalTensor<float> emitted = known.ReinterpretCast<float>();
        ShiftRight(known, known, static_cast<int32_t>(1), count);
        Cast(emitted, known, RoundMode::CAST_NONE, elements);
        if (frequency != 0.0f) {
            Axpy(values, emitted, -frequency, count);
        }
        if (presence != 0.0f) {
            Mins(emitted, emitted, 1.0f, count);
            Axpy(values, emitted, -presence, count);
        }
    }
    countQueue.FreeTensor(known);
}
"""

SAMPLING = """\
// The token behind a row; -1 if its logits are no numbers to choose by.
__aicore__ inline int32_t Sample(int32_t position) {
    if (!Read(position)) {
        return -1;
    }
    if (isGreedy) {
        return static_cast<int32_t>(best);
    }
    Settle();
    return Draw(Sampled(position));
}
"""
"""Without drafts."""

PLACES = """\
// The first row from `row` on that begins a place.
__aicore__ inline uint32_t BeginOf(const LocalTensor<int32_t>& places, uint32_t base, uint32_t row,
                                   uint32_t stop) {
    while (row > base && row < stop &&
           places.GetValue(row - base) == places.GetValue(row - 1 - base)) {
        row += 1;
    }
    return row;
}
"""
"""Of a kernel that couples tokens with drafts."""

ROWS = """\
@if (rows == 0) {
@    return;
@}
@uint32_t share = (rows + BLOCKS - 1) / BLOCKS;
@while (share < ROWS && ROWS % share != 0) {
@    share += 1;
@}
@uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
&const uint32_t share = (rows + BLOCKS - 1) / BLOCKS;
&const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
if (first >= rows) {
    return;
}
@uint32_t last = first + share < rows ? first + share : rows;
@// Places that these rows belong to may begin before them and end behind.
@const uint32_t base = first < ROWS ? 0 : first - (ROWS - 1);
@const uint32_t stop = last + ROWS - 1 < rows ? last + ROWS - 1 : rows;
@const uint32_t count = stop - base;
&const uint32_t last = first + share < rows ? first + share : rows;
&const uint32_t base = first;
&const uint32_t count = last - first;
TPipe pipe;
Sampler sampler;
sampler.Init(pipe, logitsGm);
sampler.CountIn(countsGm);
@sampler.RecordIn(draft_idsGm, draft_probsGm);
%TABLES%
LocalTensor<int32_t> positionsLocal = positionQueue.AllocTensor<int32_t>();
CopyIn(positionsLocal, positionsGm[base], 1, count * 4, 0, 0);
positionQueue.EnQue(positionsLocal);
positionsLocal = positionQueue.DeQue<int32_t>();
LocalTensor<int32_t> placesLocal = placeQueue.AllocTensor<int32_t>();
CopyIn(placesLocal, row_requestGm[base], 1, count * 4, 0, 0);
placeQueue.EnQue(placesLocal);
placesLocal = placeQueue.DeQue<int32_t>();
@LocalTensor<int32_t> idsLocal = idQueue.AllocTensor<int32_t>();
@CopyIn(idsLocal, token_idsGm[base], 1, count * 4, 0, 0);
@idQueue.EnQue(idsLocal);
@idsLocal = idQueue.DeQue<int32_t>();
LocalTensor<int32_t> tokensLocal = tokenQueue.AllocTensor<int32_t>();
@if (share >= ROWS) {  // a core has whole places: those that begin among its rows
@    first = BeginOf(placesLocal, base, first, stop);
@    last = BeginOf(placesLocal, base, last, stop);
@}
@uint32_t own = 1;  // rows of a place
@uint32_t begin = first;
@while (begin < last && begin > base &&
@       placesLocal.GetValue(begin - 1 - base) == placesLocal.GetValue(begin - base)) {
@    begin -= 1;
@}
@for (uint32_t start = begin; start < last; start += own) {
&for (uint32_t start = base; start < last; ++start) {
    const uint64_t place = static_cast<uint64_t>(placesLocal.GetValue(start - base));
    LocalTensor<int32_t> request = requestQueue.AllocTensor<int32_t>();
    CopyIn(request, stateGm[place * STATE_COLUMNS], 1, STATE_COLUMNS * 4, 0, 0);
    CopyIn(request[STOPS], stop_idsGm[place * STOP_COLUMNS], 1, STOP_COLUMNS * 4, 0, 0);
    LocalTensor<float> options = request[OPTIONS].ReinterpretCast<float>();
    CopyIn(options, optionsGm[place * OPTION_COLUMNS], 1, OPTION_COLUMNS * 4, 0, 0);
    requestQueue.EnQue(request);
    request = requestQueue.DeQue<int32_t>();
    sampler.Begin(request);
&    sampler.rowStart = static_cast<uint64_t>(start) * COLUMNS;
&    tokensLocal.SetValue(start - base, sampler.Sample(positionsLocal.GetValue(start - base)));
@    for (own = 1; own < ROWS && start + own < stop &&
@         placesLocal.GetValue(start + own - base) == placesLocal.GetValue(start - base);) {
@        own += 1;
@    }
@    sampler.BeginPlace(place, idsLocal[start - base], own);
@    for (uint32_t i = 0; i < own; ++i) {
@        const uint32_t row = start + i;
@        const bool isOwn = first <= row && row < last;
@        if (isOwn || sampler.verification == BLOCK) {  // all rows of a block decide together
@            sampler.rowStart = static_cast<uint64_t>(row) * COLUMNS;
@            const int32_t token = sampler.Sample(positionsLocal.GetValue(row - base), i);
@            if (isOwn) {
@                tokensLocal.SetValue(row - first, token);
@            }
@        }
@    }
@    for (uint32_t i = 0; i < sampler.accepted; ++i) {
@        const uint32_t row = start + i;
@        if (first <= row && row < last) {
@            tokensLocal.SetValue(row - first, sampler.drafts.GetValue(i + 1));
@        }
@    }
    requestQueue.FreeTensor(request);
}
tokenQueue.EnQue(tokensLocal);
tokensLocal = tokenQueue.DeQue<int32_t>();
@if (first < last) {
@    CopyOut(tokensGm[first], tokensLocal, 1, (last - first) * 4, 0, 0);
@}
&CopyOut(tokensGm[first], tokensLocal, 1, (last - first) * 4, 0, 0);
tokenQueue.FreeTensor(tokensLocal);
@idQueue.FreeTensor(idsLocal);
placeQueue.FreeTensor(placesLocal);
positionQueue.FreeTensor(positionsLocal);
"""
"""The kernel, around the declaration of its tables."""
