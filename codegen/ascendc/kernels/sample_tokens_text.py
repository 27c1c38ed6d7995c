"""The Ascend C text of `sample_tokens`: random numbers, and the one pass over a row.

Some lines are those of one variant of the text, see `variant`.
"""

PENALTIES = "$"
"""Marks lines of kernels that know penalties."""
COUPLING = "@"
"""Marks lines of kernels that couple tokens with drafts."""
ALONE = "&"
"""Marks lines of kernels that do not."""


def variant(text: str, marks: str) -> list[str]:
    """Return the lines that have no mark, and those whose mark is one of ``marks``."""
    chosen: list[str] = []
    for line in text.splitlines():
        mark = line[:1]
        if mark and mark in PENALTIES + COUPLING + ALONE:
            if mark not in marks:
                continue
            line = line[1:]  # noqa: PLW2901
        chosen.append(line)
    return chosen


UNIFORM = """\
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
"""

SORTING = """\
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
"""

MEMBERS = """\
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
"""

LOADING = """\
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
$    if (isPenalised) {
$        FetchCounts(start);
$    }
}

// Takes the tile that was fetched last, and fetches the next one if there is one and `more`.
__aicore__ inline uint32_t Load(uint32_t start, bool more) {
    tile = logitQueue.DeQue<Element>();
    const bool isNext = more && start + TILE < COLUMNS;
    if (isNext) {
        FetchLogits(start + TILE);
    }
    const uint32_t count = CountOf(start);
    %VALUES%
$    if (isPenalised) {
$        Penalise(start, count);
$        if (isNext) {
$            FetchCounts(start + TILE);
$        }
$    }
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
"""

SCANNING = """\
// The one pass: maximum, weights of each tile relative to its own maximum, and the best candidates.
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
@        if (recorded > 0) {
@            Note(start, count, i, reference);
@        }
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
    const uint32_t found = Take(newValues[waiting], values[from], CMPMODE::GT, threshold, count);
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

// Sorts up to CHUNK candidates and merges them with the kept ones, which stand first: among equal
// values the lower id wins.
__aicore__ inline void Keep(uint32_t first, uint32_t count) {
    const uint32_t lists = (count + LIST - 1) / LIST;
    const int32_t missing = static_cast<int32_t>(lists * LIST - count);
    Duplicate(newValues[count], LOWEST, missing);  // only those of the last call, at the front
    Duplicate(newIds[count], 0, missing);
    Sort32(sorted, newValues[first], newIds[first].ReinterpretCast<uint32_t>(), lists * LIST / 32);
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
$    zero = isPenalised ? isBlank : zero;
    if (!zero) {
        return false;
    }
    const uint32_t banned = bans;
    bans = 0;
$    const bool penalised = isPenalised;
$    isPenalised = false;
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
$    isPenalised = penalised;
    return zero;
}
"""
