// Which bytes of a local memory were never written (state of shadow_local.cpp).
#include "cube_poison.h"

#include "checks.h"
#include "machine.h"

namespace emulator {
namespace {

// Bytes of a granule that [begin, end) covers.
uint32_t Covered(uint64_t granule, uint64_t begin, uint64_t end) {
    const uint64_t first = granule * kGranule;
    const uint64_t low = begin > first ? begin - first : 0;
    const uint64_t high = end < first + kGranule ? end - first : kGranule;
    return static_cast<uint32_t>(((uint64_t{1} << high) - 1) & ~((uint64_t{1} << low) - 1));
}

LocalMemory& MemoryOf(Space space) { return current->memory[static_cast<int>(space)]; }

uint32_t Written(const LocalMemory& memory, uint64_t granule) {
    const uint64_t stamp = memory.write[granule];
    if (Stamp::Clock(stamp) <= current->base) return 0;
    return (stamp & Stamp::kPartial) ? memory.mask[granule] : ~0u;
}

EMULATOR_HOT bool AnyUnwritten(const uint64_t* stamps, uint64_t count, uint32_t base) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; ++i) {
        found |= static_cast<uint64_t>((stamps[i] >> 32) <= base) | (stamps[i] & Stamp::kPartial);
    }
    return found != 0;
}

EMULATOR_HOT void Unwrite(uint64_t* stamps, uint32_t* masks, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) stamps[i] |= Stamp::kPartial;
    for (uint64_t i = 0; i < count; ++i) masks[i] = 0;
}

}  // namespace

bool IsPoisoned(Space space, uint64_t address, uint64_t bytes) {
    if (!EMULATOR_POISON) return false;
    const LocalMemory& memory = MemoryOf(space);
    const uint64_t first = address / kGranule, end = address + bytes;
    const uint64_t last = (end + kGranule - 1) / kGranule;
    if (!AnyUnwritten(memory.write + first, last - first, current->base)) return false;
    for (uint64_t granule = first; granule < last; ++granule) {
        if (Covered(granule, address, end) & ~Written(memory, granule)) return true;
    }
    return false;
}

void SetPoison(Space space, uint64_t address, uint64_t bytes) {
    if (!EMULATOR_POISON || bytes == 0) return;
    LocalMemory& memory = MemoryOf(space);
    const uint64_t end = address + bytes;
    uint64_t first = address / kGranule, last = (end + kGranule - 1) / kGranule;
    const auto edge = [&](uint64_t granule) {
        memory.mask[granule] = Written(memory, granule) & ~Covered(granule, address, end);
        memory.write[granule] |= Stamp::kPartial;
    };
    if (address % kGranule != 0 || (last == first + 1 && end % kGranule != 0)) edge(first++);
    if (last > first && end % kGranule != 0) edge(--last);
    if (last > first) Unwrite(memory.write + first, memory.mask + first, last - first);
}

void CarryPoison(Space from, uint64_t source, Space to, uint64_t target, uint64_t bytes) {
    if (!EMULATOR_POISON) return;
    const LocalMemory& left = MemoryOf(from);
    LocalMemory& right = MemoryOf(to);
    const uint64_t first = source / kGranule, count = bytes / kGranule;
    if (!AnyUnwritten(left.write + first, count, current->base)) return;
    for (uint64_t i = 0; i < count; ++i) {
        const uint32_t written = Written(left, first + i);
        if (written == ~0u) continue;
        right.mask[target / kGranule + i] = written;
        right.write[target / kGranule + i] |= Stamp::kPartial;
    }
}

void CarryTransposed(Space from, uint64_t source, Space to, uint64_t target) {
    constexpr uint32_t kRows = 16, kRowBytes = 32, kElement = 2;
    if (!IsPoisoned(from, source, kRows * kRowBytes)) return;
    for (uint32_t row = 0; row < kRows; ++row) {
        const uint32_t written = Written(MemoryOf(from), source / kGranule + row);
        for (uint32_t column = 0; column < kRows; ++column) {
            if ((written >> column * kElement & 3) == 3) continue;
            SetPoison(to, target + column * kRowBytes + row * kElement, kElement);
        }
    }
}

}  // namespace emulator
