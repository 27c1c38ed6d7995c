// Passing "never written" on from L1 to L0, for loads that move whole fractals.
#ifndef ASCENDFX_EMULATOR_CUBE_POISON_H
#define ASCENDFX_EMULATOR_CUBE_POISON_H

#include "instruction.h"

namespace emulator {

// One 512-byte fractal, offsets from the tensors. `transposedBytes`: 0 = copied as it is, 2 = a
// 16 x 16 block of 16-bit numbers was transposed.
inline void CarryFractal(const LocalOperand& src, uint64_t from, const LocalOperand& dst,
                         uint64_t to, uint32_t transposedBytes) {
    constexpr uint32_t kRows = 16, kRowBytes = 32;
    const uint64_t source = src.address + from, target = dst.address + to;
    if (!IsPoisoned(src.space(), source, kRows * kRowBytes)) return;
    for (uint32_t row = 0; row < kRows; ++row) {
        if (!IsPoisoned(src.space(), source + row * kRowBytes, kRowBytes)) continue;
        const uint32_t step = transposedBytes == 0 ? 1 : transposedBytes;
        for (uint32_t at = 0; at < kRowBytes; at += step) {
            if (!IsPoisoned(src.space(), source + row * kRowBytes + at, step)) continue;
            const uint64_t where = transposedBytes == 0 ? row * kRowBytes + at
                                                        : at / step * kRowBytes + row * step;
            SetPoison(dst.space(), target + where, step);
        }
    }
}

}  // namespace emulator

#endif
