// Stores to GM under the atomic mode of the running core, for every instruction that writes GM.
#ifndef ASCENDFX_EMULATOR_ATOMIC_STORE_H
#define ASCENDFX_EMULATOR_ATOMIC_STORE_H

#include "instruction.h"

namespace emulator {

// Whether SetAtomicAdd/Max/Min is in force: set Options::atomic of the instruction to it.
bool IsAtomic();

// memcpy, or the element-wise atomic update if one is in force.
void StoreGlobal(void* to, const void* from, uint64_t bytes);

}  // namespace emulator

#endif
