// Cooperative threads: one call stack per running core, switched by hand.
#ifndef ASCENDFX_EMULATOR_FIBER_H
#define ASCENDFX_EMULATOR_FIBER_H

#include <cstddef>
#include <cstdint>

namespace emulator {

constexpr size_t kStackBytes = size_t{512} << 10;

// Returns the top of a new stack with unmapped memory below it; throws std::bad_alloc.
void* AllocateStack();

// Whether `address` lies in the unmapped memory below the stack with this top.
bool IsGuard(const void* top, uint64_t address);

// Makes the first switch to the returned stack pointer call `entry`, which must never return.
void* PrepareStack(void* top, void (*entry)());

// Saves the running context in `*save` and continues `next`.
void SwitchStack(void** save, void* next);

}  // namespace emulator

#endif
