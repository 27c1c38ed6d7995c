// Events and barriers inside one core.
#include "interrupts.h"
#include "machine.h"
#include "sync.h"

namespace emulator {

namespace {

pipe_t SourcePipe(uint32_t pair) { return static_cast<pipe_t>(pair >> 4); }
pipe_t TargetPipe(uint32_t pair) { return static_cast<pipe_t>(pair & 15); }

// What is finished once everything issued on `pipe` so far is.
Clocks Finished(const Core& core, uint32_t pipe) {
    Clocks clocks = core.known[pipe];
    clocks.at[pipe] = core.clock[pipe];
    return clocks;
}

bool HasPipe(const Core& core, uint32_t pipe) {
    if (core.kind == CoreKind::CUBE) return pipe != PIPE_V;
    return pipe == PIPE_S || pipe == PIPE_V || pipe == PIPE_MTE2 || pipe == PIPE_MTE3;
}

void CheckUserEvent(const Core& core, uint32_t pair, int32_t id, const char* call, Site site) {
    const std::string event = EventName(pair);
    if (!HasPipe(core, pair >> 4) || !HasPipe(core, pair & 15)) {
        Fault(site, SourcePipe(pair), "event", 0, "%s<%s>: a %s core has no such pipe", call,
              event.c_str(), core.kind == CoreKind::CUBE ? "cube" : "vector");
    }
    if (id < 0 || id >= static_cast<int32_t>(kEventIds)) {
        Fault(site, SourcePipe(pair), "event", 0, "%s<%s>: event id %d is not in 0..7", call,
              event.c_str(), id);
    }
    if (!core.hasPipe && id >= static_cast<int32_t>(kUserEventIds)) {
        Fault(site, SourcePipe(pair), "event", 0,
              "%s<%s>: event id %d belongs to the system; static-tensor kernels use 0..5", call,
              event.c_str(), id);
    }
}

}  // namespace

void SetEvent(Core& core, uint32_t pair, uint32_t id, Site site) {
    GoOn();
    Event& event = core.events[PairIndex(pair)][id];
    if (event.set) {
        Fault(site, SourcePipe(pair), "event", id,
              "SetFlag<%s>(%u): already set in line %u and not waited for since",
              EventName(pair).c_str(), id, event.site.line);
    }
    event.set = true;
    event.site = site;
    event.message = Finished(core, pair >> 4);
    ++core.openEvents;
}

void WaitEvent(Core& core, uint32_t pair, uint32_t id, Site site) {
    GoOn();
    Event& event = core.events[PairIndex(pair)][id];
    if (!event.set) {
        Fault(site, TargetPipe(pair), "event", id,
              "WaitFlag<%s>(%u): nothing has set it: the pipe would wait for ever",
              EventName(pair).c_str(), id);
    }
    event.set = false;
    core.known[pair & 15].Join(event.message);
    --core.openEvents;
}

int AllocateEventId(Core& core, uint32_t pair, Site site) {
    GoOn();
    uint8_t& used = core.allocatedIds[PairIndex(pair)];
    for (uint32_t id = 0; id < kEventIds; ++id) {
        if (used & (1u << id)) continue;
        used |= static_cast<uint8_t>(1u << id);
        return static_cast<int>(id);
    }
    Fault(site, SourcePipe(pair), "event", 0,
          "all 8 event ids of %s are in use (a queue holds one per buffer in flight)",
          EventName(pair).c_str());
}

void ReleaseEventId(Core& core, uint32_t pair, uint32_t id, Site site) {
    uint8_t& used = core.allocatedIds[PairIndex(pair)];
    if (!(used & (1u << id))) {
        Fault(site, SourcePipe(pair), "event", id, "ReleaseEventID<%s>(%u): was not allocated",
              EventName(pair).c_str(), id);
    }
    used &= static_cast<uint8_t>(~(1u << id));
}

void SetFlag(uint32_t pair, int32_t id, Site site) {
    CheckUserEvent(*current, pair, id, "SetFlag", site);
    SetEvent(*current, pair, static_cast<uint32_t>(id), site);
}

void WaitFlag(uint32_t pair, int32_t id, Site site) {
    CheckUserEvent(*current, pair, id, "WaitFlag", site);
    WaitEvent(*current, pair, static_cast<uint32_t>(id), site);
}

int32_t AllocEventId(uint32_t pair, Site site) { return AllocateEventId(*current, pair, site); }

int32_t FetchEventId(uint32_t pair, Site site) {
    const int id = AllocateEventId(*current, pair, site);
    ReleaseEventId(*current, pair, static_cast<uint32_t>(id), site);
    return id;
}

void ReleaseEventId(uint32_t pair, int32_t id, Site site) {
    CheckUserEvent(*current, pair, id, "ReleaseEventID", site);
    ReleaseEventId(*current, pair, static_cast<uint32_t>(id), site);
}

void PipeBarrier(pipe_t pipe, Site site) {
    Core& core = *current;
    core.site = site;
    if (pipe != PIPE_ALL) {
        if (!HasPipe(core, pipe)) {
            Fault(site, pipe, "arguments", 0, "PipeBarrier: a %s core has no pipe %s",
                  core.kind == CoreKind::CUBE ? "cube" : "vector", kPipeNames[pipe]);
        }
        core.known[pipe] = Finished(core, pipe);
        return;
    }
    core.needsBarrier = false;
    for (uint32_t q = 0; q < kPipes; ++q) {
        for (uint32_t r = 0; r < kPipes; ++r) core.known[q].at[r] = core.clock[r];
    }
}

void InitSocState(Site site) {
    current->site = site;
    if (current->hasPipe) {
        Fault(site, PIPE_S, "arguments", 0,
              "InitSocState: the kernel already uses TPipe; the two styles do not mix");
    }
    current->isStatic = true;
}

void CleanCache(const GlobalOperand& tensor, uint64_t bytes, Site site) {
    current->site = site;
    if (bytes == ~uint64_t{0}) {
        for (const Region& region : launch->regions) {
            if (region.writable) CleanDataCache(*current, region.begin, region.end - region.begin);
        }
    } else {
        // Lines are counted from the start of the allocation, which a device aligns to lines; the
        // arrays that stand for it on the host may begin anywhere.
        const auto address = reinterpret_cast<uint64_t>(tensor.address);
        if (const Region* region = FindRegion(address)) {
            const uint64_t line = (address - region->begin) / bytes * bytes;
            CleanDataCache(*current, region->begin + line, bytes);
        }
    }
    Yield(FiberState::POLLING);  // a loop around this call polls what another core writes
}

}  // namespace emulator
