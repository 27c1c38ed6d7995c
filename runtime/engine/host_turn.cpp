// What the host does between two groups of steps, in one pass over its places each: reserve blocks,
// read what a group did, take the tokens that callers lack. Nothing is allocated.
//
// native_turn.py beside it fills the struct, so keep both in step; numpy_turn.py says the same on
// NumPy, and tests/engine/test_host_turn.py compares them.
//
// Time goes where memory is far: rows of all tokens of a request lie as far apart as its context is
// long. So new tokens are written to short rows, one behind the other, and moved in bulk.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace {

// Columns of a row of `state`; ir/step_state.py describes them.
enum Column { kLength = 0, kGenerated = 1, kLimit = 2, kFinished = 4, kSteps = 12 };
constexpr int32_t kNoDraft = -2;  // in `emitted`, behind the tokens of a step
constexpr int32_t kStateColumns = 16;

// Who may run, as far as the host has read.
struct Room {
    int32_t spare;    // tokens for which every place has blocks, behind those that are cached
    int32_t left;     // most tokens that a request may still get
    int32_t used;     // places up to the last that is live
    int32_t longest;  // most cached tokens of a request
};

// The arrays of place_arrays.py, by the same names, and those of native_turn.py. Sizes are those of
// a device.
struct Places {
    int32_t places;
    int32_t drafts;
    int32_t block_tokens;
    int32_t table_blocks;
    int32_t width;
    int32_t recent_width;
    int32_t recent_groups;  // of so many groups, a row of `recent` holds the tokens

    const uint8_t* live;
    const uint8_t* polled;
    const int64_t* since;
    const int64_t* ids;
    const int32_t* ceiling;
    const int32_t* stack;  // the last of its free blocks goes out first
    int32_t* state;
    int32_t* owned;
    int32_t* table;
    int32_t* tokens;
    int32_t* delivered;
    int64_t* sums;

    int32_t* recent;   // the last new tokens, which are not yet in `tokens`
    int32_t* pending;  // how many
    int32_t* next;     // place whose tokens are moved next
    int32_t* spare;    // as in `Room`, of each place; kEnough: it has all blocks that it can want
    int32_t* lanes;    // zeros between two calls
    Room* room;
    int32_t* grown_at;  // elements of `table`
    int32_t* grown;     // and the blocks that they got
    int32_t* ended;     // places
    int64_t* taken_ids;
    int32_t* taken_ends;
    int32_t* taken_tokens;
};

constexpr int32_t kEnough = INT32_MAX;
constexpr Room kNobody{kEnough, 0, 0, 0};
constexpr int32_t kLookAgain = -1;  // instead of `spare`
// Steps take turns between so many counters of the same thing: adding to one in each step would take
// longer than all else that is done for it.
constexpr int32_t kLanes = 4;
// Places, ahead of the one that is looked at, whose memory is asked for.
constexpr int32_t kAhead = 8;
constexpr int32_t kLine = 16;  // numbers of a cache line

int32_t* StateOf(const Places* all, int32_t place) { return all->state + place * kStateColumns; }

int32_t* RecentOf(const Places* all, int32_t place) {
    return all->recent + static_cast<int64_t>(place) * all->recent_width;
}

// Where the first token of a place belongs that is not yet in `tokens`.
int32_t* UnsettledOf(const Places* all, int32_t place) {
    const int32_t settled = StateOf(all, place)[kGenerated] - all->pending[place];
    return all->tokens + static_cast<int64_t>(place) * all->width + settled;
}

void Settle(const Places* all, int32_t place) {
    std::copy_n(RecentOf(all, place), all->pending[place], UnsettledOf(all, place));
    all->pending[place] = 0;
}

// Asks for the memory to which a place is settled.
void FetchUnsettled(const Places* all, int32_t place) {
    if (place >= all->places) return;
    const int32_t* to = UnsettledOf(all, place);
    for (int32_t i = 0; i < all->pending[place]; i += kLine) __builtin_prefetch(to + i, 1);
}

// Settles some places after each group, all of them before a row of `recent` is full.
void SettleSome(const Places* all) {
    const int32_t count = (all->places + all->recent_groups - 1) / all->recent_groups;
    for (int32_t i = 0; i < count; ++i) {
        FetchUnsettled(all, *all->next + kAhead / 2);
        Settle(all, *all->next);
        if (++*all->next == all->places) *all->next = 0;
    }
}

// How many more blocks a place needs for so many tokens behind those that are cached.
int32_t WantedBlocks(const Places* all, int32_t place, int32_t tokens) {
    const int32_t bound = std::min(StateOf(all, place)[kLength] + tokens, all->ceiling[place]);
    const int32_t lacks = bound - all->owned[place] * all->block_tokens;
    return (lacks + all->block_tokens - 1) / all->block_tokens;
}

int32_t SpareOf(const Places* all, int32_t place, int32_t length) {
    const int32_t known = all->owned[place] * all->block_tokens;
    return known < all->ceiling[place] ? known - length : kEnough;
}

void Survey(const Places* all, int32_t place, const int32_t* state, Room* room) {
    const int32_t spare = SpareOf(all, place, state[kLength]);
    all->spare[place] = spare;
    room->spare = std::min(room->spare, spare);
    room->left = std::max(room->left, state[kLimit] - state[kGenerated]);
    room->used = place + 1;
    room->longest = std::max(room->longest, state[kLength]);
}

void SurveyAll(const Places* all) {
    Room room = kNobody;
    for (int32_t place = 0; place < all->places; ++place) {
        all->spare[place] = kEnough;
        if (all->live[place]) Survey(all, place, StateOf(all, place), &room);
    }
    *all->room = room;
}

// How many drafts a step had, which is told by its columns for `tokens` tokens; the first is always
// a token, or for one.
int32_t DraftsOf(const int32_t* row, int32_t tokens) {
    while (row[tokens] == kNoDraft) --tokens;
    return tokens - 1;
}

// Appends the tokens of a place, and counts its first `whole` steps by their drafts, and by the
// tokens that they emitted. Returns how many tokens there are. `kTokens` is the most of a step; 0: one more than drafts.
template <int32_t kTokens>
int32_t Append(const Places* all, int32_t place, const int32_t* emitted, int32_t steps,
               int32_t whole) {
    const int32_t tokens = kTokens > 0 ? kTokens : all->drafts + 1;
    const int32_t columns = tokens + 1, stride = all->places * columns;
    int32_t* const start = RecentOf(all, place) + all->pending[place];
    int64_t* asked = all->sums + 2;
    int32_t all_drafts = 0;
    int32_t* to = start;
    const int32_t* row = emitted + place * columns;
    for (int32_t step = 0; step < steps; ++step, row += stride) {
        __builtin_prefetch(row + 2 * kAhead * columns);
        // All columns: what stands behind the tokens of a step is overwritten by the next one.
        std::memcpy(to, row + 1, static_cast<size_t>(tokens) * sizeof(int32_t));
        to += row[0];
        if (step >= whole) continue;
        ++all->lanes[step % kLanes * columns + row[0]];
        if (row[tokens] == kNoDraft) {
            ++asked[DraftsOf(row, tokens)];
        } else {
            ++all_drafts;
        }
    }
    asked[tokens - 1] += all_drafts;
    const auto count = static_cast<int32_t>(to - start);
    all->pending[place] += count;
    return count;
}

void FetchAhead(const Places* all, const int32_t* state, int32_t place) {
    if (place >= all->places) return;
    const int32_t* to = RecentOf(all, place) + all->pending[place];
    __builtin_prefetch(state + place * kStateColumns);
    __builtin_prefetch(StateOf(all, place), 1);
    __builtin_prefetch(to, 1);
    __builtin_prefetch(to + kLine, 1);
}

// See ascendfx_read; `kTokens` is that of `Append`.
template <int32_t kTokens>
int32_t Read(const Places* all, const int32_t* emitted, const int32_t* state, int32_t steps,
             int64_t group) {
    int64_t ran_all = 0, new_all = 0;
    Room room = kNobody;
    int32_t ended = 0;
    bool later = false;
    for (int32_t place = 0; place < all->places; ++place) {
        FetchAhead(all, state, place + kAhead);
        if (!all->live[place]) {
            all->spare[place] = kEnough;  // it may have left since the last reservation
            continue;
        }
        if (all->since[place] > group) {
            later = true;
            continue;
        }
        int32_t* before = StateOf(all, place);
        const int32_t* after = state + place * kStateColumns;
        const int32_t ran = after[kSteps] - before[kSteps];
        const bool ends = after[kFinished] != 0;
        ran_all += ran;
        new_all += Append<kTokens>(all, place, emitted, steps, ran - ends);
        std::memcpy(before, after, kStateColumns * sizeof(int32_t));
        if (ends) all->ended[ended++] = place;
        Survey(all, place, after, &room);
    }
    if (later) room.spare = kLookAgain;
    *all->room = room;
    all->sums[0] += ran_all;
    all->sums[1] += new_all;
    const int32_t columns = all->drafts + 2;
    int64_t* counted = all->sums + 2 + all->drafts + 1;
    for (int32_t i = 0; i < kLanes * columns; ++i) counted[i % columns] += all->lanes[i];
    std::fill_n(all->lanes, kLanes * columns, 0);
    SettleSome(all);
    return ended;
}

}  // namespace

// Gives places the blocks for so many tokens behind those that are cached. Returns how many blocks
// these were; `grown_at` and `grown` say which. -1, and nothing has changed: more than are free.
extern "C" int32_t ascendfx_reserve(Places* all, int32_t tokens, int32_t free) {
    if (all->room->spare == kLookAgain) SurveyAll(all);
    int32_t wanted = 0;
    for (int32_t place = 0; place < all->places; ++place) {
        if (all->spare[place] < tokens) wanted += WantedBlocks(all, place, tokens);
    }
    if (wanted > free) return -1;
    int32_t given = 0, least = kEnough;
    for (int32_t place = 0; place < all->places; ++place) {
        if (all->spare[place] < tokens) {
            for (int32_t more = WantedBlocks(all, place, tokens); more > 0; --more, ++given) {
                const int32_t at = place * all->table_blocks + all->owned[place]++;
                all->grown_at[given] = at;
                all->grown[given] = all->table[at] = all->stack[free - 1 - given];
            }
            all->spare[place] = SpareOf(all, place, StateOf(all, place)[kLength]);
        }
        least = std::min(least, all->spare[place]);
    }
    all->room->spare = least;
    return given;
}

// Takes over what the steps of a group did to those who were in it. Returns how many ended, whose
// places are in `ended`.
extern "C" int32_t ascendfx_read(const Places* all, const int32_t* emitted, const int32_t* state,
                                 int32_t steps, int64_t group) {
    constexpr decltype(&Read<0>) kReads[] = {Read<1>, Read<2>, Read<3>, Read<4>, Read<5>};
    const bool known = all->drafts < static_cast<int32_t>(std::size(kReads));
    return (known ? kReads[all->drafts] : Read<0>)(all, emitted, state, steps, group);
}

// Puts all tokens of a place where somebody else reads them, and its next one may be written.
extern "C" void ascendfx_settle(const Places* all, int32_t place) { Settle(all, place); }

// Notes that callers have all tokens. Returns how many requests have some that they lacked: their
// ids, where the tokens of each end, and the tokens of all of them are in `taken_...`.
extern "C" int32_t ascendfx_take(const Places* all) {
    int32_t count = 0;
    int32_t* to = all->taken_tokens;
    for (int32_t place = 0; place < all->places; ++place) {
        const int32_t stop = StateOf(all, place)[kGenerated];
        const int32_t start = all->delivered[place];
        if (!all->live[place] || !all->polled[place] || start >= stop) continue;
        const int32_t settled = stop - all->pending[place];
        const int32_t* known = UnsettledOf(all, place) - settled;
        const int32_t* recent = RecentOf(all, place) - settled;
        if (start < settled) to = std::copy(known + start, known + settled, to);
        to = std::copy(recent + std::max(start, settled), recent + stop, to);
        all->delivered[place] = stop;
        all->taken_ids[count] = all->ids[place];
        all->taken_ends[count++] = static_cast<int32_t>(to - all->taken_tokens);
    }
    return count;
}
