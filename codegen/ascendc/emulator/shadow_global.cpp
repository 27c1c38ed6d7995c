// Shadow of the global memory that a launch may write: who wrote and read each 32-byte granule
// last, over all cores. Tensors declared `in` need none.
//
// A granule normally has one write stamp and one read stamp. Several unordered readers, or writers
// that update atomically, share a set, so that a long range that two cores read costs two steps,
// not one per granule. A granule that was touched in part goes to an exact list of accesses per byte.
#include <sys/mman.h>

#include "checks.h"
#include "machine.h"

namespace emulator {

namespace {

uint32_t KnownClock(const Access& access, uint32_t core, uint32_t pipe) {
    if (core == access.core->logical) return access.limit[pipe];
    const Knowledge& foreign = access.core->foreign;
    return foreign.empty() ? launch->base : foreign[core].at[pipe];
}

bool IsCurrent(uint64_t stamp) { return Stamp::Clock(stamp) > launch->base; }

[[noreturn]] void RaceFault(const Access& access, const Range& range, uint64_t address,
                            const Party& other, const char* mine, const char* earlier) {
    const std::string place = DescribeAddress(range, address);
    const std::string name = DescribeParty(access, other);
    const std::string remedy = other.core == access.core->logical
                                   ? OrderingBetween(other.pipe, access.pipe)
                                   : "cross-core flag";
    Fault(access.core->site, static_cast<pipe_t>(access.pipe), "race", OffsetInRegion(address),
          "%s (%s) %s %s, which %s %s; nothing orders them (no %s between)", access.name,
          kPipeNames[access.pipe], mine, place.c_str(), name.c_str(), earlier, remedy.c_str());
}

struct Shadow {
    const Access& access;
    const Range& range;
    const Region& region;

    uint64_t* WriteStamp(uint64_t granule) const { return machine.globalWrite + granule; }
    uint64_t* ReadStamp(uint64_t granule) const { return machine.globalRead + granule; }
    uint64_t AddressOf(uint64_t granule) const {
        return region.begin + (granule - region.firstGranule) * kGranule;
    }

    bool IsOrdered(uint32_t core, uint32_t pipe, uint32_t clock) const {
        return clock <= KnownClock(access, core, pipe);
    }

    void CheckWriter(uint64_t stamp, uint64_t granule, bool isRead) const {
        if (!IsCurrent(stamp)) {
            if (EMULATOR_POISON && (isRead || access.atomic) && region.poisoned) {
                PoisonFault(AddressOf(granule));
            }
            return;
        }
        if (!EMULATOR_RACES) return;
        if (!isRead && access.atomic && (stamp & Stamp::kAtomic)) return;
        ForEachIn(stamp, [&](const Party& writer) {
            if (IsOrdered(writer.core, writer.pipe, writer.clock)) return;
            RaceFault(access, range, AddressOf(granule), writer, isRead ? "reads" : "writes",
                      "wrote");
        });
    }

    [[noreturn]] void PoisonFault(uint64_t address) const {
        const std::string place = DescribeAddress(range, address);
        Fault(access.core->site, static_cast<pipe_t>(access.pipe), "poison", OffsetInRegion(address),
              "%s reads %s, which this launch has not written", access.name, place.c_str());
    }

    // Calls `visit` for the one or several accesses a stamp stands for.
    template <typename Visit>
    static void ForEachIn(uint64_t stamp, Visit visit) {
        if (!(stamp & Stamp::kShared)) {
            visit(Party{Stamp::Clock(stamp), Stamp::Core(stamp),
                        static_cast<uint8_t>(Stamp::Pipe(stamp))});
            return;
        }
        for (const Party& party : machine.partySets[static_cast<uint32_t>(stamp) >> 8]) {
            visit(party);
        }
    }

    void CheckReaders(uint64_t stamp, uint64_t granule) const {
        if (!EMULATOR_RACES || !IsCurrent(stamp)) return;
        ForEachIn(stamp, [&](const Party& reader) {
            if (IsOrdered(reader.core, reader.pipe, reader.clock)) return;
            RaceFault(access, range, AddressOf(granule), reader, "writes", "read");
        });
    }

    // The stamp after this access has been added to `old`: all that nothing orders before it.
    uint64_t Join(uint64_t old, uint64_t properties) const {
        const uint64_t mine =
            Stamp::Make(access.clock, access.core->logical, access.pipe, properties);
        if (!EMULATOR_RACES || !IsCurrent(old)) return mine;
        auto& last = machine.lastJoin;  // rows of one copy find the same stamp again and again
        if (last.old == old && last.mine == mine) return last.joined;
        std::vector<Party> parties;
        ForEachIn(old, [&](const Party& party) {
            const bool same = party.core == access.core->logical && party.pipe == access.pipe;
            if (!same && !IsOrdered(party.core, party.pipe, party.clock)) parties.push_back(party);
        });
        uint64_t joined = mine;
        if (!parties.empty()) {
            parties.push_back(
                Party{access.clock, access.core->logical, static_cast<uint8_t>(access.pipe)});
            const uint64_t index = machine.partySets.size();
            if (index >> 24 != 0) throw std::bad_alloc();  // the stamp has 24 bits for it
            machine.partySets.push_back(std::move(parties));
            joined = uint64_t{access.clock} << 32 | index << 8 | Stamp::kShared | properties;
        }
        last = {old, mine, joined};
        return joined;
    }

    uint64_t AddReader(uint64_t old) const { return Join(old, 0); }
    // Atomic updates do not wait for each other; any other write comes after all it replaces.
    uint64_t AddAtomicWriter(uint64_t old) const {
        return Join(old & Stamp::kAtomic ? old : 0, Stamp::kAtomic);
    }

    // Moves a granule from stamps to an exact list.
    std::vector<PartialAccess>& Details(uint64_t granule) const {
        uint64_t& write = *WriteStamp(granule);
        auto& list = machine.details[granule];
        if (IsCurrent(write) && (write & Stamp::kPartial)) return list;
        list.clear();
        if (IsCurrent(write)) {
            const bool atomic = (write & Stamp::kAtomic) != 0;
            ForEachIn(write, [&](const Party& writer) {
                list.push_back({~0u, writer.clock, writer.core, writer.pipe, true, atomic, false});
            });
        }
        const uint64_t read = *ReadStamp(granule);
        if (IsCurrent(read)) {
            ForEachIn(read, [&](const Party& reader) {
                list.push_back({~0u, reader.clock, reader.core, reader.pipe, false, false, false});
            });
        }
        write = Stamp::Make(access.clock, access.core->logical, access.pipe, Stamp::kPartial);
        return list;
    }

    bool Conflicts(const PartialAccess& other, uint32_t bytes, bool isWrite) const {
        if (!(other.mask & bytes) || (!other.isWrite && !isWrite)) return false;
        if (other.isAtomic && isWrite && access.atomic) return false;
        const bool ownScalar = other.core == access.core->logical && access.pipe == PIPE_S;
        if (other.isDirty && !ownScalar) return true;
        return !IsOrdered(other.core, other.pipe, other.clock);
    }

    void AccessPartial(uint64_t granule, uint32_t bytes, bool isWrite) const {
        auto& list = Details(granule);
        uint32_t written = 0;
        for (const PartialAccess& other : list) {
            if (other.isWrite) written |= other.mask;
            if (!EMULATOR_RACES || !Conflicts(other, bytes, isWrite)) continue;
            if (other.isDirty && IsOrdered(other.core, other.pipe, other.clock)) {
                const std::string place = DescribeAddress(range, AddressOf(granule));
                Fault(access.core->site, static_cast<pipe_t>(access.pipe), "race",
                      OffsetInRegion(AddressOf(granule)),
                      "%s (%s) touches %s, whose scalar write is still in the data cache; "
                      "call DataCacheCleanAndInvalid first",
                      access.name, kPipeNames[access.pipe], place.c_str());
            }
            RaceFault(access, range, AddressOf(granule),
                      Party{other.clock, other.core, other.pipe}, isWrite ? "writes" : "reads",
                      other.isWrite ? "wrote" : "read");
        }
        const bool reads = !isWrite || access.atomic;
        if (EMULATOR_POISON && reads && region.poisoned && (bytes & ~written)) {
            PoisonFault(AddressOf(granule) + __builtin_ctz(bytes & ~written));
        }
        const bool dirty = isWrite && access.pipe == PIPE_S;
        for (PartialAccess& other : list) {
            if (other.core == access.core->logical && other.pipe == access.pipe &&
                other.isWrite == isWrite && other.isAtomic == access.atomic &&
                other.isDirty == dirty && (other.mask & ~bytes) == 0) {
                other.mask = bytes;
                other.clock = access.clock;
                return;
            }
        }
        list.push_back({bytes, access.clock, access.core->logical,
                        static_cast<uint8_t>(access.pipe), isWrite, access.atomic, dirty});
    }

    bool IsDetailed(uint64_t granule) const {
        const uint64_t stamp = *WriteStamp(granule);
        return (stamp & Stamp::kPartial) && IsCurrent(stamp);
    }
};

template <typename Full>
void ForEachGranule(const Shadow& shadow, uint64_t begin, uint64_t length, bool isWrite,
                    Full full) {
    const uint64_t origin = shadow.region.begin;  // device allocations are aligned, ours may not be
    const uint64_t end = begin + length;
    const uint64_t first = (begin - origin) / kGranule;
    const uint64_t last = (end - origin + kGranule - 1) / kGranule;
    for (uint64_t i = first; i < last; ++i) {
        const uint64_t granule = shadow.region.firstGranule + i;
        const uint64_t start = origin + i * kGranule;
        const uint64_t low = begin > start ? begin - start : 0;
        const uint64_t high = end < start + kGranule ? end - start : kGranule;
        const auto bytes = static_cast<uint32_t>(((uint64_t{1} << high) - 1) &
                                                 ~((uint64_t{1} << low) - 1));
        if (bytes != ~0u || shadow.access.pipe == PIPE_S || shadow.IsDetailed(granule)) {
            shadow.AccessPartial(granule, bytes, isWrite);
        } else {
            full(granule);
        }
    }
}

}  // namespace

bool IsOrderedBefore(const Party& party, const Access& access) {
    return party.clock <= KnownClock(access, party.core, party.pipe);
}

std::string DescribeParty(const Access& access, const Party& party) {
    if (party.core == access.core->logical) {
        return DescribeInstruction(*access.core, party.pipe, party.clock);
    }
    // The core may have finished and its memory serve another one, but its log is still there.
    for (const Core* core : machine.all) {
        const auto& log = core->log[party.pipe];
        if (log.empty()) continue;
        const LogEntry& entry = log[party.clock % kLogged];
        if (entry.clock != party.clock || entry.core != party.core) continue;
        return PlaceOf(party.core) + ", " + kPipeNames[party.pipe] + " " + entry.name +
               " in line " + std::to_string(entry.site.line);
    }
    return PlaceOf(party.core) + ", " + kPipeNames[party.pipe] + " (an early instruction)";
}

const Region* FindRegion(uint64_t address) {
    static thread_local size_t last = 0;
    const auto& regions = launch->regions;
    if (last < regions.size() && address >= regions[last].begin && address < regions[last].end) {
        return &regions[last];
    }
    for (size_t i = 0; i < regions.size(); ++i) {
        if (address >= regions[i].begin && address < regions[i].end) {
            last = i;
            return &regions[i];
        }
    }
    return nullptr;
}

void ReadGlobal(const Access& access, const Range& range, uint64_t begin, uint64_t length) {
    const Region& region = *FindRegion(begin);
    if (!region.writable) return;
    const Shadow shadow{access, range, region};
    uint64_t checked = 0, old = 0, next = 0;
    bool any = false;
    ForEachGranule(shadow, begin, length, false, [&](uint64_t granule) {
        const uint64_t write = *shadow.WriteStamp(granule);
        if (!any || write != checked) {
            shadow.CheckWriter(write, granule, true);
            checked = write;
        }
        uint64_t& read = *shadow.ReadStamp(granule);
        if (!any || read != old) {
            old = read;
            next = shadow.AddReader(old);
        }
        any = true;
        read = next;
    });
}

void WriteGlobal(const Access& access, const Range& range, uint64_t begin, uint64_t length) {
    const Region& region = *FindRegion(begin);
    if (EMULATOR_RACES && access.pipe == PIPE_S) WriteCacheLines(access, range, begin, length);
    const Shadow shadow{access, range, region};
    uint64_t stamp = Stamp::Make(access.clock, access.core->logical, access.pipe, 0);
    uint64_t checkedWrite = 0, checkedRead = 0;
    bool any = false;
    ForEachGranule(shadow, begin, length, true, [&](uint64_t granule) {
        uint64_t& write = *shadow.WriteStamp(granule);
        const uint64_t read = *shadow.ReadStamp(granule);
        if (!any || write != checkedWrite) {
            shadow.CheckWriter(write, granule, false);
            if (access.atomic) stamp = shadow.AddAtomicWriter(write);
        }
        if (!any || read != checkedRead) shadow.CheckReaders(read, granule);
        checkedWrite = write;
        checkedRead = read;
        any = true;
        write = stamp;
    });
}

void CleanDataCache(Core& core, uint64_t begin, uint64_t length) {
    CleanCacheLines(core, begin, length);
    for (uint64_t address = begin; address < begin + length; address += kGranule) {
        const Region* region = FindRegion(address);
        if (region == nullptr || !region->writable) continue;
        const uint64_t offset = (address - region->begin) / kGranule;
        const auto found = machine.details.find(region->firstGranule + offset);
        if (found == machine.details.end()) continue;
        for (PartialAccess& access : found->second) {
            if (access.core == core.logical) access.isDirty = false;
        }
    }
}

void PrepareGlobalShadow(Launch& run) {
    machine.details.clear();
    machine.cacheLines.clear();
    machine.partySets.clear();
    machine.lastJoin = {};
    uint64_t granules = 0;
    for (Region& region : run.regions) {
        if (!region.writable) continue;
        region.firstGranule = granules;
        granules += (region.end - region.begin + kGranule - 1) / kGranule;
    }
    if (granules <= machine.globalGranules) return;
    const auto reserve = [&](uint64_t*& stamps) {
        if (stamps != nullptr) munmap(stamps, machine.globalGranules * sizeof(uint64_t));
        void* memory = mmap(nullptr, granules * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        stamps = static_cast<uint64_t*>(memory);
    };
    granules += granules / 2;
    reserve(machine.globalWrite);
    reserve(machine.globalRead);
    machine.globalGranules = granules;
}

}  // namespace emulator
