"""The Ascend C text of `sample_tokens` with drafts: tokens that are coupled with them.

The formulas are those of `ascendfx.ir.draft_acceptance`, times the mass of what filters leave, so
that nothing is normalised. Recorded tokens, from which a draft was drawn, are told from the others
as they are read, and what the others weigh together is summed without them: it is no difference.
"""

RECORDING = """\
LocalTensor<int32_t> recordIds;  // tokens that a draft was drawn from
LocalTensor<float> recordShares;  // their probabilities
LocalTensor<float> records;  // sorted by id: negative id, place
LocalTensor<float> noted;  // their logits
LocalTensor<float> shares;  // their weights, relative to the maximum
LocalTensor<float> lefts;  // of them, what is left of the block's prefix
LocalTensor<float> others;  // per tile: sums or masses of what is not recorded
LocalTensor<float> moments;

GlobalTensor<int32_t> draftIds;
GlobalTensor<float> draftProbs;
LocalTensor<int32_t> drafts;  // tokens of the place's rows
uint64_t recordStart;  // of the place
uint32_t earlier;  // drafts in the rows before a row
uint32_t recorded;
uint32_t next;  // of them, by id, that the pass has not met
uint32_t drawn;  // place of the draft among them
bool hides;  // recorded tokens are not drawn
int32_t lastTie;  // of a prefix that ends between equal logits

uint32_t verification;
uint32_t drafted;
uint32_t ranks;
float limit;
float scale;

uint32_t accepted;  // drafts that a block takes
bool isOver;  // no further row of the block can be its last
float carried;  // the block's prefix up to here

__aicore__ inline void RecordIn(const GlobalTensor<int32_t>& ids,
                                const GlobalTensor<float>& probs) {
    draftIds = ids;
    draftProbs = probs;
}

__aicore__ inline void BeginPlace(uint64_t place, const LocalTensor<int32_t>& ids,
                                  uint32_t rows) {
    drafts = ids;
    drafted = drafted < rows ? drafted : rows - 1;
    recordStart = place * ((ROWS - 1) * TABLE_COLUMNS);
    accepted = 0;
    isOver = false;
    carried = 1.0f;
}

// Takes up how a request wants drafts verified. A greedy one that rejects, or takes a block, has
// the best token anyhow: its p is certain.
__aicore__ inline void BeginDrafts(const LocalTensor<int32_t>& request,
                                   const LocalTensor<float>& options) {
    const uint32_t valid = static_cast<uint32_t>(request.GetValue(DRAFTED));
    drafted = valid < ROWS ? valid : ROWS - 1;
    verification = static_cast<uint32_t>(static_cast<int32_t>(options.GetValue(VERIFICATION)));
    if (isGreedy && (verification == REJECTION || verification == BLOCK)) {
        verification = EXACT;
    }
    limit = options.GetValue(THRESHOLD);
    scale = options.GetValue(SCALE);
    const float most = options.GetValue(RANKS);
    ranks = most < KEPT ? static_cast<uint32_t>(static_cast<int32_t>(most)) : KEPT;
    if (verification == RELAXED && ranks > 0) {
        rank = isCut && rank > ranks ? rank : ranks;
        isFiltered = true;
    }
}

// Counts the drafts before a row as emitted.
__aicore__ inline void CountDrafts(const LocalTensor<int32_t>& known, uint32_t start,
                                   uint32_t count) {
    for (uint32_t i = 1; i <= earlier; ++i) {
        const int32_t place = drafts.GetValue(i) - static_cast<int32_t>(start);
        if (place >= 0 && place < static_cast<int32_t>(count)) {
            known.SetValue(place, known.GetValue(place) + 2);
        }
    }
}

// Collects what the draft behind row `i` was drawn from; a draft that is not there was certain.
__aicore__ inline void Record(uint32_t i) {
    const int32_t draft = drafts.GetValue(i + 1);
    bool isKnown = false;
    recorded = 0;
    Duplicate(recordIds, static_cast<int32_t>(NO_ID), static_cast<int32_t>(DRAFT_CANDIDATES));
    Duplicate(recordShares, 0.0f, static_cast<int32_t>(DRAFT_CANDIDATES));
    Duplicate(noted, LOWEST, static_cast<int32_t>(DRAFT_CANDIDATES));
    if (verification == REJECTION || verification == BLOCK) {
        LocalTensor<int32_t> table = draftQueue.AllocTensor<int32_t>();
        const uint64_t from = recordStart + i * TABLE_COLUMNS;
        CopyIn(table, draftIds[from], 1, TABLE_COLUMNS * 4, 0, 0);
        LocalTensor<float> given = table[DRAFT_CANDIDATES].ReinterpretCast<float>();
        CopyIn(given, draftProbs[from], 1, TABLE_COLUMNS * 4, 0, 0);
        draftQueue.EnQue(table);
        table = draftQueue.DeQue<int32_t>();
        for (uint32_t j = 0; j < TABLE_COLUMNS; ++j) {
            const int32_t id = table.GetValue(j);
            const float share = given.GetValue(j);
            if (id >= 0 && share > 0.0f) {
                if (id == draft) {
                    isKnown = true;
                    drawn = recorded;
                }
                recordIds.SetValue(recorded, id);
                recordShares.SetValue(recorded, share);
                recorded += 1;
            }
        }
        draftQueue.FreeTensor(table);
    }
    if (!isKnown) {
        Duplicate(recordIds, static_cast<int32_t>(NO_ID), static_cast<int32_t>(DRAFT_CANDIDATES));
        Duplicate(recordShares, 0.0f, static_cast<int32_t>(DRAFT_CANDIDATES));
        recordIds.SetValue(0, draft);
        recordShares.SetValue(0, 1.0f);
        recorded = 1;
        drawn = 0;
    }
    next = 0;
    Cast(shares, recordIds, RoundMode::CAST_NONE, DRAFT_CANDIDATES);
    Muls(shares, shares, -1.0f, static_cast<int32_t>(DRAFT_CANDIDATES));
    Sort32(records, shares, index.ReinterpretCast<uint32_t>(), 1);
}

// Place of the recorded token that is number `i` by id.
__aicore__ inline uint32_t ById(uint32_t i) const {
    return records.ReinterpretCast<uint32_t>().GetValue(2 * i + 1);
}

// Notes the logits of recorded tokens in a tile; without filters, sums the others' weights.
__aicore__ inline void Note(uint32_t start, uint32_t count, uint32_t i, float reference) {
    if (verification == TYPICAL) {
        AddMoment(count, i, reference);
    }
    others.SetValue(i, sums.GetValue(i));
    const uint32_t first = next;
    for (; next < recorded; ++next) {
        const uint32_t place = ById(next);
        const uint32_t id = static_cast<uint32_t>(recordIds.GetValue(place));
        if (id >= start + count) {
            break;
        }
        noted.SetValue(place, values.GetValue(id - start));
        weights.SetValue(id - start, 0.0f);
    }
    if (next > first && !isCut) {
        ReduceSum(others[i], weights, work, static_cast<int32_t>(count));
    }
}
"""

HIDING = """\
// Weights of recorded tokens; 0 where filters leave them out.
__aicore__ inline void Share() {
    for (uint32_t i = 0; i < recorded; ++i) {
        if (!IsLeft(noted.GetValue(i), recordIds.GetValue(i), shares.GetValue(i))) {
            shares.SetValue(i, 0.0f);
        }
    }
}

__aicore__ inline bool IsLeft(float value, int32_t id, float weight) const {
    if (!isCut) {
        return true;
    }
    if (isWhole) {
        const float last = kept.GetValue(2 * prefix - 2);
        const int32_t lastId = kept.ReinterpretCast<int32_t>().GetValue(2 * prefix - 1);
        return value > last || (value == last && id <= lastId);
    }
    return weight >= minP && (value >= end.high || (value >= end.low && id <= lastTie));
}

// Takes the weights of recorded tokens from a tile.
__aicore__ inline void Hide(uint32_t start, uint32_t count) {
    for (uint32_t i = 0; i < recorded; ++i) {
        const int32_t place = recordIds.GetValue(i) - static_cast<int32_t>(start);
        if (place >= 0 && place < static_cast<int32_t>(count)) {
            weights.SetValue(place, 0.0f);
        }
    }
}

// Takes them from the first `found` weights, those of the ascending `newIds` behind `start`.
__aicore__ inline void HideAmong(uint32_t start, uint32_t count, uint32_t found) {
    for (uint32_t i = 0; i < recorded; ++i) {
        const int32_t id = recordIds.GetValue(i) - static_cast<int32_t>(start);
        if (id < 0 || id >= static_cast<int32_t>(count)) {
            continue;
        }
        uint32_t low = 0;
        for (uint32_t high = found; low < high;) {
            const uint32_t middle = (low + high) / 2;
            if (newIds.GetValue(middle) < id) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low < found && newIds.GetValue(low) == id) {
            weights.SetValue(low, 0.0f);
        }
    }
}

// Hides recorded tokens from what is drawn; returns the mass of the others.
__aicore__ inline float HideRecorded() {
    hides = true;
    if (!isCut) {
        return Spread(others);
    }
    if (!isWhole) {
        return Sum(others, TILES);
    }
    SortKept();
    HideAmong(0, COLUMNS, KEPT);
    return Sum(weights, KEPT);
}

__aicore__ inline int32_t DrawOthers(float target) {
    if (!isCut) {
        return ChooseAny(others, target);
    }
    if (!isWhole) {
        return ChooseBeyond(others, target);
    }
    return newIds.GetValue(Find(weights, KEPT, target, false));
}

// What a prefix of the block leaves of the mass, recorded tokens and others.
__aicore__ inline float Leave(float prior, float otherMass) {
    Muls(lefts, shares, prior, static_cast<int32_t>(DRAFT_CANDIDATES));
    Axpy(lefts, recordShares, -remaining, static_cast<int32_t>(DRAFT_CANDIDATES));
    Maxs(lefts, lefts, 0.0f, static_cast<int32_t>(DRAFT_CANDIDATES));
    return Sum(lefts, DRAFT_CANDIDATES) + prior * otherMass;
}

// Draws from it: first the recorded tokens in their order, then the others by id.
__aicore__ inline int32_t DrawLeft(float prior, float otherMass, float target, float u) {
    int32_t last = -1;
    float sum = 0.0f;
    for (uint32_t i = 0; i < recorded; ++i) {
        const float left = lefts.GetValue(i);
        if (left > 0.0f) {
            last = recordIds.GetValue(i);
            sum += left;
            if (sum > target) {
                return last;
            }
        }
    }
    if (otherMass > 0.0f) {
        return DrawOthers((target - sum) / prior);
    }
    return last < 0 ? Draw(u) : last;  // rounding took what was left
}
"""

ACCEPTING = """\
// Adds up weight times distance to the tile's maximum; that of a weight of 0 does not matter.
__aicore__ inline void AddMoment(uint32_t elements, uint32_t i, float reference) {
    const int32_t count = static_cast<int32_t>(elements);
    Adds(merged, values, -reference, count);
    Maxs(merged, merged, FAR, count);
    Mul(merged, merged, weights, count);
    ReduceSum(moments[i], merged, work, count);
}

// exp(-entropy) times the total: with weights w relative to the maximum, their logarithms y and
// their total W, the entropy is log(W) - sum(w y) / W.
__aicore__ inline float Typicality() {
    const int32_t tiles = static_cast<int32_t>(TILES);
    Adds(others, maxima, -maximum, tiles);
    Maxs(others, others, FAR, tiles);
    Muls(weights, others, inverse, tiles);
    Exp(weights, weights, tiles);
    Mul(moments, moments, weights, tiles);
    Mul(others, others, masses, tiles);
    Add(moments, moments, others, tiles);
    Duplicate(weights, Sum(moments, TILES) / total * inverse, 8);
    Exp(weights, weights, 8);
    return weights.GetValue(0);
}

__aicore__ inline bool IsTypical() {
    const float least = scale * Typicality();
    return shares.GetValue(0) > (limit * total < least ? limit * total : least);
}

__aicore__ inline bool IsRelaxed() const {
    if (ranks == 0) {
        return false;
    }
    const float last = kept.GetValue(2 * ranks - 2);
    const int32_t lastId = kept.ReinterpretCast<int32_t>().GetValue(2 * ranks - 1);
    const float value = noted.GetValue(0);
    const float weight = shares.GetValue(0);
    const bool isRanked = value > last || (value == last && recordIds.GetValue(0) <= lastId);
    return isRanked && weight > 0.0f && weight >= 1.0f - limit * total;
}

// The number that decides about the draft at a position.
__aicore__ inline float Verified(int32_t position) const {
    return Uniform(seedLow, seedHigh, static_cast<uint32_t>(position), ACCEPT,
                   static_cast<uint32_t>(length));
}

__aicore__ inline int32_t Reject(int32_t position) {
    Share();
    const float least = recordShares.GetValue(drawn) * remaining;
    if (Verified(position + 1) * least < shares.GetValue(drawn)) {
        return recordIds.GetValue(drawn);
    }
    const float otherMass = HideRecorded();
    const float u = Sampled(position);
    return DrawLeft(1.0f, otherMass, u * Leave(1.0f, otherMass), u);
}

// Ends a block at row `i`, if its prefix is taken so far.
__aicore__ inline void EndBlock(int32_t position, uint32_t i) {
    if (!isOver && Verified(position) < carried) {
        accepted = i;
    }
    isOver = true;
}

// The token behind row `i` of a block if the block ends there, or if it ended before.
__aicore__ inline int32_t Block(int32_t position, uint32_t i) {
    if (i == drafted) {
        EndBlock(position, i);
        return Draw(Sampled(position));
    }
    Share();
    const float prior = carried;
    const float likely = prior * shares.GetValue(drawn);
    const float least = recordShares.GetValue(drawn) * remaining;
    carried = likely < least ? likely / least : likely > 0.0f ? 1.0f : 0.0f;
    isOver = !(carried > 0.0f);
    const float otherMass = HideRecorded();
    const float left = Leave(prior, otherMass);
    const float below = left + (1.0f - prior) * remaining;
    const float u = Sampled(position);
    if (i == 0 || Verified(position) * below < left) {
        accepted = i;
        return DrawLeft(prior, otherMass, u * left, u);
    }
    return Draw(u);
}

// The token behind row `i` of the place; -1 if its logits are no numbers to choose by.
__aicore__ inline int32_t Sample(int32_t position, uint32_t i) {
    const bool isCoupled = i < drafted && verification != EXACT && !isOver;
    earlier = i;
    recorded = 0;
    if (isCoupled) {
        Record(i);
    }
    if (!Read(position)) {
        if (verification == BLOCK) {
            EndBlock(position, i);
        }
        return -1;
    }
    if (isCoupled) {
        Weigh(shares, noted, maximum, DRAFT_CANDIDATES);
        if ((verification == TYPICAL && IsTypical()) || (verification == RELAXED && IsRelaxed())) {
            return recordIds.GetValue(0);
        }
    }
    if (isGreedy) {
        return static_cast<int32_t>(best);
    }
    if (verification != REJECTION && verification != BLOCK) {
        recorded = 0;
    }
    Settle();
    if (isCoupled && verification == REJECTION) {
        return Reject(position);
    }
    if (verification == BLOCK && !isOver) {
        return Block(position, i);
    }
    return Draw(Sampled(position));
}
"""
