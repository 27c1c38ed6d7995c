// What the host does between two groups of steps, in one pass over its places each: reserve blocks,
// read what a group did, take the tokens that callers lack. Nothing is allocated.
//
// native_turn.py beside it fills the struct, so keep both in step; numpy_turn.py says the same on
// NumPy, and tests/engine/test_host_turn.py compares them.
#include <algorithm>
#include <cstdint>

namespace {

// Columns of a row of `state`; ir/step_state.py describes them.
enum Column { kLength = 0, kGenerated = 1, kLimit = 2, kFinished = 4, kDrafted = 5, kDrafts = 6 };
constexpr int32_t kSteps = 12;
constexpr int32_t kStateColumns = 16;

// Who may run, as far as the host has read.
struct Room {
    int32_t spare;    // tokens for which every place has blocks, behind those that are cached
    int32_t left;     // most tokens that a request may still get
    int32_t used;     // places up to the last that is live
    int32_t longest;  // most cached tokens of a request
};

// The arrays of place_arrays.py, by the same names. Sizes are those of a device.
struct Places {
    int32_t places;
    int32_t drafts;
    int32_t block_tokens;
    int32_t table_blocks;
    int32_t width;

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

    Room* room;
    int32_t* grown_at;  // elements of `table`
    int32_t* grown;     // and the blocks that they got
    int32_t* ended;     // places
    int64_t* taken_ids;
    int32_t* taken_ends;
    int32_t* taken_tokens;
};

constexpr Room kNobody{INT32_MAX, 0, 0, 0};
constexpr int32_t kLookAgain = -1;  // instead of `spare`

int32_t* StateOf(const Places* all, int32_t place) { return all->state + place * kStateColumns; }

int32_t* TokensOf(const Places* all, int32_t place) {
    return all->tokens + static_cast<int64_t>(place) * all->width;
}

// Asks for the memory behind the tokens of a place before it is needed: rows lie far apart.
void FetchAhead(const Places* all, int32_t place) {
    if (place >= all->places) return;
    const int32_t* end = TokensOf(all, place) + StateOf(all, place)[kGenerated];
    __builtin_prefetch(end, 1);
    __builtin_prefetch(end + 16, 1);
}

// How many more blocks a place needs for so many tokens behind those that are cached.
int32_t WantedBlocks(const Places* all, int32_t place, int32_t tokens) {
    const int32_t bound = std::min(StateOf(all, place)[kLength] + tokens, all->ceiling[place]);
    const int32_t lacks = bound - all->owned[place] * all->block_tokens;
    if (lacks <= 0 || !all->live[place]) return 0;
    return (lacks + all->block_tokens - 1) / all->block_tokens;
}

void Survey(Places* all, int32_t place) {
    const int32_t* state = StateOf(all, place);
    Room* room = all->room;
    const int32_t known = all->owned[place] * all->block_tokens;
    if (known < all->ceiling[place]) room->spare = std::min(room->spare, known - state[kLength]);
    room->left = std::max(room->left, state[kLimit] - state[kGenerated]);
    room->used = place + 1;
    room->longest = std::max(room->longest, state[kLength]);
}

// Appends the tokens of a place, and counts its first `whole` steps by the tokens that they emitted.
void Append(Places* all, int32_t place, const int32_t* emitted, int32_t steps, int32_t whole) {
    const int32_t columns = all->drafts + 2, stride = all->places * columns;
    int64_t* counted = all->sums + 2 + all->drafts + 1;
    int32_t* const start = TokensOf(all, place) + StateOf(all, place)[kGenerated];
    int32_t* to = start;
    const int32_t* row = emitted + place * columns;
    for (int32_t step = 0; step < steps; ++step, row += stride) {
        // All columns: what stands behind the tokens of a step is overwritten by the next one.
        for (int32_t i = 1; i < columns; ++i) to[i - 1] = row[i];
        to += row[0];
        if (step < whole) ++counted[row[0]];
    }
    all->sums[1] += to - start;
}

}  // namespace

// Gives places the blocks for so many tokens behind those that are cached. Returns how many blocks
// these were; `grown_at` and `grown` say which. -1, and nothing has changed: more than are free.
extern "C" int32_t ascendfx_reserve(Places* all, int32_t tokens, int32_t free) {
    int32_t wanted = 0;
    *all->room = kNobody;
    for (int32_t place = 0; place < all->places; ++place) {
        if (!all->live[place]) continue;
        Survey(all, place);
        wanted += WantedBlocks(all, place, tokens);
    }
    all->room->spare = wanted > free ? kLookAgain : std::max(all->room->spare, tokens);
    if (wanted > free) return -1;
    int32_t given = 0;
    for (int32_t place = 0; given < wanted; ++place) {
        for (int32_t more = WantedBlocks(all, place, tokens); more > 0; --more, ++given) {
            const int32_t at = place * all->table_blocks + all->owned[place]++;
            all->grown_at[given] = at;
            all->grown[given] = all->table[at] = all->stack[free - 1 - given];
        }
    }
    return given;
}

// Takes over what the steps of a group did to those who were in it. Returns how many ended, whose
// places are in `ended`.
extern "C" int32_t ascendfx_read(Places* all, const int32_t* emitted, const int32_t* state,
                                 int32_t steps, int64_t group) {
    int64_t* asked = all->sums + 2;
    *all->room = kNobody;
    int32_t ended = 0;
    bool later = false;
    for (int32_t place = 0; place < all->places; ++place) {
        if (!all->live[place]) continue;
        if (all->since[place] > group) {
            later = true;
            continue;
        }
        FetchAhead(all, place + 4);
        int32_t* before = StateOf(all, place);
        const int32_t* after = state + place * kStateColumns;
        const int32_t ran = after[kSteps] - before[kSteps];
        const bool ends = after[kFinished] != 0;
        const int32_t whole = ran - ends;
        Append(all, place, emitted, steps, whole);
        all->sums[0] += ran;
        if (whole > 0) {
            ++asked[std::min(before[kDrafted], all->drafts)];
            asked[std::min(after[kDrafts], all->drafts)] += whole - 1;
        }
        std::copy_n(after, kStateColumns, before);
        if (ends) all->ended[ended++] = place;
        Survey(all, place);
    }
    if (later) all->room->spare = kLookAgain;
    return ended;
}

// Notes that callers have all tokens. Returns how many requests have some that they lacked: their
// ids, where the tokens of each end, and the tokens of all of them are in `taken_...`.
extern "C" int32_t ascendfx_take(Places* all) {
    int32_t count = 0;
    int32_t* to = all->taken_tokens;
    for (int32_t place = 0; place < all->places; ++place) {
        const int32_t stop = StateOf(all, place)[kGenerated];
        const int32_t start = all->delivered[place];
        if (!all->live[place] || !all->polled[place] || start >= stop) continue;
        const int32_t* tokens = TokensOf(all, place);
        to = std::copy(tokens + start, tokens + stop, to);
        all->delivered[place] = stop;
        all->taken_ids[count] = all->ids[place];
        all->taken_ends[count++] = static_cast<int32_t>(to - all->taken_tokens);
    }
    return count;
}
