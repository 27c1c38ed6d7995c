// Which bytes of a local memory were never written (state of shadow_local.cpp).
#include "machine.h"

namespace emulator {
namespace {

uint32_t Covered(uint64_t granule, uint64_t begin, uint64_t end) {
    const uint64_t first = granule * kGranule;
    const uint64_t low = begin > first ? begin - first : 0;
    const uint64_t high = end < first + kGranule ? end - first : kGranule;
    return static_cast<uint32_t>(((uint64_t{1} << high) - 1) & ~((uint64_t{1} << low) - 1));
}

uint32_t Written(const LocalMemory& memory, uint64_t granule) {
    const uint64_t stamp = memory.write[granule];
    if (Stamp::Clock(stamp) <= current->base) return 0;
    return (stamp & Stamp::kPartial) ? memory.mask[granule] : ~0u;
}

}  // namespace

bool IsPoisoned(Space space, uint64_t address, uint64_t bytes) {
    if (!EMULATOR_POISON) return false;
    const LocalMemory& memory = current->memory[static_cast<int>(space)];
    const uint64_t end = address + bytes;
    for (uint64_t granule = address / kGranule; granule * kGranule < end; ++granule) {
        if (Covered(granule, address, end) & ~Written(memory, granule)) return true;
    }
    return false;
}

void SetPoison(Space space, uint64_t address, uint64_t bytes) {
    if (!EMULATOR_POISON) return;
    LocalMemory& memory = current->memory[static_cast<int>(space)];
    const uint64_t end = address + bytes;
    for (uint64_t granule = address / kGranule; granule * kGranule < end; ++granule) {
        const uint32_t written = Written(memory, granule);
        memory.mask[granule] = written & ~Covered(granule, address, end);
        memory.write[granule] |= Stamp::kPartial;
    }
}

}  // namespace emulator
