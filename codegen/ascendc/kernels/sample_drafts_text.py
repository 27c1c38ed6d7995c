"""The Ascend C text of `sample_drafts`: what a draft is drawn from, and the draw."""

DRAFTING = """\
// The draft of a place; 0 if its logits are no numbers to choose by. `ids` and `shares` take what
// it was drawn from, the most likely token first.
__aicore__ inline int32_t Draft(const LocalTensor<int32_t>& request, int32_t accepted,
                                const LocalTensor<int32_t>& ids,
                                const LocalTensor<float>& shares) {
    Duplicate(ids, static_cast<int32_t>(-1), DRAFT_CANDIDATES);
    Duplicate(shares, 0.0f, DRAFT_CANDIDATES);
    const LocalTensor<float> options = request[OPTIONS].ReinterpretCast<float>();
    stops = request[STOPS];
    const int32_t behind = accepted + 1 + static_cast<int32_t>(DEPTH);
    bans = request.GetValue(GENERATED) + behind < request.GetValue(MINIMUM) ? STOP_COLUMNS : 0;
    const float temperature = options.GetValue(TEMPERATURE);
    const float topK = options.GetValue(TOP_K);
    const float topP = options.GetValue(TOP_P);
    const float wish = options.GetValue(VERIFICATION);
    inverse = temperature < 1e-30f ? 1e30f : temperature > 1e30f ? 1e-30f : 1.0f / temperature;
    wanted = COLUMNS;
    if (topK >= 1.0f && topK < COLUMNS) {
        wanted = static_cast<uint32_t>(static_cast<int32_t>(topK));
    }
    const bool isNucleus = topP > 0.0f && topP < 1.0f;
    // The mass of a nucleus is a share of that of the TOP_K tokens, which are needed for it.
    const uint32_t most = isNucleus && wanted < COLUMNS ? KEPT : DRAFT_CANDIDATES;
    rank = wanted < most ? wanted : most;
    isFiltered = temperature > 0.0f && (wish == REJECTION || wish == BLOCK);
    Scan();
    if (!IsChoosable()) {
        return 0;
    }
    if (!isFiltered) {
        ids.SetValue(0, static_cast<int32_t>(best));
        shares.SetValue(0, 1.0f);
        return static_cast<int32_t>(best);
    }
    const uint32_t count = Remaining(isNucleus ? topP : 1.0f, options.GetValue(MIN_P));
    const int32_t length = request.GetValue(LENGTH);
    const float u = Uniform(static_cast<uint32_t>(request.GetValue(SEED_LOW)),
                            static_cast<uint32_t>(request.GetValue(SEED_HIGH)),
                            static_cast<uint32_t>(length + behind + 1), STREAM,
                            static_cast<uint32_t>(length));
    return DrawKept(count, u, ids, shares);
}

// How many tokens filters leave of the DRAFT_CANDIDATES most likely ones; `weights` become theirs.
__aicore__ inline uint32_t Remaining(float topP, float minP) {
    const uint32_t found = seen < KEPT ? seen : KEPT;
    float mass = total;
    if (topP < 1.0f && wanted > found && wanted < COLUMNS && threshold > LOWEST) {
        mass = Border(wanted, 0.0f).mass;
    }
    Unzip(newValues, kept, 1);
    Weigh(weights, newValues, maximum, KEPT);
    if (wanted <= found && wanted < COLUMNS) {
        mass = Sum(weights, wanted);
    }
    uint32_t count = found < DRAFT_CANDIDATES ? found : DRAFT_CANDIDATES;
    count = wanted < count ? wanted : count;
    if (topP < 1.0f && Sum(weights, count) >= topP * mass) {
        const uint32_t reached = Find(weights, DRAFT_CANDIDATES, topP * mass, true) + 1;
        count = reached < count ? reached : count;
    }
    for (; count > 1; --count) {
        const float least = weights.GetValue(count - 1);
        if (least >= minP && least > 0.0f) {
            break;
        }
    }
    return count;
}

// Draws from the first `count` kept ones in the order of ids, which a second sorting gives.
__aicore__ inline int32_t DrawKept(uint32_t count, float u, const LocalTensor<int32_t>& ids,
                                   const LocalTensor<float>& shares) {
    Unzip(newIds, kept.ReinterpretCast<int32_t>(), 2);
    for (uint32_t i = count; i < DRAFT_CANDIDATES; ++i) {
        weights.SetValue(i, 0.0f);
        newIds.SetValue(i, -1);
    }
    DataCopy(ids, newIds, DRAFT_CANDIDATES);
    const float sum = Sum(weights, DRAFT_CANDIDATES);
    Muls(shares, weights, 1.0f / sum, DRAFT_CANDIDATES);
    Cast(newValues, newIds, RoundMode::CAST_NONE, DRAFT_CANDIDATES);
    Muls(newValues, newValues, -1.0f, DRAFT_CANDIDATES);
    Sort32(sorted, newValues, weights.ReinterpretCast<uint32_t>(), 1);
    GatherMaskParams gather;
    gather.repeatTimes = 1;
    gather.src0BlockStride = 1;
    gather.src0RepeatStride = 8;
    uint64_t found = 0;
    GatherMask(newValues, sorted, 1, false, 0, gather, found);
    GatherMask(weights, sorted, 2, false, 0, gather, found);
    const uint32_t place = Find(weights, DRAFT_CANDIDATES, u * sum, false);
    return static_cast<int32_t>(-newValues.GetValue(place));
}
"""
