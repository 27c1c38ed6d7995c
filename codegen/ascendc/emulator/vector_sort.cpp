// Sort32 and MrgSort. Records are moved as bits, so that any index survives.
#include "vector_sort.h"

#include <algorithm>

#include "machine.h"

namespace emulator {

namespace {

constexpr uint64_t kRecord = 8;
constexpr int32_t kSorted = 32;

float ScoreOf(uint64_t record, bool isHalf) {
    return isHalf ? HalfToFloat(static_cast<uint16_t>(record))
                  : FloatFromBits(static_cast<uint32_t>(record));
}

uint64_t LoadRecord(const std::byte* from) {
    uint64_t record;
    std::memcpy(&record, from, kRecord);
    return record;
}

void CheckLists(const AscendC::MrgSort4Info& info, const LocalOperand* const sources[4],
                Site site) {
    if (info.validBit != 3 && info.validBit != 7 && info.validBit != 15) {
        Fault(site, PIPE_V, "arguments", info.validBit, "MrgSort: validBit %u is not 3, 7 or 15",
              info.validBit);
    }
    for (int i = 0; i < 4; ++i) {
        if (!(info.validBit >> i & 1)) continue;
        if (info.elementLengths[i] > 4095) {
            Fault(site, PIPE_V, "arguments", info.elementLengths[i],
                  "MrgSort: list %d has %u records; at most 4095", i + 1, info.elementLengths[i]);
        }
        if (sources[i]->address % kRecord != 0) {
            Fault(site, PIPE_V, "alignment", sources[i]->address,
                  "MrgSort: list %d (UB byte %u) must be a multiple of 8 bytes", i + 1,
                  sources[i]->address);
        }
    }
    if (info.repeatTimes <= 1) return;
    const uint64_t length = info.elementLengths[0];
    for (int i = 1; i < 4; ++i) {
        const bool follows = sources[i]->address ==
                             sources[0]->address + static_cast<uint64_t>(i) * length * kRecord;
        if (info.elementLengths[i] == length && follows && info.validBit == 15 &&
            !info.ifExhaustedSuspension) {
            continue;
        }
        Fault(site, PIPE_V, "arguments", info.repeatTimes,
              "MrgSort: repeatTimes > 1 needs four contiguous lists of equal length, validBit 15 "
              "and no suspension");
    }
}

void CheckNoOverlap(const LocalOperand& dst, uint64_t written, const LocalOperand& source,
                    uint64_t read, Site site) {
    const bool apart = dst.address + written <= source.address ||
                       source.address + read <= dst.address;
    if (apart) return;
    Fault(site, PIPE_V, "arguments", dst.address,
          "MrgSort: source (UB byte %u) and destination (UB byte %u) overlap", source.address,
          dst.address);
}

// Merges one set of lists; `used` counts the records taken from each.
uint64_t Merge(std::byte* to, const std::byte* const from[4], const uint16_t lengths[4], int lists,
               bool suspend, bool isHalf, uint16_t used[4]) {
    uint64_t written = 0;
    for (int i = 0; i < 4; ++i) used[i] = 0;
    for (;;) {
        int best = -1;
        float bestScore = 0;
        for (int i = 0; i < lists; ++i) {
            if (used[i] == lengths[i]) continue;
            const float score = ScoreOf(LoadRecord(from[i] + used[i] * kRecord), isHalf);
            if (best < 0 || score > bestScore) {
                best = i;
                bestScore = score;
            }
        }
        if (best < 0) return written;
        std::memcpy(to + written * kRecord, from[best] + used[best] * kRecord, kRecord);
        ++written;
        if (++used[best] == lengths[best] && suspend) return written;
    }
}

}  // namespace

void RunSort32(bool isHalf, const LocalOperand& dst, const LocalOperand& score,
               const LocalOperand& index, int32_t repeats, Site site) {
    if (repeats < 0 || repeats > 255) {
        Fault(site, PIPE_V, "arguments", static_cast<uint64_t>(repeats),
              "Sort32: repeatTime %d is not in 0..255", repeats);
    }
    if (repeats == 0) return;
    if (isHalf && repeats > 1) {
        Fault(site, PIPE_V, "arguments", static_cast<uint64_t>(repeats),
              "Sort32 of half: the page gives both 64 and 128 bytes as distance between repeats; "
              "sort in float or one repeat at a time");
    }
    const auto count = static_cast<uint64_t>(repeats) * kSorted;
    const uint64_t scoreBytes = isHalf ? 2 : 4;
    Cost cost;
    cost.elements = count;
    cost.repeats = static_cast<uint32_t>(repeats);
    Issue("Sort32", PIPE_V, site, {Piece(score, 0, count * scoreBytes), Piece(index, 0, count * 4)},
          {Piece(dst, 0, count * kRecord)}, cost);
    if (!kValues) return;
    const std::byte* scores = LocalBytes(score);
    const std::byte* indices = LocalBytes(index);
    for (int32_t repeat = 0; repeat < repeats; ++repeat) {
        uint64_t records[kSorted];
        for (int i = 0; i < kSorted; ++i) {
            const uint64_t at = static_cast<uint64_t>(repeat * kSorted + i);
            uint32_t low = 0, high;
            std::memcpy(&low, scores + at * scoreBytes, scoreBytes);
            std::memcpy(&high, indices + at * 4, 4);
            records[i] = uint64_t{high} << 32 | low;
        }
        std::stable_sort(records, records + kSorted, [isHalf](uint64_t a, uint64_t b) {
            return ScoreOf(a, isHalf) > ScoreOf(b, isHalf);
        });
        std::memcpy(LocalBytes(dst) + static_cast<uint64_t>(repeat) * kSorted * kRecord, records,
                    sizeof records);
    }
}

void RunMrgSort(bool isHalf, const LocalOperand& dst, const LocalOperand* const sources[4],
                const AscendC::MrgSort4Info& info, Site site) {
    if (info.repeatTimes == 0) return;
    CheckLists(info, sources, site);
    const int lists = info.validBit == 3 ? 2 : info.validBit == 7 ? 3 : 4;
    uint64_t total = 0;
    Range reads[4];
    for (int i = 0; i < lists; ++i) total += info.elementLengths[i];
    const int64_t pitch = static_cast<int64_t>(total * kRecord);
    for (int i = 0; i < lists; ++i) {
        reads[i] = Piece(*sources[i], 0, info.elementLengths[i] * kRecord).Aligned(0);
        reads[i] = reads[i].Times(info.repeatTimes, pitch);
        CheckNoOverlap(dst, total * kRecord * info.repeatTimes, *sources[i],
                       total * kRecord * (info.repeatTimes - 1u) + reads[i].length, site);
        if (info.repeatTimes > 1) {  // the tensors name the first set only
            reads[i].tensorEnd = std::max(reads[i].tensorEnd,
                                          uint64_t{sources[0]->address} + sources[0]->bytes);
        }
    }
    const Range write = Piece(dst, 0, total * kRecord * info.repeatTimes);
    Cost cost;
    cost.elements = total * info.repeatTimes;
    cost.repeats = info.repeatTimes;
    IssueLists("MrgSort", PIPE_V, site, RangeList{reads, static_cast<uint32_t>(lists)},
               RangeList{&write, 1}, cost);
    uint16_t used[4] = {};
    for (uint32_t repeat = 0; repeat < info.repeatTimes; ++repeat) {
        const std::byte* from[4] = {};
        for (int i = 0; i < lists; ++i) {
            from[i] = LocalBytes(*sources[i]) + repeat * total * kRecord;
        }
        Merge(LocalBytes(dst) + repeat * total * kRecord, from, info.elementLengths, lists,
              info.ifExhaustedSuspension, isHalf, used);
    }
    uint64_t& result = ControlRegister(Register::MRG_SORT_RESULT);
    result = 0;
    for (int i = 0; i < 4; ++i) result |= uint64_t{used[i]} << (16 * i);
}

uint16_t MergedCount(int list) {
    return static_cast<uint16_t>(ControlRegister(Register::MRG_SORT_RESULT) >> (16 * list));
}

}  // namespace emulator
