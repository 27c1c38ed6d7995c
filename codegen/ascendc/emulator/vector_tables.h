// Tables of element loops, chosen once by what the host can do.
#ifndef ASCENDFX_EMULATOR_VECTOR_TABLES_H
#define ASCENDFX_EMULATOR_VECTOR_TABLES_H

#include "half.h"

namespace emulator {

enum class Binary : uint8_t {
    ADD, SUB, MUL, DIV, MAX, MIN, AND, OR, ADD_RELU, SUB_RELU, MUL_ADD_DST, FUSED_MUL_ADD,
    FUSED_MUL_ADD_RELU, COUNT,
};
enum class Unary : uint8_t { EXP, LN, SQRT, RSQRT, RECIPROCAL, ABS, RELU, NOT, COUNT };
enum class Scalar : uint8_t {
    ADDS, MULS, MAXS, MINS, LEAKY_RELU, SHIFT_LEFT, SHIFT_RIGHT, AXPY, COUNT,
};
enum class Comparison : uint8_t { LT, GT, EQ, LE, GE, NE, COUNT };

constexpr int kElements = static_cast<int>(Element::COUNT);
constexpr int kModes = 7;

using BinaryLoop = void (*)(void* d, const void* a, const void* b, uint64_t n);
using UnaryLoop = void (*)(void* d, const void* a, uint64_t n);
using ScalarLoop = void (*)(void* d, const void* a, uint64_t scalarBits, uint64_t n);
// One byte (0 or 1) per element; the second operand is an array or one value.
using CompareLoop = void (*)(uint8_t* d, const void* a, const void* b, uint64_t n);

// Null where the type has no such operation.
struct VectorTables {
    BinaryLoop binary[static_cast<int>(Binary::COUNT)][kElements];
    UnaryLoop unary[static_cast<int>(Unary::COUNT)][kElements];
    ScalarLoop scalar[static_cast<int>(Scalar::COUNT)][kElements];
    CompareLoop compare[static_cast<int>(Comparison::COUNT)][kElements];
    CompareLoop compareScalar[static_cast<int>(Comparison::COUNT)][kElements];
    UnaryLoop cast[kElements][kElements][kModes];  // [to][from][RoundMode]
    void (*halfToFloat)(float* d, const uint16_t* a, uint64_t n);
    void (*floatToHalf)(uint16_t* d, const float* a, uint64_t n);
};

const VectorTables& PlainTables();
const VectorTables& Avx2Tables();  // only on x86-64
const VectorTables& Tables();

}  // namespace emulator

#endif
