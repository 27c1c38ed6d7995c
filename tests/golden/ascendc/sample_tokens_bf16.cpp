// sample_tokens: a token for each row of 129280 bf16, i < sizes[0] <= 64, as its request wants it;
// tiles of 4096, 1024 candidates kept, a row per core at a time over 48 cores; 169,696 bytes of
// local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t COLUMNS = 129280;
constexpr uint32_t TILE = 4096;
constexpr uint32_t TILES = 32;
constexpr uint32_t ELEMENT_BYTES = 2;
constexpr uint32_t KEPT = 1024;
constexpr uint32_t LIST = 512;
constexpr uint32_t CHUNK = 1536;
constexpr uint32_t HALVINGS = 32;
constexpr uint32_t STATE_COLUMNS = 16;
constexpr uint32_t STOP_COLUMNS = 8;
constexpr uint32_t OPTION_COLUMNS = 16;
constexpr uint32_t STOPS = 16;
constexpr uint32_t OPTIONS = 24;
constexpr uint32_t TEMPERATURE = 0;
constexpr uint32_t TOP_K = 1;
constexpr uint32_t TOP_P = 2;
constexpr uint32_t MIN_P = 3;
constexpr uint32_t LENGTH = 0;
constexpr uint32_t GENERATED = 1;
constexpr uint32_t MINIMUM = 3;
constexpr uint32_t SEED_LOW = 7;
constexpr uint32_t SEED_HIGH = 8;
constexpr float LOWEST = -__builtin_inff();
constexpr float INFINITE = __builtin_inff();
constexpr float LEAST = -3.4028234663852886e38f;
constexpr uint32_t PLACE = 13;
constexpr uint32_t REPETITION = 4;
constexpr uint32_t PRESENCE = 5;
constexpr uint32_t FREQUENCY = 6;
constexpr uint32_t SAMPLE = 0;

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

using Element = bfloat16_t;

// A number in [0, 1) from a seed, the position of the token that is drawn, a stream and, where
// several steps draw for one position, the step: Philox4x32-10 (Salmon et al., SC'11), 24 bits of
// its first word.
__aicore__ inline float Uniform(uint32_t low, uint32_t high, uint32_t index, uint32_t stream,
                                uint32_t step) {
    uint32_t c0 = index;
    uint32_t c1 = stream;
    uint32_t c2 = step;
    uint32_t c3 = 0;
    for (uint32_t i = 0; i < 10; ++i) {
        const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
        const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
        c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ low;
        c1 = static_cast<uint32_t>(p1);
        c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ high;
        c3 = static_cast<uint32_t>(p0);
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return static_cast<float>(static_cast<int32_t>(c0 >> 8)) * 5.9604644775390625e-8f;
}

// Merges two to four sorted lists of `length` records, the last one of what is left of `records`;
// `pitch` floats from list to list.
__aicore__ inline void MergeLists(const LocalTensor<float>& to, const LocalTensor<float>& from,
                                  uint32_t pitch, uint32_t length, uint32_t records) {
    const uint32_t lists = (records + length - 1) / length;
    MrgSort4Info merge;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t left = i < lists ? records - i * length : 0;
        merge.elementLengths[i] = static_cast<uint16_t>(left < length ? left : length);
    }
    merge.ifExhaustedSuspension = false;
    merge.validBit = static_cast<uint16_t>((1 << lists) - 1);
    merge.repeatTimes = 1;
    MrgSortSrcList<float> source;
    source.src1 = from;
    source.src2 = from[pitch];
    source.src3 = lists > 2 ? from[2 * pitch] : from;
    source.src4 = lists > 3 ? from[3 * pitch] : from;
    MrgSort(to, source, merge);
}

// Merges `sets` times four neighbouring sorted lists of `length` records into one each.
__aicore__ inline void MergeSets(const LocalTensor<float>& to, const LocalTensor<float>& from,
                                 uint32_t length, uint32_t sets) {
    MrgSort4Info merge;
    merge.elementLengths[0] = static_cast<uint16_t>(length);
    merge.elementLengths[1] = static_cast<uint16_t>(length);
    merge.elementLengths[2] = static_cast<uint16_t>(length);
    merge.elementLengths[3] = static_cast<uint16_t>(length);
    merge.ifExhaustedSuspension = false;
    merge.validBit = 15;
    merge.repeatTimes = static_cast<uint8_t>(sets);
    MrgSortSrcList<float> source;
    source.src1 = from;
    source.src2 = from[2 * length];
    source.src3 = from[4 * length];
    source.src4 = from[6 * length];
    MrgSort(to, source, merge);
}

// Every other number of KEPT records: values for `part` 1, ids for 2.
template <typename T>
__aicore__ inline void Unzip(const LocalTensor<T>& to, const LocalTensor<T>& from, uint8_t part) {
    GatherMaskParams gather;
    gather.repeatTimes = 2 * KEPT / 64;
    gather.src0BlockStride = 1;
    gather.src0RepeatStride = 8;
    uint64_t found = 0;
    GatherMask(to, from, part, false, 0, gather, found);
}

// What a filter leaves: everything of at least `high` and, of what is between `low` and `high`, all
// of one value, the first `ties` by id.
struct Cut {
    float low;
    float high;
    uint32_t ties;
    uint32_t tokens;  // together
    float mass;
};

// What a core does with a row.
struct Sampler {
    TQue<TPosition::VECIN, 1> countQueue;
    TBuf<TPosition::VECCALC> sortedBuffer;
    TBuf<TPosition::VECCALC> mergedBuffer;
    TBuf<TPosition::VECCALC> keptBuffer;
    TBuf<TPosition::VECCALC> newValuesBuffer;
    TBuf<TPosition::VECCALC> newIdsBuffer;
    TBuf<TPosition::VECCALC> weightsBuffer;
    TBuf<TPosition::VECCALC> indexBuffer;
    TBuf<TPosition::VECCALC> bitsBuffer;
    TBuf<TPosition::VECCALC> maximaBuffer;
    TBuf<TPosition::VECCALC> sumsBuffer;
    TBuf<TPosition::VECCALC> massesBuffer;
    TBuf<TPosition::VECCALC> workBuffer;
    TBuf<TPosition::VECCALC> pairBuffer;
    TQue<TPosition::VECIN, 1> logitQueue;
    TBuf<TPosition::VECCALC> valuesBuffer;
    LocalTensor<Element> tile;
    LocalTensor<float> values;  // the tile as float
    LocalTensor<float> weights;
    LocalTensor<int32_t> index;  // 0, 1, 2, ...
    LocalTensor<uint8_t> bits;
    LocalTensor<float> newValues;  // candidates that are not sorted yet
    LocalTensor<int32_t> newIds;
    LocalTensor<float> sorted;
    LocalTensor<float> merged;
    LocalTensor<float> kept;  // records of the best candidates: value, id; the best first
    LocalTensor<float> maxima;  // per tile
    LocalTensor<float> sums;
    LocalTensor<float> masses;
    LocalTensor<float> work;
    LocalTensor<float> pair;

    GlobalTensor<Element> logits;
    uint64_t rowStart;
    LocalTensor<int32_t> stops;
    uint32_t bans;  // how many columns of `stops` are looked at
    float inverse;  // of the temperature
    bool isFiltered;  // candidates are kept
    uint32_t wanted;  // top-k, or COLUMNS
    uint32_t rank;    // of the last candidate that matters

    bool isBroken;  // a stop token that is not allowed yet was no number
    float maximum;
    uint32_t best;  // its first place
    float total;    // of the weights relative to the maximum
    float threshold;  // what is not larger is no candidate any more
    uint32_t seen;    // candidates
    uint32_t waiting;  // of them not sorted, with fillers

    __aicore__ inline void Init(TPipe& pipe, const GlobalTensor<Element>& rows) {
        pipe.InitBuffer(countQueue, 1, 16384);
        pipe.InitBuffer(sortedBuffer, 12288);
        sorted = sortedBuffer.Get<float>();
        pipe.InitBuffer(mergedBuffer, 20480);
        merged = mergedBuffer.Get<float>();
        pipe.InitBuffer(keptBuffer, 8192);
        kept = keptBuffer.Get<float>();
        pipe.InitBuffer(newValuesBuffer, 22528);
        newValues = newValuesBuffer.Get<float>();
        pipe.InitBuffer(newIdsBuffer, 22528);
        newIds = newIdsBuffer.Get<int32_t>();
        pipe.InitBuffer(weightsBuffer, 16384);
        weights = weightsBuffer.Get<float>();
        pipe.InitBuffer(indexBuffer, 16384);
        index = indexBuffer.Get<int32_t>();
        pipe.InitBuffer(bitsBuffer, 512);
        bits = bitsBuffer.Get<uint8_t>();
        pipe.InitBuffer(maximaBuffer, 128);
        maxima = maximaBuffer.Get<float>();
        pipe.InitBuffer(sumsBuffer, 128);
        sums = sumsBuffer.Get<float>();
        pipe.InitBuffer(massesBuffer, 128);
        masses = massesBuffer.Get<float>();
        pipe.InitBuffer(workBuffer, 576);
        work = workBuffer.Get<float>();
        pipe.InitBuffer(pairBuffer, 32);
        pair = pairBuffer.Get<float>();
        pipe.InitBuffer(logitQueue, 2, 8192);
        pipe.InitBuffer(valuesBuffer, 16384);
        values = valuesBuffer.Get<float>();
        logits = rows;
        CreateVecIndex(index, static_cast<int32_t>(0), TILE);
        Duplicate(weights, 0.0f, static_cast<int32_t>(TILE));
        Duplicate(newValues, 0.0f, static_cast<int32_t>(TILE));
    }

    __aicore__ inline uint32_t CountOf(uint32_t start) const {
        return start + TILE < COLUMNS ? TILE : COLUMNS - start;
    }

    // Starts the copy of a tile; one tile is on its way while another is worked on.
    __aicore__ inline void FetchLogits(uint32_t start) {
        LocalTensor<Element> next = logitQueue.AllocTensor<Element>();
        CopyIn(next, logits[rowStart + start], 1, CountOf(start) * ELEMENT_BYTES, 0, 0);
        logitQueue.EnQue(next);
    }

    // Starts with a tile: what else belongs to it is fetched, too.
    __aicore__ inline void Fetch(uint32_t start) {
        FetchLogits(start);
        if (isPenalised) {
            FetchCounts(start);
        }
    }

    // Takes the tile that was fetched last, and fetches the next one if there is one and `more`.
    __aicore__ inline uint32_t Load(uint32_t start, bool more) {
        tile = logitQueue.DeQue<Element>();
        const bool isNext = more && start + TILE < COLUMNS;
        if (isNext) {
            FetchLogits(start + TILE);
        }
        const uint32_t count = CountOf(start);
        Cast(values, tile, RoundMode::CAST_NONE, count);
        if (isPenalised) {
            Penalise(start, count);
            if (isNext) {
                FetchCounts(start + TILE);
            }
        }
        for (uint32_t i = 0; i < bans; ++i) {
            const int32_t place = stops.GetValue(i) - static_cast<int32_t>(start);
            if (place >= 0 && place < static_cast<int32_t>(count)) {
                if (!(values.GetValue(place) < INFINITE)) {
                    isBroken = true;
                }
                values.SetValue(place, LOWEST);
            }
        }
        return count;
    }

    __aicore__ inline float Sum(const LocalTensor<float>& from, uint32_t count) {
        ReduceSum(pair, from, work, static_cast<int32_t>(count));
        return pair.GetValue(0);
    }

    // exp((x - reference) / temperature)
    __aicore__ inline void Weigh(const LocalTensor<float>& to, const LocalTensor<float>& from,
                                 float reference, uint32_t elements) {
        const int32_t count = static_cast<int32_t>(elements);
        Adds(to, from, -reference, count);
        Muls(to, to, inverse, count);
        Exp(to, to, count);
    }

    // Moves what compares like that to the front of `to`; `bits` stay.
    __aicore__ inline uint32_t Take(const LocalTensor<float>& to, const LocalTensor<float>& from,
                                    CMPMODE mode, float bound, uint32_t count) {
        CompareScalar(bits, from, bound, mode, (count + 63) / 64 * 64);
        return Compact(to, from, count);
    }

    template <typename T>
    __aicore__ inline uint32_t Compact(const LocalTensor<T>& to, const LocalTensor<T>& from,
                                       uint32_t count) {
        GatherMaskParams gather;
        gather.repeatTimes = 1;
        gather.src0BlockStride = 1;
        gather.src0RepeatStride = 8;
        gather.src1RepeatStride = 1;
        uint64_t found = 0;
        GatherMask(to, from, bits.ReinterpretCast<uint32_t>(), true, count, gather, found);
        return static_cast<uint32_t>(found);
    }

    // The first of `size` weights (8 times a power of two) at which their sum exceeds `target`, or
    // reaches it if `reaching`; if rounding leaves none, the last weight above 0.
    __aicore__ inline uint32_t Find(const LocalTensor<float>& from, uint32_t size, float target,
                                    bool reaching) {
        uint32_t place = 0;
        float before = 0.0f;
        for (uint32_t half = size / 2; half >= 8; half /= 2) {
            const float left = before + Sum(from[place], half);
            if (left > target || (reaching && left == target)) {
                continue;
            }
            if (Sum(from[place + half], half) > 0.0f) {
                before = left;
                place += half;
            }
        }
        uint32_t last = place;
        for (uint32_t i = 0; i < 8; ++i) {
            const float weight = from.GetValue(place + i);
            if (weight > 0.0f) {
                last = place + i;
                before += weight;
                if (before > target || (reaching && before == target)) {
                    break;
                }
            }
        }
        return last;
    }

    // The one pass: maximum, weights of each tile relative to its own maximum, and the best
    // candidates.
    __aicore__ inline void Scan() {
        isBroken = false;
        maximum = LOWEST;
        best = 0;
        threshold = LOWEST;
        seen = 0;
        waiting = 0;
        if (isFiltered) {
            Duplicate(kept, LOWEST, static_cast<int32_t>(2 * KEPT));
        }
        Fetch(0);
        for (uint32_t start = 0, i = 0; start < COLUMNS; start += TILE, ++i) {
            const uint32_t count = Load(start, true);
            ReduceMax(pair, values, work, static_cast<int32_t>(count), true);
            const float largest = pair.GetValue(0);
            if (largest > maximum) {
                maximum = largest;
                best = start + pair.ReinterpretCast<uint32_t>().GetValue(1);
            }
            maxima.SetValue(i, largest);
            const float reference = largest > LOWEST ? largest : 0.0f;
            Weigh(weights, values, reference, count);
            ReduceSum(sums[i], weights, work, static_cast<int32_t>(count));
            if (isFiltered && largest > threshold) {
                const uint32_t head = threshold > LOWEST || count < CHUNK ? 0 : CHUNK;
                Filter(start, 0, head);  // the first ones leave fewer of the others
                Filter(start, head, count - head);
            }
            logitQueue.FreeTensor(tile);
        }
        if (waiting > 0) {
            Keep(0, waiting);
        }
        total = Spread(sums);
    }

    // Masses of the tiles, relative to the maximum, from sums relative to their own; all together.
    __aicore__ inline float Spread(const LocalTensor<float>& parts) {
        Weigh(masses, maxima, maximum, TILES);
        Mul(masses, masses, parts, static_cast<int32_t>(TILES));
        return Sum(masses, TILES);
    }

    // Candidates of a part of a tile; they follow those before in the order of ids.
    __aicore__ inline void Filter(uint32_t start, uint32_t from, uint32_t count) {
        const uint32_t found =
            Take(newValues[waiting], values[from], CMPMODE::GT, threshold, count);
        Compact(newIds[waiting], index[from], count);
        const int32_t offset = static_cast<int32_t>(start);
        Adds(newIds[waiting], newIds[waiting], offset, static_cast<int32_t>(found));
        seen += found;
        waiting = Fill(waiting + found, (waiting + found + 7) / 8 * 8);
        uint32_t first = 0;
        for (; waiting - first >= CHUNK; first += CHUNK) {
            Keep(first, CHUNK);
        }
        if (first > 0) {
            waiting -= first;
            if (waiting > 0) {
                DataCopy(newValues, newValues[first], waiting);
                DataCopy(newIds, newIds[first], waiting);
            }
        }
    }

    // Fills up with what is never kept.
    __aicore__ inline uint32_t Fill(uint32_t from, uint32_t to) {
        for (; from < to; ++from) {
            newValues.SetValue(from, LOWEST);
            newIds.SetValue(from, 0);
        }
        return to;
    }

    // Sorts up to CHUNK candidates and merges them with the kept ones, which stand first: among
    // equal
    // values the lower id wins.
    __aicore__ inline void Keep(uint32_t first, uint32_t count) {
        const uint32_t lists = (count + LIST - 1) / LIST;
        const int32_t missing = static_cast<int32_t>(lists * LIST - count);
        Duplicate(newValues[count], LOWEST, missing);  // only those of the last call, at the front
        Duplicate(newIds[count], 0, missing);
        Sort32(sorted, newValues[first], newIds[first].ReinterpretCast<uint32_t>(),
               lists * LIST / 32);
        MergeSets(merged, sorted, LIST / 16, lists * 4);
        MergeSets(sorted, merged, LIST / 4, lists);
        MrgSort4Info merge;
        for (uint32_t i = 0; i < 4; ++i) {
            merge.elementLengths[i] = static_cast<uint16_t>(i == 0 ? KEPT : i <= lists ? LIST : 0);
        }
        merge.ifExhaustedSuspension = false;
        merge.validBit = static_cast<uint16_t>((2 << lists) - 1);
        merge.repeatTimes = 1;
        MrgSortSrcList<float> source;
        source.src1 = kept;
        source.src2 = sorted;
        source.src3 = sorted[2 * LIST];
        source.src4 = sorted[4 * LIST];
        MrgSort(merged, source, merge);
        DataCopy(kept, merged, 2 * KEPT);
        threshold = kept.GetValue(2 * rank - 2);
    }

    // Whether the pass found numbers to choose by.
    __aicore__ inline bool IsChoosable() {
        return !isBroken && maximum > LOWEST && maximum < INFINITE && total > 0.0f && !IsZero();
    }

    // Whether the row is all zeros; read again only if it may be.
    __aicore__ inline bool IsZero() {
        bool zero = maximum == 0.0f && !(total + bans < COLUMNS);
        zero = isPenalised ? isBlank : zero;
        if (!zero) {
            return false;
        }
        const uint32_t banned = bans;
        bans = 0;
        const bool penalised = isPenalised;
        isPenalised = false;
        Fetch(0);
        for (uint32_t start = 0; start < COLUMNS; start += TILE) {
            const int32_t count = static_cast<int32_t>(Load(start, true));
            ReduceMax(pair, values, work, count);
            zero = zero && pair.GetValue(0) == 0.0f;
            ReduceMin(pair, values, work, count);
            zero = zero && pair.GetValue(0) == 0.0f;
            logitQueue.FreeTensor(tile);
        }
        bans = banned;
        isPenalised = penalised;
        return zero;
    }

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
            inverse =
                temperature < 1e-30f ? 1e30f : temperature > 1e30f ? 1e-30f : 1.0f / temperature;
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

    float remaining;  // mass of what filters leave
    bool isWhole;  // all that they leave is kept
    uint32_t prefix;  // how many of the kept ones they leave then
    Cut end;  // otherwise
    bool isSorted;  // by id: the kept ones

    // Finds what filters leave.
    __aicore__ inline void Settle() {
        remaining = total;
        isSorted = false;
        if (!isCut) {
            return;
        }
        const bool isNucleus = topP < 1.0f;
        prefix = seen < KEPT ? seen : KEPT;
        isWhole = COLUMNS <= KEPT || !(threshold > LOWEST);  // nothing was dropped
        end.low = LEAST;
        end.high = LEAST;
        end.ties = 0;
        end.tokens = COLUMNS;
        end.mass = total;
        if (!isWhole && wanted > prefix && wanted < COLUMNS) {
            end = Border(wanted, 0.0f);
        }
        Unzip(newValues, kept, 1);
        Weigh(weights, newValues, maximum, KEPT);
        if (wanted <= prefix) {
            prefix = wanted;
            isWhole = true;
            end.mass = Sum(weights, prefix);
        }
        const float target = topP * end.mass;
        if (isNucleus && Sum(weights, prefix) >= target) {
            const uint32_t reached = Find(weights, KEPT, target, true) + 1;
            prefix = reached < prefix ? reached : prefix;
            isWhole = true;
        }
        if (minP > 0.0f) {
            uint32_t low = 1;  // the first is always kept
            for (uint32_t high = prefix; low < high;) {
                const uint32_t middle = (low + high + 1) / 2;
                if (weights.GetValue(middle - 1) >= minP) {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            isWhole = isWhole || low < prefix;
            prefix = low;
        }
        if (isWhole) {
            remaining = Sum(weights, prefix);
            return;
        }
        if (isNucleus) {
            const Cut nucleus = Border(COLUMNS, target);
            end = nucleus.tokens < end.tokens ? nucleus : end;
        }
        MeasureTiles();
    }

    // Draws from what filters leave.
    __aicore__ inline int32_t Draw(float u) {
        if (isCut) {
            return isWhole ? ChooseKept(u * remaining) : ChooseBeyond(masses, u * remaining);
        }
        return ChooseAny(sums, u * remaining);
    }

    // Draws from everything: a tile by the masses, then a place in it, read once more; `parts` are
    // sums of weights relative to the tiles' own maxima.
    __aicore__ inline int32_t ChooseAny(const LocalTensor<float>& parts, float target) {
        float before = 0.0f;
        const uint32_t chosen = ChooseTile(masses, target, before);
        const uint32_t start = chosen * TILE;
        const float rest = (target - before) * (parts.GetValue(chosen) / masses.GetValue(chosen));
        Fetch(start);
        const uint32_t count = Load(start, false);
        Duplicate(weights, 0.0f, static_cast<int32_t>(TILE));
        Weigh(weights, values, maxima.GetValue(chosen), count);
        logitQueue.FreeTensor(tile);
        return static_cast<int32_t>(start + Find(weights, TILE, rest, false));
    }

    // The tile at which the masses exceed `target`; `before`: those of the tiles before it.
    __aicore__ inline uint32_t ChooseTile(const LocalTensor<float>& parts, float target,
                                          float& before) {
        uint32_t chosen = 0;
        float sum = 0.0f;
        for (uint32_t i = 0; i < TILES; ++i) {
            const float part = parts.GetValue(i);
            if (part > 0.0f) {
                chosen = i;
                before = sum;
                sum += part;
                if (sum > target) {
                    break;
                }
            }
        }
        return chosen;
    }

    // Draws from the first `prefix` kept ones in the order of ids.
    __aicore__ inline int32_t ChooseKept(float target) {
        SortKept();
        return newIds.GetValue(Find(weights, KEPT, target, false));
    }

    // Brings the kept ones into the order of ids: `newIds`, and `weights`, 0 from `prefix` on.
    __aicore__ inline void SortKept() {
        if (!isSorted) {
            isSorted = true;
            const uint32_t whole = (prefix + 7) / 8 * 8;
            for (uint32_t i = prefix; i < whole; ++i) {
                weights.SetValue(i, 0.0f);
            }
            Duplicate(weights[whole], 0.0f, static_cast<int32_t>(KEPT - whole));
            Unzip(newIds, kept.ReinterpretCast<int32_t>(), 2);
            Cast(newValues, newIds, RoundMode::CAST_NONE, KEPT);
            Muls(newValues, newValues, -1.0f, static_cast<int32_t>(KEPT));
            Sort32(sorted, newValues, weights.ReinterpretCast<uint32_t>(), KEPT / 32);
            MergeSets(merged, sorted, LIST / 16, KEPT / LIST * 4);
            MergeSets(sorted, merged, LIST / 4, KEPT / LIST);
            MergeLists(merged, sorted, 2 * LIST, LIST, KEPT);
            Unzip(newValues, merged, 1);
            Muls(newValues, newValues, -1.0f, static_cast<int32_t>(KEPT));
            Cast(newIds, newValues, RoundMode::CAST_RINT, KEPT);
        }
        Unzip(weights, merged, 2);
    }

    // How many logits are at least `least`, and their mass, in one more read of the row.
    __aicore__ inline void Measure(float least, uint32_t& tokens, float& mass) {
        tokens = 0;
        mass = 0.0f;
        Fetch(0);
        for (uint32_t start = 0; start < COLUMNS; start += TILE) {
            const uint32_t count = Load(start, true);
            const uint32_t found = Take(newValues, values, CMPMODE::GE, least, count);
            if (found > 0) {
                Weigh(weights, newValues, maximum, found);
                mass += Sum(weights, found);
                tokens += found;
            }
            logitQueue.FreeTensor(tile);
        }
    }

    // Numbers that float has, in their order, as integers.
    __aicore__ inline int64_t RankOf(float value) {
        pair.SetValue(0, value);
        const int64_t bits = pair.ReinterpretCast<int32_t>().GetValue(0);
        return bits >= 0 ? bits : -0x80000000ll - bits;
    }

    __aicore__ inline float OfRank(int64_t rank) {
        const int64_t bits = rank >= 0 ? rank : -0x80000000ll - rank;
        pair.ReinterpretCast<int32_t>().SetValue(0, static_cast<int32_t>(bits));
        return pair.GetValue(0);
    }

    // The shortest prefix of all logits that has `tokensWanted` tokens, or the mass `wantedMass` if
    // that is above 0, by bisection on the value, a read per step. It ends at the threshold or
    // below.
    __aicore__ inline Cut Border(uint32_t tokensWanted, float wantedMass) {
        Cut cut;
        cut.low = LEAST;
        cut.high = INFINITE;
        cut.mass = total;
        uint32_t above = 0;  // of `high`, which is too few
        float aboveMass = 0.0f;
        uint32_t within = COLUMNS;  // of `low`, which is enough
        float middle = threshold;
        float step = 1.0f / inverse;
        for (uint32_t pass = 0; pass < HALVINGS + 33; ++pass) {
            uint32_t tokens = 0;
            float mass = 0.0f;
            Measure(middle, tokens, mass);
            if (wantedMass > 0.0f ? mass >= wantedMass : tokens >= tokensWanted) {
                cut.low = middle;
                cut.mass = mass;
                within = tokens;
                if (pass == 0) {
                    cut.high = OfRank(RankOf(threshold) + 1);
                    Measure(cut.high, above, aboveMass);
                }
            } else {
                cut.high = middle;
                above = tokens;
                aboveMass = mass;
            }
            const float reach = cut.high - step;
            step *= 4.0f;
            middle = cut.low > LEAST ? cut.low + (cut.high - cut.low) * 0.5f : reach;
            if (pass >= HALVINGS || !(cut.low < middle && middle < cut.high)) {
                middle = OfRank((RankOf(cut.low) + RankOf(cut.high)) >> 1);
            }
            if (within - above <= 1 || !(cut.low < middle && middle < cut.high)) {
                break;
            }
        }
        // What is between `low` and `high` has one value.
        Duplicate(weights, cut.low, 8);
        Weigh(weights, weights, maximum, 8);
        const float weight = weights.GetValue(0);
        const uint32_t equal = within - above;
        cut.ties = tokensWanted - above;
        if (wantedMass > 0.0f) {
            const float missing = (wantedMass - aboveMass) / weight;
            cut.ties = equal;
            if (missing < static_cast<float>(equal)) {
                cut.ties =
                    static_cast<uint32_t>(static_cast<int32_t>(missing > 0.0f ? missing : 0.0f));
                cut.ties += aboveMass + static_cast<float>(cut.ties) * weight < wantedMass;
            }
        }
        if (cut.ties < equal) {
            cut.mass = aboveMass + static_cast<float>(cut.ties) * weight;
        } else {
            cut.ties = equal;
        }
        cut.tokens = above + cut.ties;
        return cut;
    }

    // Weights of a tile's logits that are left, at the front of `weights`, and their ids within the
    // tile in `newIds`; `ties` is how many of those between `low` and `high` are still to come.
    __aicore__ inline uint32_t Prefix(uint32_t start, uint32_t count, uint32_t& ties) {
        const uint32_t found = Take(newValues, values, CMPMODE::GE, end.low, count);
        Compact(newIds, index, count);
        if (found == 0) {
            return 0;
        }
        Weigh(weights, newValues, maximum, found);
        if (end.low < end.high) {
            LocalTensor<int32_t> places = merged.ReinterpretCast<int32_t>();
            CompareScalar(bits, newValues, end.high, CMPMODE::LT, (found + 63) / 64 * 64);
            const uint32_t equal = Compact(places, index, found);
            for (uint32_t i = ties; i < equal; ++i) {
                weights.SetValue(places.GetValue(i), 0.0f);
            }
            const uint32_t taken = equal < ties ? equal : ties;
            ties -= taken;
        }
        CompareScalar(bits, weights, minP, CMPMODE::GE, (found + 63) / 64 * 64);
        Select(weights, bits, weights, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, found);
        return found;
    }

    // Masses of the tiles of a prefix that is longer than what was kept, and the ties before each.
    __aicore__ inline void MeasureTiles() {
        uint32_t left = end.ties;
        remaining = 0.0f;
        Fetch(0);
        for (uint32_t start = 0, i = 0; start < COLUMNS; start += TILE, ++i) {
            const uint32_t count = Load(start, true);
            sums.SetValue(i, static_cast<float>(static_cast<int32_t>(left)));
            const uint32_t found = Prefix(start, count, left);
            const float part = found > 0 ? Sum(weights, found) : 0.0f;
            masses.SetValue(i, part);
            remaining += part;
            logitQueue.FreeTensor(tile);
        }
    }

    // Draws from such a prefix: a tile by masses, then a place in it.
    __aicore__ inline int32_t ChooseBeyond(const LocalTensor<float>& parts, float target) {
        float before = 0.0f;
        const uint32_t chosen = ChooseTile(parts, target, before);
        uint32_t left = static_cast<uint32_t>(static_cast<int32_t>(sums.GetValue(chosen)));
        const uint32_t start = chosen * TILE;
        Fetch(start);
        const uint32_t count = Load(start, false);
        Duplicate(weights, 0.0f, static_cast<int32_t>(TILE));
        const uint32_t found = Prefix(start, count, left);
        logitQueue.FreeTensor(tile);
        const uint32_t place = Find(weights, TILE, target - before, false);
        return static_cast<int32_t>(start) + newIds.GetValue(place);
    }

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
};

extern "C" __global__ __aicore__ void sample_tokens(GM_ADDR logits, GM_ADDR options, GM_ADDR state,
                                                    GM_ADDR stop_ids, GM_ADDR positions,
                                                    GM_ADDR row_request, GM_ADDR counts,
                                                    GM_ADDR tokens, GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> logitsGm;
    logitsGm.SetGlobalBuffer((__gm__ bfloat16_t*)logits, 8273920);
    GlobalTensor<float> optionsGm;
    optionsGm.SetGlobalBuffer((__gm__ float*)options, 512);
    GlobalTensor<int32_t> stateGm;
    stateGm.SetGlobalBuffer((__gm__ int32_t*)state, 512);
    GlobalTensor<int32_t> stop_idsGm;
    stop_idsGm.SetGlobalBuffer((__gm__ int32_t*)stop_ids, 256);
    GlobalTensor<int32_t> positionsGm;
    positionsGm.SetGlobalBuffer((__gm__ int32_t*)positions, 64);
    GlobalTensor<int32_t> row_requestGm;
    row_requestGm.SetGlobalBuffer((__gm__ int32_t*)row_request, 64);
    GlobalTensor<int32_t> countsGm;
    countsGm.SetGlobalBuffer((__gm__ int32_t*)counts, 129280);
    GlobalTensor<int32_t> tokensGm;
    tokensGm.SetGlobalBuffer((__gm__ int32_t*)tokens, 64);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(0));
    const uint32_t share = (rows + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    if (first >= rows) {
        return;
    }
    const uint32_t last = first + share < rows ? first + share : rows;
    const uint32_t base = first;
    const uint32_t count = last - first;
    TPipe pipe;
    Sampler sampler;
    sampler.Init(pipe, logitsGm);
    sampler.CountIn(countsGm);
    TQue<TPosition::VECIN, 1> positionQueue;
    pipe.InitBuffer(positionQueue, 1, 32);
    TQue<TPosition::VECIN, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 32);
    TQue<TPosition::VECIN, 1> requestQueue;
    pipe.InitBuffer(requestQueue, 1, 160);
    TQue<TPosition::VECOUT, 1> tokenQueue;
    pipe.InitBuffer(tokenQueue, 1, 32);
    LocalTensor<int32_t> positionsLocal = positionQueue.AllocTensor<int32_t>();
    CopyIn(positionsLocal, positionsGm[base], 1, count * 4, 0, 0);
    positionQueue.EnQue(positionsLocal);
    positionsLocal = positionQueue.DeQue<int32_t>();
    LocalTensor<int32_t> placesLocal = placeQueue.AllocTensor<int32_t>();
    CopyIn(placesLocal, row_requestGm[base], 1, count * 4, 0, 0);
    placeQueue.EnQue(placesLocal);
    placesLocal = placeQueue.DeQue<int32_t>();
    LocalTensor<int32_t> tokensLocal = tokenQueue.AllocTensor<int32_t>();
    for (uint32_t start = base; start < last; ++start) {
        const uint64_t place = static_cast<uint64_t>(placesLocal.GetValue(start - base));
        LocalTensor<int32_t> request = requestQueue.AllocTensor<int32_t>();
        CopyIn(request, stateGm[place * STATE_COLUMNS], 1, STATE_COLUMNS * 4, 0, 0);
        CopyIn(request[STOPS], stop_idsGm[place * STOP_COLUMNS], 1, STOP_COLUMNS * 4, 0, 0);
        LocalTensor<float> options = request[OPTIONS].ReinterpretCast<float>();
        CopyIn(options, optionsGm[place * OPTION_COLUMNS], 1, OPTION_COLUMNS * 4, 0, 0);
        requestQueue.EnQue(request);
        request = requestQueue.DeQue<int32_t>();
        sampler.Begin(request);
        sampler.rowStart = static_cast<uint64_t>(start) * COLUMNS;
        tokensLocal.SetValue(start - base, sampler.Sample(positionsLocal.GetValue(start - base)));
        requestQueue.FreeTensor(request);
    }
    tokenQueue.EnQue(tokensLocal);
    tokensLocal = tokenQueue.DeQue<int32_t>();
    CopyOut(tokensGm[first], tokensLocal, 1, (last - first) * 4, 0, 0);
    tokenQueue.FreeTensor(tokensLocal);
    placeQueue.FreeTensor(placesLocal);
    positionQueue.FreeTensor(positionsLocal);
}
