// Kernels that the host would end, or that would not end: both become faults of their launch.
#ifndef ASCENDFX_EMULATOR_INTERRUPTS_H
#define ASCENDFX_EMULATOR_INTERRUPTS_H

#include <cstdint>

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

}  // namespace emulator

#endif
