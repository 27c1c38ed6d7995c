"""The Ascend C text of `sample_tokens`: what filters leave, and which of it is drawn."""

CUT = """\
// What a filter leaves: everything of at least `high` and, of what is between `low` and `high`, all
// of one value, the first `ties` by id.
struct Cut {
    float low;
    float high;
    uint32_t ties;
    uint32_t tokens;  // together
    float mass;
};
"""

CHOOSING = """\
float remaining;  // mass of what filters leave
bool isWhole;  // all that they leave is kept
uint32_t prefix;  // how many of the kept ones they leave then
Cut end;  // otherwise
bool isSorted;  // by id: the kept ones

// Finds what filters leave.
__aicore__ inline void Settle() {
    remaining = total;
    isSorted = false;
@    hides = false;
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
@    if (hides && !isCut) {
@        Spread(sums);
@    }
@    hides = false;
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
@    if (hides) {
@        Hide(start, count);
@    }
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
"""

BORDER = """\
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
// that is above 0, by bisection on the value, a read per step. It ends at the threshold or below.
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
            cut.ties = static_cast<uint32_t>(static_cast<int32_t>(missing > 0.0f ? missing : 0.0f));
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
"""
"""The end of a prefix that is longer than what is kept."""

BEYOND = """\
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
@        if (taken > 0) {
@            const int32_t place = newIds.GetValue(places.GetValue(taken - 1));
@            lastTie = static_cast<int32_t>(start) + place;
@        }
    }
    CompareScalar(bits, weights, minP, CMPMODE::GE, (found + 63) / 64 * 64);
    Select(weights, bits, weights, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, found);
    return found;
}

// Masses of the tiles of a prefix that is longer than what was kept, and the ties before each.
__aicore__ inline void MeasureTiles() {
    uint32_t left = end.ties;
    remaining = 0.0f;
@    lastTie = -1;
    Fetch(0);
    for (uint32_t start = 0, i = 0; start < COLUMNS; start += TILE, ++i) {
        const uint32_t count = Load(start, true);
        sums.SetValue(i, static_cast<float>(static_cast<int32_t>(left)));
        const uint32_t found = Prefix(start, count, left);
        const float part = found > 0 ? Sum(weights, found) : 0.0f;
        masses.SetValue(i, part);
        remaining += part;
@        if (recorded > 0) {
@            HideAmong(start, count, found);
@            others.SetValue(i, found > 0 ? Sum(weights, found) : 0.0f);
@        }
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
@    if (hides) {
@        HideAmong(start, count, found);
@    }
    logitQueue.FreeTensor(tile);
    const uint32_t place = Find(weights, TILE, target - before, false);
    return static_cast<int32_t>(start) + newIds.GetValue(place);
}
"""
