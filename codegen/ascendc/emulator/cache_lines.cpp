// Scalar writes to global memory stay in the data cache of their core, which later writes back whole
// lines: two cores that write into one line, even to different bytes, lose what the other wrote.
// Source: asc-devkit 9.1, API, GlobalTensor, SetValue.
#include "machine.h"

namespace emulator {

namespace {

constexpr uint64_t kLine = 64;

[[noreturn]] void LineFault(const Access& access, const Range& range, uint64_t begin,
                            const LineWrite& write) {
    const std::string place = DescribeAddress(range, begin);
    const std::string other = DescribeParty(access, write.writer);
    Fault(access.core->site, PIPE_S, "race", OffsetInRegion(begin),
          "%s (S) writes %s, in the cache line of 64 bytes where %s wrote%s: the cores write back "
          "whole lines over each other; give each core a line of its own",
          access.name, place.c_str(), other.c_str(),
          write.isDirty ? " and did not clean its cache" : ", and nothing orders them");
}

}  // namespace

void WriteCacheLines(const Access& access, const Range& range, uint64_t begin, uint64_t length) {
    const uint64_t origin = FindRegion(begin)->begin;  // as aligned on the device
    const Party mine{access.clock, access.core->logical, PIPE_S};
    for (uint64_t at = (begin - origin) / kLine; at <= (begin + length - 1 - origin) / kLine; ++at) {
        const uint64_t address = origin + at * kLine;
        auto& writes = machine.cacheLines[address];
        LineWrite* own = nullptr;
        for (LineWrite& write : writes) {
            if (write.writer.core == mine.core) {
                own = &write;
            } else if (write.isDirty || !IsOrderedBefore(write.writer, access)) {
                LineFault(access, range, begin, write);
            }
        }
        if (own == nullptr) own = &writes.emplace_back();
        *own = LineWrite{mine, true};
    }
}

void CleanCacheLines(const Core& core, uint64_t begin, uint64_t length) {
    const auto clean = [&](std::vector<LineWrite>& writes) {
        for (LineWrite& write : writes) {
            if (write.writer.core == core.logical) write.isDirty = false;
        }
    };
    if (length == kLine) {
        const auto found = machine.cacheLines.find(begin);
        if (found != machine.cacheLines.end()) clean(found->second);
        return;
    }
    for (auto& [address, writes] : machine.cacheLines) {
        if (address >= begin && address < begin + length) clean(writes);
    }
}

}  // namespace emulator
