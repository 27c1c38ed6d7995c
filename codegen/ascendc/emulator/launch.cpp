// Runs one launch: every logical core a fiber, deterministic order, deadlocks found.
#include "launch.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "fiber.h"
#include "interrupts.h"
#include "machine.h"

namespace emulator {

Machine machine;
Launch* launch = nullptr;
Core* current = nullptr;

namespace {

constexpr uint32_t kMostVainPolls = 10'000;

Launch run;  // kept between launches, so that its vectors are not allocated again
std::mutex oneLaunch;
uint32_t firstNew;                // fibers from here on have not started
std::vector<uint32_t> started;    // unfinished fibers in order of their start

uint32_t CoresPerBlock(KernelType type) {
    return type == KernelType::MIX_AIC_1_2 ? 3 : type == KernelType::MIX_AIC_1_1 ? 2 : 1;
}

void RecordFault(const char* kind, const std::string& text) {
    try {
        Fault(current->site, PIPE_S, kind, 0, "%s", text.c_str());
    } catch (const FaultException&) {
    }
}

void FiberMain() {
    try {
        run.entry(run.arguments);
        FinishCore(*current);
    } catch (const FaultException&) {
        // recorded in the launch, which ends
    } catch (const std::bad_alloc&) {
        RecordFault("host-memory", "the host has not the memory the kernel asks for");
    } catch (const std::exception& error) {
        RecordFault("host-exception", std::string("the kernel threw a C++ exception: ") + error.what());
    } catch (...) {
        RecordFault("host-exception", "the kernel threw a C++ exception; the chip has none");
    }
    run.fibers[run.running].state = FiberState::FINISHED;
    void* nowhere;
    SwitchStack(&nowhere, machine.schedulerStack);
    __builtin_unreachable();
}

void Start(uint32_t index) {
    Fiber& fiber = run.fibers[index];
    const Role role = RoleOf(index);
    fiber.core = AcquireCore(role.kind);
    ResetCore(*fiber.core, index, role.block, role.subBlock);
    if (fiber.core->stack == nullptr) fiber.core->stack = AllocateStack();
    fiber.stackPointer = PrepareStack(fiber.core->stack, FiberMain);
    fiber.state = FiberState::RUNNABLE;
    started.push_back(index);
    ++run.progress;
}

void Resume(uint32_t index) {
    Fiber& fiber = run.fibers[index];
    run.running = index;
    current = fiber.core;
    EnterKernel();
    SwitchStack(&machine.schedulerStack, fiber.stackPointer);
    if (LeaveKernel()) fiber.state = FiberState::FINISHED;
    current = nullptr;
    if (fiber.state != FiberState::FINISHED || run.fault.happened) return;
    ReleaseCore(fiber.core);
    fiber.core = nullptr;
    started.erase(std::find(started.begin(), started.end(), index));
}

[[noreturn]] void Deadlock() {
    const uint32_t first = started.front();
    std::string text = "no core can continue:";
    for (uint32_t index : started) {
        const Fiber& fiber = run.fibers[index];
        const Core& core = *fiber.core;
        if (text.size() > 700) {
            text += " and more";
            break;
        }
        text += " " + CoreName(core) + " of block " + std::to_string(core.block);
        if (fiber.state == FiberState::WAITING) {
            text += " waits for flag " + std::to_string(fiber.waitingFlag) + " in line " +
                    std::to_string(fiber.waitingSite.line) + ";";
        } else {
            text += " polls global memory in line " + std::to_string(core.site.line) + ";";
        }
    }
    text.pop_back();
    current = run.fibers[first].core;
    Fault(current->site, PIPE_S, "deadlock", 0, "%s", text.c_str());
}

// The next fiber: a runnable one, else a new one, else one that polls. Polling in vain has an end.
int64_t Choose(uint32_t after) {
    int64_t polling = -1;
    const size_t count = started.size();
    size_t start = 0;
    while (start < count && started[start] <= after) ++start;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t index = started[(start + i) % count];
        Fiber& fiber = run.fibers[index];
        if (fiber.state == FiberState::RUNNABLE) return index;
        const bool hopes = fiber.progressAtPoll != run.progress || fiber.vainPolls < kMostVainPolls;
        if (polling < 0 && fiber.state == FiberState::POLLING && hopes) polling = index;
    }
    if (firstNew < run.fibers.size()) {
        Start(firstNew);
        return firstNew++;
    }
    return polling;
}

void CheckLeftOverFlags() {
    for (size_t i = 0; i < run.fibers.size(); ++i) {
        const auto& cross = run.fibers[i].cross;
        if (!cross) continue;
        for (uint32_t id = 0; id < kMaxCrossFlags; ++id) {
            if (cross->arrived[id].empty() && cross->sent[id].empty()) continue;
            const Role role = RoleOf(static_cast<uint32_t>(i));
            run.fault.happened = true;
            run.fault.kind = "flag";
            run.fault.core = role.kind == CoreKind::CUBE ? "AIC" : "AIV";
            run.fault.block = role.block;
            run.fault.text = "cross-core flag " + std::to_string(id) +
                             (cross->sent[id].empty()
                                  ? " was set but never waited for: it would disturb the next "
                                    "kernel on this core"
                                  : " was set by this core but not by all its partners");
            return;
        }
    }
}

void RunAll() {
    const uint32_t count = run.blocks * CoresPerBlock(run.type);
    run.fibers.clear();
    run.fibers.resize(count);
    firstNew = 0;
    started.clear();
    uint32_t last = ~0u;
    while (!run.fault.happened) {
        const int64_t next = Choose(last);
        if (next < 0) {
            if (started.empty()) break;
            try {
                Deadlock();
            } catch (const FaultException&) {
            }
            break;
        }
        last = static_cast<uint32_t>(next);
        Resume(last);
    }
    if (!run.fault.happened) CheckLeftOverFlags();
    for (uint32_t index : started) ReleaseCore(run.fibers[index].core);
    current = nullptr;
}

// Overlapping arguments become one region with the rights of all of them.
void BuildRegions(const LaunchArgument* arguments, uint32_t count) {
    run.regions.clear();
    for (uint32_t i = 0; i < count; ++i) {
        if (arguments[i].bytes == 0) continue;
        const auto begin = reinterpret_cast<uint64_t>(arguments[i].address);
        const auto direction = static_cast<Direction>(arguments[i].direction);
        run.regions.push_back(Region{begin, begin + arguments[i].bytes,
                                     direction != Direction::IN,
                                     direction == Direction::OUT ||
                                         direction == Direction::WORKSPACE,
                                     0, i});
    }
    auto& regions = run.regions;
    std::stable_sort(regions.begin(), regions.end(),
                     [](const Region& a, const Region& b) { return a.begin < b.begin; });
    size_t kept = 0;
    for (size_t i = 0; i < regions.size(); ++i) {
        if (kept != 0 && regions[i].begin < regions[kept - 1].end) {
            Region& region = regions[kept - 1];
            region.end = std::max(region.end, regions[i].end);
            region.writable |= regions[i].writable;
            region.poisoned &= regions[i].poisoned;
        } else {
            regions[kept++] = regions[i];
        }
    }
    regions.resize(kept);
}

void CopyText(char* to, size_t size, const std::string& text) {
    std::strncpy(to, text.c_str(), size - 1);
    to[size - 1] = 0;
}

void Report(LaunchResult* result) {
    const FaultRecord& fault = run.fault;
    result->failed = fault.happened;
    for (uint32_t q = 0; q < kPipes; ++q) {
        result->instructions[q] = run.totals[q].instructions;
        result->bytes[q] = run.totals[q].bytes;
        result->elements[q] = run.totals[q].elements;
    }
    if (!fault.happened) return;
    CopyText(result->kind, sizeof result->kind, fault.kind);
    CopyText(result->text, sizeof result->text, fault.text);
    CopyText(result->core, sizeof result->core, fault.core);
    CopyText(result->file, sizeof result->file, fault.file);
    CopyText(result->pipe, sizeof result->pipe, fault.pipe < 0 ? "" : kPipeNames[fault.pipe]);
    result->block = fault.block;
    result->line = fault.line;
    result->address = fault.address;
}

}  // namespace

void Yield(FiberState state) {
    Fiber& fiber = run.fibers[run.running];
    fiber.state = state;
    fiber.vainPolls = fiber.progressAtPoll == run.progress ? fiber.vainPolls + 1 : 0;
    fiber.progressAtPoll = run.progress;
    SwitchStack(&fiber.stackPointer, machine.schedulerStack);
    fiber.state = FiberState::RUNNABLE;
}

}  // namespace emulator

extern "C" int32_t ascendfx_launch(const LaunchRequest* request, LaunchResult* result) {
    using namespace emulator;
    const std::lock_guard<std::mutex> lock(oneLaunch);
    launch = &run;
    run.entry = request->entry;
    run.arguments = request->pointers;
    run.argumentCount = request->argumentCount;
    run.argumentNames = request->argumentNames;
    run.type = static_cast<KernelType>(request->type);
    run.blocks = request->blocks;
    run.fault = FaultRecord{};
    run.progress = 0;
    for (Totals& totals : run.totals) totals = Totals{};
    for (int i = 0; i < static_cast<int>(Space::COUNT); ++i) {
        machine.capacity[i] = request->capacity[i];
    }
    BeginWatch(request->patience);
    try {
        BuildRegions(request->arguments, request->argumentCount);
        RestartClockIfHigh();
        PrepareGlobalShadow(run);
        run.base = machine.clock;
        RunAll();
    } catch (const std::bad_alloc&) {
        run.fault.happened = true;
        run.fault.kind = "host-memory";
        run.fault.text = "the host has not enough memory for this launch";
    }
    EndWatch();
    Report(result);
    launch = nullptr;
    return run.fault.happened ? 1 : 0;
}
