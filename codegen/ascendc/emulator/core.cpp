// Physical cores: their memories, and what happens when a logical core starts and ends.
#include <cstring>

#include "machine.h"

namespace emulator {

namespace {

uint32_t SizeOf(CoreKind kind, Space space) {
    const bool cube = kind == CoreKind::CUBE;
    switch (space) {
        case Space::UB: return cube ? 0 : 196608;
        case Space::L1: return cube ? 524288 : 0;
        case Space::L0A:
        case Space::L0B: return cube ? 65536 : 0;
        case Space::L0C: return cube ? 131072 : 0;
        case Space::BIAS_TABLE: return cube ? 1024 : 0;
        case Space::FIXPIPE_BUFFER: return cube ? 2048 : 0;
        default: return 0;
    }
}

void* Zeroed(size_t bytes) {
    void* memory = std::calloc(bytes, 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

Core* MakeCore(CoreKind kind) {
    Core* core = new Core();
    core->kind = kind;
    for (int i = 0; i < static_cast<int>(Space::COUNT); ++i) {
        LocalMemory& memory = core->memory[i];
        memory.size = SizeOf(kind, static_cast<Space>(i));
        if (memory.size == 0) continue;
        memory.bytes = static_cast<std::byte*>(Zeroed(memory.size));
        const uint32_t granules = memory.size / kGranule;
        memory.write = static_cast<uint64_t*>(Zeroed(granules * sizeof(uint64_t)));
        memory.mask = static_cast<uint32_t*>(Zeroed(granules * sizeof(uint32_t)));
    }
    machine.all.push_back(core);
    return core;
}

void CheckLastBarrier(const Core& core) {
    if (!core.isStatic || !core.needsBarrier) return;
    Fault(core.site, PIPE_S, "barrier", 0,
          "a kernel with static tensors must end with PipeBarrier<PIPE_ALL>(); its last instruction "
          "is here");
}

}  // namespace

Role RoleOf(uint32_t logical) {
    switch (launch->type) {
        case KernelType::MIX_AIC_1_2:
            return logical % 3 == 0 ? Role{CoreKind::CUBE, logical / 3, 0}
                                    : Role{CoreKind::VECTOR, logical / 3, logical % 3 - 1};
        case KernelType::MIX_AIC_1_1:
            return Role{logical % 2 == 0 ? CoreKind::CUBE : CoreKind::VECTOR, logical / 2, 0};
        case KernelType::AIC_ONLY:
        case KernelType::MIX_AIC_1_0: return Role{CoreKind::CUBE, logical, 0};
        default: return Role{CoreKind::VECTOR, logical, 0};
    }
}

Core* AcquireCore(CoreKind kind) {
    auto& idle = machine.idle[static_cast<int>(kind)];
    if (idle.empty()) return MakeCore(kind);
    Core* core = idle.back();
    idle.pop_back();
    return core;
}

void ReleaseCore(Core* core) {
    for (uint32_t q = 0; q < kPipes; ++q) {
        if (core->clock[q] > machine.clock) machine.clock = core->clock[q];
        launch->totals[q].instructions += core->totals[q].instructions;
        launch->totals[q].bytes += core->totals[q].bytes;
        launch->totals[q].elements += core->totals[q].elements;
    }
    machine.idle[static_cast<int>(core->kind)].push_back(core);
}

void ResetCore(Core& core, uint32_t logical, uint32_t block, uint32_t subBlock) {
    core.base = machine.clock;
    for (uint32_t& clock : core.clock) clock = core.base;
    for (Clocks& known : core.known) {
        for (uint32_t& clock : known.at) clock = core.base;
    }
    core.logical = logical;
    core.block = block;
    core.subBlock = subBlock;
    core.foreign.clear();
    if (!core.endedWell) {  // a signal may even have left an event that is set and not counted
        for (auto& pair : core.events) {
            for (Event& event : pair) event.set = false;
        }
        core.openEvents = 0;
    }
    core.endedWell = false;
    std::memset(core.allocatedIds, 0, sizeof core.allocatedIds);
    core.bufferCount = core.queueCount = 0;
    std::memset(core.spaceUsed, 0, sizeof core.spaceUsed);
    core.hasPipe = core.isStatic = core.needsBarrier = false;
    std::memset(core.registers, 0, sizeof core.registers);
    core.registers[static_cast<int>(Register::MASK_LOW)] = ~uint64_t{0};
    core.registers[static_cast<int>(Register::MASK_HIGH)] = ~uint64_t{0};
    core.site = Site{"", 0};
    for (Totals& totals : core.totals) totals = Totals{};
    for (int i = 0; i < static_cast<int>(Space::COUNT); ++i) {
        LocalMemory& memory = core.memory[i];
        // Also where this kind of core lacks the memory: common code of a mixed kernel may plan it.
        memory.capacity = machine.capacity[i];
    }
}

void FinishCore(Core& core) {
    for (uint32_t i = 0; i < core.bufferCount; ++i) {
        Buffer& buffer = core.buffers[i];
        if (buffer.freeEvent >= 0) {  // TPipe's destructor waits for these
            WaitEvent(core, buffer.freePair, static_cast<uint32_t>(buffer.freeEvent), core.site);
        }
        if (buffer.state == BufferState::FREE || buffer.state == BufferState::SCRATCH) continue;
        Fault(buffer.site, PIPE_S, "leak", buffer.address,
              "the tensor allocated here is still %s when the kernel ends (FreeTensor missing)",
              buffer.state == BufferState::QUEUED ? "in its queue" : "allocated");
    }
    if (core.registers[static_cast<int>(Register::ATOMIC)] != 0) {
        Fault(core.site, PIPE_S, "leak", 0,
              "an atomic mode is still on when the kernel ends (SetAtomicNone missing)");
    }
    if (core.openEvents == 0) {
        CheckLastBarrier(core);
        core.endedWell = true;
        return;
    }
    for (uint32_t pair = 0; pair < kPipes * kPipes; ++pair) {
        for (uint32_t id = 0; id < kEventIds; ++id) {
            const Event& event = core.events[pair][id];
            if (!event.set) continue;
            const std::string name = EventName((pair / kPipes) << 4 | pair % kPipes);
            Fault(event.site, static_cast<pipe_t>(pair / kPipes), "event", id,
                  "SetFlag<%s>(%u) is never waited for: the left-over flag would disturb the next "
                  "kernel on this core",
                  name.c_str(), id);
        }
    }
}

}  // namespace emulator
