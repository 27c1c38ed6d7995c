// Kernels that the host would end, or that would not end: both become faults of their launch.
#ifndef ASCENDFX_EMULATOR_INTERRUPTS_H
#define ASCENDFX_EMULATOR_INTERRUPTS_H

#include <cstdint>

#include "machine.h"

namespace emulator {

// Around the launches. `patience`: milliseconds of computing in which no core writes anything; 0 =
// no limit.
void BeginWatch(uint32_t patience);
void EndWatch();

// Around the time in which a fiber runs: a signal is the kernel's if it comes between them.
void EnterKernel();
// Whether a signal ended the fiber, which then never runs again; records the fault.
bool LeaveKernel();

// The fault `machine.stop` asks for.
[[noreturn]] void StopFault();

// At the start of what a kernel may call for ever: throws if the launch is to end.
inline void GoOn() {
    if (launch->fault.happened) throw FaultException{};  // a kernel that caught its fault goes on
    if (machine.stop.load(std::memory_order_relaxed) != Stop::NO) StopFault();
}

}  // namespace emulator

#endif
