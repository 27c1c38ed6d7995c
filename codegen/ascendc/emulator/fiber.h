// Cooperative threads: one call stack per running core, switched by hand.
#ifndef ASCENDFX_EMULATOR_FIBER_H
#define ASCENDFX_EMULATOR_FIBER_H

namespace emulator {

// Returns the top of a new stack with an unmapped page below it; throws std::bad_alloc.
void* AllocateStack();

// Makes the first switch to the returned stack pointer call `entry`, which must never return.
void* PrepareStack(void* top, void (*entry)());

// Saves the running context in `*save` and continues `next`.
void SwitchStack(void** save, void* next);

}  // namespace emulator

#endif
