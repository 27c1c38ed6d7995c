// Issue: the one place every instruction passes through. Structural checks, then the shadow.
#include "checks.h"
#include "interrupts.h"
#include "machine.h"

namespace emulator {

namespace {

[[noreturn]] void RangeFault(const Access& access, const Range& range, const char* kind,
                             uint64_t address, const std::string& text) {
    const std::string place = DescribeAddress(range, address);
    const uint64_t shown = range.space == Space::GLOBAL ? OffsetInRegion(address) : address;
    Fault(access.core->site, static_cast<pipe_t>(access.pipe), kind, shown, "%s: %s: %s",
          access.name, place.c_str(), text.c_str());
}

// First and one-past-last byte of a strided range.
void Extent(const Range& range, uint64_t* begin, uint64_t* end) {
    const int64_t inner = static_cast<int64_t>(range.count - 1) * range.stride;
    const int64_t outer = static_cast<int64_t>(range.outerCount - 1) * range.outerStride;
    const int64_t low = (inner < 0 ? inner : 0) + (outer < 0 ? outer : 0);
    const int64_t high = (inner > 0 ? inner : 0) + (outer > 0 ? outer : 0);
    *begin = range.address + static_cast<uint64_t>(low);
    *end = range.address + static_cast<uint64_t>(high) + range.length;
}

void CheckLocal(const Access& access, const Range& range, uint64_t begin, uint64_t end) {
    const Core& core = *access.core;
    const LocalMemory& memory = core.memory[static_cast<int>(range.space)];
    if (memory.size == 0) {
        RangeFault(access, range, "arguments", begin,
                   "a " + std::string(core.kind == CoreKind::CUBE ? "cube" : "vector") +
                       " core has no such memory");
    }
    if (end > memory.size || begin > end) {
        RangeFault(access, range, "bounds", begin,
                   "access up to byte " + std::to_string(end) + " of a memory of " +
                       std::to_string(memory.size) + " bytes");
    }
    if (range.alignment != 0 && range.address % (range.alignment * 32u) != 0) {
        RangeFault(access, range, "alignment", range.address,
                   "the address must be a multiple of " + std::to_string(range.alignment * 32) +
                       " bytes");
    }
    if (range.buffer == 0) return;
    const Buffer& buffer = core.buffers[range.buffer - 1];
    if (range.buffer > core.bufferCount || buffer.generation != range.generation) {
        RangeFault(access, range, "queue", begin, "the tensor was used after FreeTensor");
    }
}

void CheckGlobal(const Access& access, const Range& range, uint64_t begin, uint64_t end,
                 bool isWrite) {
    const Region* region = FindRegion(range.origin);
    if (region == nullptr || begin < region->begin || end > region->end) {
        const bool beginsInside =
            region != nullptr && begin >= region->begin && begin < region->end;
        std::string text = "access of " + std::to_string(end - begin) + " bytes leaves the argument";
        if (region != nullptr) {
            if (!beginsInside) text += std::string(" `") + launch->argumentNames[region->argument] + "`";
            text += " of " + std::to_string(region->end - region->begin) + " bytes";
        }
        RangeFault(access, range, "bounds", beginsInside ? region->end : begin, text);
    }
    if (isWrite && !region->writable) {
        RangeFault(access, range, "direction", begin, "write to an argument declared `in`");
    }
}

void CheckRange(const Access& access, const Range& range, bool isWrite) {
    uint64_t begin, end;
    Extent(range, &begin, &end);
    if (begin < range.tensorBegin || end > range.tensorEnd || begin > end) {
        RangeFault(access, range, "bounds", begin,
                   std::string(isWrite ? "write" : "read") + " of bytes " +
                       std::to_string(static_cast<int64_t>(begin - range.tensorBegin)) + " to " +
                       std::to_string(static_cast<int64_t>(end - range.tensorBegin)) +
                       " of a tensor of " + std::to_string(range.tensorEnd - range.tensorBegin) +
                       " bytes");
    }
    if (range.space == Space::GLOBAL) {
        CheckGlobal(access, range, begin, end, isWrite);
    } else {
        CheckLocal(access, range, begin, end);
    }
}

// Calls `touch` for each maximal contiguous piece.
template <typename Touch>
void ForEachPiece(const Range& range, Touch touch) {
    uint64_t length = range.length;
    uint32_t count = range.count, outer = range.outerCount;
    if (count > 1 && range.stride == static_cast<int64_t>(length)) {
        length *= count;
        count = 1;
    }
    if (count == 1 && outer > 1 && range.outerStride == static_cast<int64_t>(length)) {
        length *= outer;
        outer = 1;
    }
    for (uint32_t i = 0; i < outer; ++i) {
        const uint64_t row = range.address + static_cast<uint64_t>(i * range.outerStride);
        for (uint32_t j = 0; j < count; ++j) {
            touch(row + static_cast<uint64_t>(j * range.stride), length);
        }
    }
}

// EnQue and DeQue between those who write a tensor of a queue and those who read it. Clocks do not
// tell that they are missing where the compiler orders the scalar pipe with the others.
void CheckHandOver(const Access& access, const Range& range, bool isWrite) {
    if (range.buffer == 0) return;
    Buffer& buffer = access.core->buffers[range.buffer - 1];
    if (buffer.state == BufferState::SCRATCH) return;
    const bool isHandedOver = buffer.state == BufferState::DEQUEUED;
    if (isWrite) {
        buffer.filled |= access.pipe == PIPE_MTE2 && !isHandedOver;
        buffer.stored |= access.pipe == PIPE_S;
    } else if (buffer.filled && buffer.position == AscendC::TPosition::VECIN) {
        RangeFault(access, range, "queue", range.address,
                   "a copy filled the tensor, and no EnQue and DeQue handed it over");
    } else if (access.pipe == PIPE_MTE3 && (buffer.stored || !isHandedOver)) {
        RangeFault(access, range, "queue", range.address,
                   "the tensor is copied out, and no EnQue and DeQue handed over what was written");
    }
}

bool Touches(const Range& range) {
    return range.length != 0 && range.count != 0 && range.outerCount != 0;
}

void Record(const Access& access, const Range& range, bool isWrite) {
#if EMULATOR_RACES || EMULATOR_POISON
    const bool global = range.space == Space::GLOBAL;
    ForEachPiece(range, [&](uint64_t begin, uint64_t length) {
        if (global) {
            (isWrite ? WriteGlobal : ReadGlobal)(access, range, begin, length);
        } else {
            (isWrite ? WriteLocal : ReadLocal)(access, range, begin, length);
        }
    });
#else
    (void)access, (void)range, (void)isWrite, (void)ForEachPiece<int (*)(uint64_t, uint64_t)>;
#endif
}

// Where cycles will be booked: pipe, cost, operands and what it waited for (`known`) are all here.
void Book(Core& core, pipe_t pipe, const Cost& cost) {
    Totals& totals = core.totals[pipe];
    ++totals.instructions;
    totals.bytes += cost.bytes;
    totals.elements += cost.elements;
}

void CheckPipe(const Access& access) {
    const bool cube = access.core->kind == CoreKind::CUBE;
    const bool cubePipe =
        access.pipe == PIPE_M || access.pipe == PIPE_MTE1 || access.pipe == PIPE_FIX;
    if ((cube && access.pipe == PIPE_V) || (!cube && cubePipe)) {
        Fault(access.core->site, static_cast<pipe_t>(access.pipe), "arguments", 0,
              "%s: a %s core has no pipe %s", access.name, cube ? "cube" : "vector",
              kPipeNames[access.pipe]);
    }
}

Access Begin(Core& core, const char* name, pipe_t pipe, Site site, const Options& options) {
    core.site = site;
    core.needsBarrier |= pipe != PIPE_S;
    Access access{};
    access.core = &core;
    access.name = name;
    access.pipe = pipe;
    access.atomic = options.atomic;
    access.carriesPoison = options.carriesPoison;
    GoOn();
    if (core.clock[pipe] >= machine.lastClock) EndlessFault();
    access.clock = ++core.clock[pipe];
    for (uint32_t q = 0; q < kPipes; ++q) access.limit[q] = core.known[pipe].at[q];
    const bool vectorCore = core.kind == CoreKind::VECTOR;
    if (options.inPipe == InPipe::ORDERED || pipe == PIPE_S || (vectorCore && pipe == PIPE_V)) {
        access.limit[pipe] = ~0u;
    }
    // On vector cores the compiler orders every scalar access with the other pipes.
    if (vectorCore) access.limit[PIPE_S] = ~0u;
    if (vectorCore && pipe == PIPE_S) {
        for (uint32_t& limit : access.limit) limit = ~0u;
    }
    auto& log = core.log[pipe];
    if (log.empty()) log.resize(kLogged);
    log[access.clock % kLogged] = LogEntry{name, site, access.clock, core.logical};
    return access;
}

}  // namespace

void IssueLists(const char* name, pipe_t pipe, Site site, RangeList reads, RangeList writes,
                Cost cost, Options options) {
    Core& core = *current;
    const Access access = Begin(core, name, pipe, site, options);
    CheckPipe(access);
    for (uint32_t i = 0; i < reads.count; ++i) {
        if (Touches(reads.first[i])) CheckRange(access, reads.first[i], false);
    }
    for (uint32_t i = 0; i < writes.count; ++i) {
        if (Touches(writes.first[i])) CheckRange(access, writes.first[i], true);
    }
    for (uint32_t i = 0; i < reads.count; ++i) {
        if (!Touches(reads.first[i])) continue;
        Record(access, reads.first[i], false);
        CheckHandOver(access, reads.first[i], false);
    }
    for (uint32_t i = 0; i < writes.count; ++i) {
        if (!Touches(writes.first[i])) continue;
        Record(access, writes.first[i], true);
        CheckHandOver(access, writes.first[i], true);
    }
    launch->progress += writes.count;
    Book(core, pipe, cost);
}

void Issue(const char* name, pipe_t pipe, Site site, Ranges reads, Ranges writes, Cost cost,
           Options options) {
    IssueLists(name, pipe, site,
               RangeList{reads.begin(), static_cast<uint32_t>(reads.size())},
               RangeList{writes.begin(), static_cast<uint32_t>(writes.size())}, cost, options);
}

std::byte* LocalBytes(const LocalOperand& tensor) {
    return current->memory[static_cast<int>(tensor.space())].bytes + tensor.address;
}

uint64_t& ControlRegister(Register which) {
    return current->registers[static_cast<int>(which)];
}

bool OnCubeCore() { return current->kind == CoreKind::CUBE; }
bool OnVectorCore() { return current->kind == CoreKind::VECTOR; }

}  // namespace emulator
