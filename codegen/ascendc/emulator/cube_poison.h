// Passing "never written" on from L1 to L0, for loads that move whole fractals. After Issue, which
// marks everything as written.
#ifndef ASCENDFX_EMULATOR_CUBE_POISON_H
#define ASCENDFX_EMULATOR_CUBE_POISON_H

#include "instruction.h"

namespace emulator {

// A plain copy; addresses and length are multiples of 32.
void CarryPoison(Space from, uint64_t source, Space to, uint64_t target, uint64_t bytes);

// A 16 x 16 block of 16-bit numbers that was transposed.
void CarryTransposed(Space from, uint64_t source, Space to, uint64_t target);

}  // namespace emulator

#endif
