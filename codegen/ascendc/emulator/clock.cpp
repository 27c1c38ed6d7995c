// The clock that orders all instructions has 32 bits, which a process uses up within hours. Between
// launches nothing of a shadow counts, so there the clock may start again if no old stamp is left.
#include <sys/mman.h>

#include <cstring>

#include "machine.h"

namespace emulator {

namespace {

void ForgetLocal(LocalMemory& memory) {
    const uint32_t granules = memory.size / kGranule;
    if (granules == 0) return;
    std::memset(memory.write, 0, granules * sizeof(uint64_t));
    for (uint32_t* clocks : memory.read) {
        if (clocks != nullptr) std::memset(clocks, 0, granules * sizeof(uint32_t));
    }
}

void ForgetGlobal() {
    if (machine.globalGranules == 0) return;
    munmap(machine.globalWrite, machine.globalGranules * sizeof(uint64_t));
    munmap(machine.globalRead, machine.globalGranules * sizeof(uint64_t));
    machine.globalWrite = machine.globalRead = nullptr;
    machine.globalGranules = 0;
}

}  // namespace

void RestartClockIfHigh() {
    if (machine.clock <= kRestartClock) return;
    for (Core* core : machine.all) {
        for (LocalMemory& memory : core->memory) ForgetLocal(memory);
    }
    ForgetGlobal();
    machine.clock = 0;
}

void EndlessFault() {
    Fault(current->site, PIPE_S, "endless", 0,
          "the launch has issued %u instructions on one core after another; is there a loop without "
          "end?",
          machine.lastClock - launch->base);
}

}  // namespace emulator
