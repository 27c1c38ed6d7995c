// The arithmetic of the cube unit, without any checking: one Mmad on unpacked pointers.
//
// Layouts (asc-devkit, "fractal formats in detail", architecture 2201); k0 = 32 / sizeof(element), 64 for
// int4b_t, of which two share a byte, the first in the low half:
//   A  Zz  [m/16][k/k0][16][k0]     or a plain vector of k elements when m == 1 (GEMV)
//   B  Zn  [k/k0][n/16][16 of n][k0]
//   C  Nz  [n/16][m/16][16][16]     float, or int32 for int8 and int4b_t operands
#ifndef ASCENDFX_EMULATOR_CUBE_PRODUCT_H
#define ASCENDFX_EMULATOR_CUBE_PRODUCT_H

#include "half.h"

namespace emulator {

enum class CubeStart : uint8_t { ZERO, BIAS, CURRENT };

struct CubeProduct {
    Element element;  // of A and B: F16, BF16, F32, I8 or I4
    uint32_t m;
    uint32_t n;
    uint32_t k;
    bool depthAlignedTo16;  // MmadParams::kDirectionAlign; matters for float only
    CubeStart start;
    const void* a;
    const void* b;
    const void* bias;  // n values of C's type; read only with CubeStart::BIAS
    void* c;
    uint32_t padding;  // bit pattern for the rows and columns of C beyond m and n
};

// Where the first NaN of an operand is; row and column count in A [m, k] or B [k, n].
struct CubeNan {
    char operand = 0;  // 'A', 'B', or 0 for none
    uint32_t row = 0;
    uint32_t column = 0;
};

// Writes C, adding the products in the order of ascending k with one rounding to float per
// multiplication and one per addition. The device's own order is not documented; this one does
// not depend on the host. int32 sums saturate. Leaves C unwritten when an operand has a NaN.
CubeNan MultiplyFractals(const CubeProduct& product);

// k0: elements of one operand in 32 bytes.
constexpr uint32_t CubeDepth0(Element element) {
    switch (element) {
        case Element::F32: return 8;
        case Element::I8: return 32;
        case Element::I4: return 64;
        default: return 16;
    }
}

constexpr uint32_t CeilDivide(uint32_t value, uint32_t by) { return (value + by - 1) / by; }

}  // namespace emulator

#endif
