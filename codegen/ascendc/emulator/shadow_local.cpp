// Shadow of local memories: who wrote and read each 32-byte granule last, and which bytes of it
// were ever written. One write stamp per granule, one read clock per granule and reading pipe.
#include "checks.h"
#include "machine.h"

namespace emulator {

namespace {

// Bytes of a granule that [begin, end) covers.
uint32_t CoveredBytes(uint64_t granule, uint64_t begin, uint64_t end) {
    const uint64_t first = granule * kGranule;
    const uint64_t low = begin > first ? begin - first : 0;
    const uint64_t high = end < first + kGranule ? end - first : kGranule;
    return static_cast<uint32_t>(((uint64_t{1} << high) - 1) & ~((uint64_t{1} << low) - 1));
}

EMULATOR_HOT bool AllEqual(const uint64_t* values, uint64_t count, uint64_t expected) {
    uint64_t difference = 0;
    for (uint64_t i = 0; i < count; ++i) difference |= values[i] ^ expected;
    return difference == 0;
}

EMULATOR_HOT uint32_t Highest(const uint32_t* values, uint64_t count) {
    uint32_t highest = 0;
    for (uint64_t i = 0; i < count; ++i) highest = values[i] > highest ? values[i] : highest;
    return highest;
}

EMULATOR_HOT void FillClocks(uint32_t* values, uint64_t count, uint32_t clock) {
    for (uint64_t i = 0; i < count; ++i) values[i] = clock;
}

EMULATOR_HOT void FillStamps(uint64_t* values, uint64_t count, uint64_t stamp) {
    for (uint64_t i = 0; i < count; ++i) values[i] = stamp;
}

[[noreturn]] void PoisonFault(const Access& access, const Range& range, uint64_t address) {
    const std::string place = DescribeAddress(range, address);
    Fault(access.core->site, static_cast<pipe_t>(access.pipe), "poison", address,
          "%s reads %s, which was never written", access.name, place.c_str());
}

[[noreturn]] void RaceFault(const Access& access, const Range& range, uint64_t granule,
                            uint32_t pipe, uint32_t clock, const char* mine, const char* earlier) {
    const std::string place = DescribeAddress(range, granule * kGranule);
    const std::string other = DescribeInstruction(*access.core, pipe, clock);
    const std::string remedy = OrderingBetween(pipe, access.pipe);
    Fault(access.core->site, static_cast<pipe_t>(access.pipe), "race", granule * kGranule,
          "%s (%s) %s %s, which %s %s; nothing orders them (no %s between)",
          access.name, kPipeNames[access.pipe], mine, place.c_str(), other.c_str(), earlier,
          remedy.c_str());
}

struct Shadow {
    const Access& access;
    const Range& range;
    LocalMemory& memory;

    void CheckStamp(uint64_t stamp, uint64_t granule, uint32_t needed, bool isRead) const {
        const uint32_t clock = Stamp::Clock(stamp);
        if (clock <= access.core->base) {
            if (ChecksPoison(isRead)) PoisonFault(access, range, granule * kGranule);
            return;
        }
        if (ChecksPoison(isRead) && (stamp & Stamp::kPartial)) {
            const uint32_t missing = needed & ~memory.mask[granule];
            if (missing) {
                PoisonFault(access, range, granule * kGranule + __builtin_ctz(missing));
            }
        }
        const uint32_t pipe = Stamp::Pipe(stamp);
        if (EMULATOR_RACES && clock > access.limit[pipe]) {
            RaceFault(access, range, granule, pipe, clock, isRead ? "reads" : "writes", "wrote");
        }
    }

    bool ChecksPoison(bool isRead) const {
        return EMULATOR_POISON && isRead && !access.carriesPoison;
    }

    void CheckStamps(uint64_t first, uint64_t count, bool isRead) const {
        const uint64_t* stamps = memory.write + first;
        CheckStamp(stamps[0], first, ~0u, isRead);
        if (!(stamps[0] & Stamp::kPartial) && AllEqual(stamps, count, stamps[0])) return;
        for (uint64_t i = 1; i < count; ++i) {
            if (stamps[i] != stamps[i - 1] || (stamps[i] & Stamp::kPartial)) {
                CheckStamp(stamps[i], first + i, ~0u, isRead);
            }
        }
    }

    void CheckReaders(uint64_t first, uint64_t count) const {
        for (uint32_t q = 0; q < kPipes; ++q) {
            const uint32_t* clocks = memory.read[q];
            const uint32_t limit = access.limit[q];
            if (clocks == nullptr || limit >= access.core->clock[q]) continue;
            if (Highest(clocks + first, count) <= limit) continue;
            for (uint64_t i = 0; i < count; ++i) {
                const uint32_t clock = clocks[first + i];
                if (clock <= limit || (q == access.pipe && clock == access.clock)) continue;
                RaceFault(access, range, first + i, q, clock, "writes", "read");
            }
        }
    }

    bool EverythingIsOrdered() const {
        for (uint32_t q = 0; q < kPipes; ++q) {
            if (access.limit[q] < access.core->clock[q]) return false;
        }
        return true;
    }

    void WritePartial(uint64_t granule, uint32_t bytes, uint64_t stamp) const {
        const uint64_t old = memory.write[granule];
        const bool fresh = Stamp::Clock(old) <= access.core->base;
        const uint32_t before = fresh ? 0 : (old & Stamp::kPartial) ? memory.mask[granule] : ~0u;
        const uint32_t after = before | bytes;
        memory.mask[granule] = after;
        memory.write[granule] = stamp | (after == ~0u ? 0 : Stamp::kPartial);
    }
};

// Scalar accesses of a vector core are ordered with everything by the compiler, but order nothing
// else, so they leave no trace except that bytes are now initialised.
bool IsUntracked(const Access& access) {
    return access.pipe == PIPE_S && access.core->kind == CoreKind::VECTOR;
}

}  // namespace

void ReadLocal(const Access& access, const Range& range, uint64_t begin, uint64_t length) {
    LocalMemory& memory = access.core->memory[static_cast<int>(range.space)];
    const Shadow shadow{access, range, memory};
    const uint64_t end = begin + length;
    uint64_t first = begin / kGranule;
    uint64_t last = (end + kGranule - 1) / kGranule;  // one past
    if (EMULATOR_RACES && !IsUntracked(access)) {
        uint32_t*& clocks = memory.read[access.pipe];
        if (clocks == nullptr) {
            clocks = static_cast<uint32_t*>(std::calloc(memory.size / kGranule, sizeof(uint32_t)));
        }
        FillClocks(clocks + first, last - first, access.clock);
    }
    if (begin % kGranule != 0 || last == first + 1) {
        shadow.CheckStamp(memory.write[first], first, CoveredBytes(first, begin, end), true);
        ++first;
    }
    if (last > first && end % kGranule != 0) {
        --last;
        shadow.CheckStamp(memory.write[last], last, CoveredBytes(last, begin, end), true);
    }
    if (last > first) shadow.CheckStamps(first, last - first, true);
}

void WriteLocal(const Access& access, const Range& range, uint64_t begin, uint64_t length) {
    LocalMemory& memory = access.core->memory[static_cast<int>(range.space)];
    const Shadow shadow{access, range, memory};
    const uint64_t end = begin + length;
    uint64_t first = begin / kGranule;
    uint64_t last = (end + kGranule - 1) / kGranule;
    const bool untracked = IsUntracked(access);
    if (EMULATOR_RACES && !untracked && !shadow.EverythingIsOrdered()) {
        shadow.CheckStamps(first, last - first, false);
        shadow.CheckReaders(first, last - first);
    }
    const uint64_t stamp = Stamp::Make(access.clock, 0, access.pipe, 0);
    const auto writeEdge = [&](uint64_t granule) {
        const uint64_t old = memory.write[granule];
        const bool keep = untracked && Stamp::Clock(old) > access.core->base;
        shadow.WritePartial(granule, CoveredBytes(granule, begin, end),
                            keep ? old & ~Stamp::kPartial : stamp);
    };
    if (begin % kGranule != 0 || (last == first + 1 && end % kGranule != 0)) {
        writeEdge(first);
        ++first;
    }
    if (last > first && end % kGranule != 0) {
        --last;
        writeEdge(last);
    }
    if (last > first) FillStamps(memory.write + first, last - first, stamp);
}

}  // namespace emulator
