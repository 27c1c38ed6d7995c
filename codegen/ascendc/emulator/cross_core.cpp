// Flags between cores: counters with a vector clock for every unanswered set.
#include "machine.h"
#include "sync.h"

namespace emulator {

namespace {

// Logical cores: in a mixed kernel group g has AIC 3g and AIV 3g+1, 3g+2; else one per block.
bool IsCube(uint32_t core) {
    switch (launch->type) {
        case KernelType::MIX_AIC_1_2: return core % 3 == 0;
        case KernelType::MIX_AIC_1_1: return core % 2 == 0;
        case KernelType::AIC_ONLY:
        case KernelType::MIX_AIC_1_0: return true;
        default: return false;
    }
}

uint32_t GroupSize() {
    switch (launch->type) {
        case KernelType::MIX_AIC_1_2: return 3;
        case KernelType::MIX_AIC_1_1: return 2;
        default: return 1;
    }
}

CrossFlags& FlagsOf(uint32_t core) {
    auto& flags = launch->fibers[core].cross;
    if (!flags) flags = std::make_unique<CrossFlags>();
    return *flags;
}

void CheckFlag(const char* call, uint32_t mode, uint32_t id, Site site) {
    const KernelType type = launch->type;
    if (type == KernelType::AIV_ONLY || type == KernelType::AIC_ONLY) {
        Fault(site, PIPE_S, "flag", id,
              "%s(%u): only MIX kernels start the scheduler; AIV_ONLY and AIC_ONLY have no "
              "cross-core flags",
              call, id);
    }
    if (id >= kMaxCrossFlags) {
        Fault(site, PIPE_S, "flag", id, "%s(%u): use flags 0..10; 11..14 belong to SyncAll", call,
              id);
    }
    if (mode != 0 && GroupSize() == 1) {
        Fault(site, PIPE_S, "flag", id, "%s(%u): mode %u needs KERNEL_TYPE_MIX_AIC_1_1 or _1_2",
              call, id, mode);
    }
}

// The cores whose sets are collected together with those of `core`, and the cores that are told.
void Participants(uint32_t core, uint32_t mode, std::vector<uint32_t>* setters,
                  std::vector<uint32_t>* receivers) {
    const uint32_t group = core / GroupSize() * GroupSize();
    const auto count = static_cast<uint32_t>(launch->fibers.size());
    const bool cube = IsCube(core);
    const uint32_t first = mode == 0 ? 0 : group;
    const uint32_t last = mode == 0 ? count : group + GroupSize();
    for (uint32_t other = first; other < last; ++other) {
        if (IsCube(other) == cube) setters->push_back(other);
        if ((IsCube(other) == cube) != (mode == 2)) receivers->push_back(other);
    }
}

void Deliver(uint32_t core, uint32_t id, const Knowledge& message, Site site) {
    auto& arrived = FlagsOf(core).arrived[id];
    if (arrived.size() >= kMaxFlagCount) {
        Fault(site, PIPE_S, "flag", id,
              "CrossCoreSetFlag(%u): the counter of the receiving core passes 15; it must wait "
              "more often, or be answered with a reverse flag",
              id);
    }
    arrived.push_back(message);
    Fiber& fiber = launch->fibers[core];
    if (fiber.state == FiberState::WAITING && fiber.waitingFlag == id) {
        fiber.state = FiberState::RUNNABLE;
    }
}

Knowledge MessageOf(const Core& core, pipe_t pipe) {
    Knowledge message = core.foreign;
    if (message.empty()) {
        Clocks before{};
        for (uint32_t& clock : before.at) clock = launch->base;
        message.assign(launch->fibers.size(), before);
    }
    message[core.logical] = core.known[pipe];
    message[core.logical].at[pipe] = core.clock[pipe];
    return message;
}

void Join(Knowledge* into, const Knowledge& other) {
    if (into->empty()) {
        *into = other;
        return;
    }
    for (size_t i = 0; i < into->size(); ++i) (*into)[i].Join(other[i]);
}

}  // namespace

void CrossCoreSet(uint32_t mode, pipe_t pipe, uint32_t id, Site site) {
    Core& core = *current;
    core.site = site;
    CheckFlag("CrossCoreSetFlag", mode, id, site);
    CrossFlags& own = FlagsOf(core.logical);
    if (!own.sent[id].empty() && own.mode[id] != mode) {
        Fault(site, pipe, "flag", id,
              "CrossCoreSetFlag(%u): mode %u while a set of mode %u is unanswered", id, mode,
              own.mode[id]);
    }
    own.sent[id].push_back(MessageOf(core, pipe));
    own.mode[id] = static_cast<uint8_t>(mode);
    std::vector<uint32_t> setters, receivers;
    Participants(core.logical, mode, &setters, &receivers);
    Knowledge joined;
    for (uint32_t other : setters) {
        if (FlagsOf(other).sent[id].empty() || FlagsOf(other).mode[id] != mode) return;
    }
    for (uint32_t other : setters) {
        auto& sent = FlagsOf(other).sent[id];
        Join(&joined, sent.front());
        sent.erase(sent.begin());
    }
    for (uint32_t other : receivers) Deliver(other, id, joined, site);
}

void CrossCoreWait(uint32_t id, Site site) {
    Core& core = *current;
    core.site = site;
    CheckFlag("CrossCoreWaitFlag", 0, id, site);
    Fiber& fiber = launch->fibers[core.logical];
    auto& arrived = FlagsOf(core.logical).arrived[id];
    while (arrived.empty()) {
        fiber.waitingFlag = id;
        fiber.waitingSite = site;
        Yield(FiberState::WAITING);
    }
    // On 2201 the wait holds back every pipe, so the whole core learns what the setters knew.
    Join(&core.foreign, arrived.front());
    arrived.erase(arrived.begin());
    const Clocks& returned = core.foreign[core.logical];
    for (Clocks& known : core.known) known.Join(returned);
}

}  // namespace emulator
