// Unpacks the fractals of one Mmad and multiplies them with a register-blocked loop.
#include "cube_product.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#pragma GCC diagnostic ignored "-Wpsabi"

// Every clone rounds alike: no contraction (the build passes -ffp-contract=off), no reassociation.
#if defined(__x86_64__) && !defined(__clang__)
#define EMULATOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EMULATOR_CLONES
#endif
#define EMULATOR_INLINE inline __attribute__((always_inline))

namespace emulator {
namespace {

constexpr uint32_t kEdge = 16;         // rows and columns of a block of C
constexpr uint32_t kRowsAtOnce = 8;    // accumulators: kRowsAtOnce registers of 16 lanes

template <typename S>
struct Vector16 {
    typedef S Type __attribute__((vector_size(16 * sizeof(S))));
};

EMULATOR_INLINE float Widen(float value) { return value; }
EMULATOR_INLINE float Widen(half value) { return HalfToFloat(value.bits); }
EMULATOR_INLINE float Widen(bfloat16_t value) { return BfloatToFloat(value.bits); }
EMULATOR_INLINE int32_t Widen(int8_t value) { return value; }

EMULATOR_INLINE int32_t SignedNibble(int32_t bits) { return ((bits & 15) ^ 8) - 8; }

// Nibbles of 32 bytes as bytes of their own, so that an operand of int4b_t is one of int8_t.
void SpreadNibbles(const void* pairs, size_t count, int8_t* codes) {
    const auto* source = static_cast<const uint8_t*>(pairs);
    for (size_t i = 0; i < count; ++i) {
        codes[2 * i] = int8_t(SignedNibble(source[i]));
        codes[2 * i + 1] = int8_t(SignedNibble(source[i] >> 4));
    }
}

// A as rows of `depth` numbers, k rounded up to whole fractals.
template <typename E, typename S>
EMULATOR_INLINE void UnpackLeft(const CubeProduct& p, uint32_t k0, uint32_t depth, S* rows) {
    const E* source = static_cast<const E*>(p.a);
    if (p.m == 1) {
        for (uint32_t i = 0; i < p.k; ++i) rows[i] = Widen(source[i]);
        return;
    }
    uint32_t pitch = depth / k0;
    if (p.depthAlignedTo16 && k0 == 8) pitch = CeilDivide(p.k, 16) * 2;
    for (uint32_t row = 0; row < p.m; ++row) {
        const E* line = source + (size_t(row / kEdge) * pitch * kEdge + row % kEdge) * k0;
        S* target = rows + size_t(row) * depth;
        for (uint32_t block = 0; block < depth / k0; ++block) {
            for (uint32_t i = 0; i < k0; ++i) {
                target[block * k0 + i] = Widen(line[size_t(block) * kEdge * k0 + i]);
            }
        }
    }
}

// B as panels of 16 columns: [n/16][depth][16], zero in the columns from n on.
template <typename E, typename S, uint32_t k0>
EMULATOR_INLINE void UnpackRight(const CubeProduct& p, uint32_t depth, S* panels) {
    const E* source = static_cast<const E*>(p.b);
    const uint32_t columns = CeilDivide(p.n, kEdge);
    S wide[kEdge * k0];
    for (uint32_t block = 0; block < depth / k0; ++block) {
        for (uint32_t column = 0; column < columns; ++column) {
            const E* fractal = source + (size_t(block) * columns + column) * kEdge * k0;
            for (uint32_t i = 0; i < kEdge * k0; ++i) wide[i] = Widen(fractal[i]);
            const uint32_t used = std::min(kEdge, p.n - column * kEdge);
            for (uint32_t i = used * k0; i < kEdge * k0; ++i) wide[i] = 0;
            S* target = panels + (size_t(column) * depth + size_t(block) * k0) * kEdge;
            for (uint32_t i = 0; i < k0; ++i) {
                for (uint32_t j = 0; j < kEdge; ++j) target[i * kEdge + j] = wide[j * k0 + i];
            }
        }
    }
}

EMULATOR_INLINE int32_t Saturate(int64_t value) {
    return int32_t(std::min<int64_t>(std::max<int64_t>(value, INT32_MIN), INT32_MAX));
}

// Rows x 16 numbers of C, all k. Float sums begin with C itself, so that splitting K over several
// Mmad changes no bit; int32 sums of one Mmad cannot overflow and saturate when added to C.
template <typename S, uint32_t Rows>
EMULATOR_INLINE void MultiplyRows(const S* left, size_t pitch, const S* panel, uint32_t k, S* c) {
    typedef typename Vector16<S>::Type V;
    V sum[Rows];
    for (uint32_t row = 0; row < Rows; ++row) {
        if (std::is_same<S, float>::value) {
            std::memcpy(&sum[row], c + row * kEdge, sizeof(V));
        } else {
            sum[row] = V{};
        }
    }
    for (uint32_t i = 0; i < k; ++i) {
        V right;
        std::memcpy(&right, panel + size_t(i) * kEdge, sizeof(V));
        for (uint32_t row = 0; row < Rows; ++row) sum[row] += left[row * pitch + i] * right;
    }
    for (uint32_t row = 0; row < Rows; ++row) {
        if (std::is_same<S, float>::value) {
            std::memcpy(c + row * kEdge, &sum[row], sizeof(V));
        } else {
            for (uint32_t j = 0; j < kEdge; ++j) {
                c[row * kEdge + j] = S(Saturate(int64_t(c[row * kEdge + j]) + int64_t(sum[row][j])));
            }
        }
    }
}

template <typename S>
EMULATOR_INLINE void MultiplyTail(uint32_t rows, const S* left, size_t pitch, const S* panel,
                                  uint32_t k, S* c) {
    switch (rows) {
        case 1: return MultiplyRows<S, 1>(left, pitch, panel, k, c);
        case 2: return MultiplyRows<S, 2>(left, pitch, panel, k, c);
        case 3: return MultiplyRows<S, 3>(left, pitch, panel, k, c);
        case 4: return MultiplyRows<S, 4>(left, pitch, panel, k, c);
        case 5: return MultiplyRows<S, 5>(left, pitch, panel, k, c);
        case 6: return MultiplyRows<S, 6>(left, pitch, panel, k, c);
        case 7: return MultiplyRows<S, 7>(left, pitch, panel, k, c);
        default: return MultiplyRows<S, kRowsAtOnce>(left, pitch, panel, k, c);
    }
}

// What a column block of C holds before the products are added.
template <typename S>
EMULATOR_INLINE void StartColumn(const CubeProduct& p, uint32_t column, S* c) {
    if (p.start == CubeStart::CURRENT) return;
    S first[kEdge] = {};
    if (p.start == CubeStart::BIAS) {
        const uint32_t used = std::min(kEdge, p.n - column * kEdge);
        std::memcpy(first, static_cast<const S*>(p.bias) + column * kEdge, used * sizeof(S));
    }
    for (uint32_t row = 0; row < p.m; ++row) std::memcpy(c + row * kEdge, first, sizeof first);
}

// Rows from m and columns from n on hold no result; the device leaves something there.
template <typename S>
EMULATOR_INLINE void PadColumn(const CubeProduct& p, uint32_t column, S* c) {
    const uint32_t used = std::min(kEdge, p.n - column * kEdge);
    const uint32_t rows = CeilDivide(p.m, kEdge) * kEdge;
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t j = row < p.m ? used : 0; j < kEdge; ++j) {
            std::memcpy(c + row * kEdge + j, &p.padding, 4);
        }
    }
}

template <typename S>
EMULATOR_INLINE void MultiplyPanels(const CubeProduct& p, uint32_t depth, const S* rows,
                                    const S* panels) {
    const uint32_t blocks = CeilDivide(p.m, kEdge);
    for (uint32_t column = 0; column < CeilDivide(p.n, kEdge); ++column) {
        S* c = static_cast<S*>(p.c) + size_t(column) * blocks * kEdge * kEdge;
        const S* panel = panels + size_t(column) * depth * kEdge;
        StartColumn(p, column, c);
        for (uint32_t row = 0; row < p.m; row += kRowsAtOnce) {
            MultiplyTail(std::min(kRowsAtOnce, p.m - row), rows + size_t(row) * depth, depth, panel,
                         p.k, c + row * kEdge);
        }
        PadColumn(p, column, c);
    }
}

EMULATOR_CLONES bool AnyNan(const float* values, size_t count) {
    int found = 0;
    for (size_t i = 0; i < count; ++i) found |= values[i] != values[i];
    return found != 0;
}

CubeNan FindNan(const CubeProduct& p, uint32_t depth, const float* rows, const float* panels) {
    CubeNan nan;
    for (uint32_t row = 0; row < p.m; ++row) {
        const float* line = rows + size_t(row) * depth;
        if (!AnyNan(line, p.k)) continue;
        nan.operand = 'A';
        nan.row = row;
        while (line[nan.column] == line[nan.column]) ++nan.column;
        return nan;
    }
    for (uint32_t column = 0; column < CeilDivide(p.n, kEdge); ++column) {
        const float* panel = panels + size_t(column) * depth * kEdge;
        if (!AnyNan(panel, size_t(p.k) * kEdge)) continue;
        size_t at = 0;
        while (panel[at] == panel[at]) ++at;
        nan.operand = 'B';
        nan.row = uint32_t(at / kEdge);
        nan.column = uint32_t(column * kEdge + at % kEdge);
        return nan;
    }
    return nan;
}

EMULATOR_CLONES void UnpackHalf(const CubeProduct& p, uint32_t depth, float* rows, float* panels) {
    UnpackLeft<half>(p, 16, depth, rows);
    UnpackRight<half, float, 16>(p, depth, panels);
}

EMULATOR_CLONES void UnpackBfloat16(const CubeProduct& p, uint32_t depth, float* rows,
                                    float* panels) {
    UnpackLeft<bfloat16_t>(p, 16, depth, rows);
    UnpackRight<bfloat16_t, float, 16>(p, depth, panels);
}

EMULATOR_CLONES void UnpackFloat(const CubeProduct& p, uint32_t depth, float* rows, float* panels) {
    UnpackLeft<float>(p, 8, depth, rows);
    UnpackRight<float, float, 8>(p, depth, panels);
}

EMULATOR_CLONES void MultiplyFloat(const CubeProduct& p, uint32_t depth, const float* rows,
                                   const float* panels) {
    MultiplyPanels(p, depth, rows, panels);
}

EMULATOR_CLONES void MultiplyInt8(const CubeProduct& p, uint32_t depth, int32_t* rows,
                                  int32_t* panels) {
    UnpackLeft<int8_t>(p, 32, depth, rows);
    UnpackRight<int8_t, int32_t, 32>(p, depth, panels);
    MultiplyPanels(p, depth, rows, panels);
}

EMULATOR_CLONES void MultiplyInt4(const CubeProduct& p, uint32_t depth, int32_t* rows,
                                  int32_t* panels) {
    UnpackLeft<int8_t>(p, 64, depth, rows);
    UnpackRight<int8_t, int32_t, 64>(p, depth, panels);
    MultiplyPanels(p, depth, rows, panels);
}

// Scratch that lives as long as the thread: a launch calls Mmad many thousand times.
template <typename S>
S* Scratch(size_t slot, size_t count) {
    static thread_local std::vector<S> buffers[2];
    if (buffers[slot].size() < count) buffers[slot].resize(count);
    return buffers[slot].data();
}

}  // namespace

CubeNan MultiplyFractals(const CubeProduct& p) {
    const uint32_t k0 = CubeDepth0(p.element);
    const uint32_t depth = CeilDivide(p.k, k0) * k0;
    const size_t left = size_t(p.m) * depth;
    const size_t right = size_t(CeilDivide(p.n, kEdge)) * depth * kEdge;
    if (p.element == Element::I8) {
        MultiplyInt8(p, depth, Scratch<int32_t>(0, left), Scratch<int32_t>(1, right));
        return {};
    }
    if (p.element == Element::I4) {
        // Whole fractals; of a vector (m == 1) only its k numbers are there.
        const size_t pairs = p.m == 1 ? p.k / 2 : size_t(CeilDivide(p.m, kEdge)) * kEdge * depth / 2;
        int8_t* a = Scratch<int8_t>(0, 2 * pairs);
        int8_t* b = Scratch<int8_t>(1, right);
        SpreadNibbles(p.a, pairs, a);
        SpreadNibbles(p.b, right / 2, b);
        CubeProduct codes = p;
        codes.a = a;
        codes.b = b;
        MultiplyInt4(codes, depth, Scratch<int32_t>(0, left), Scratch<int32_t>(1, right));
        return {};
    }
    float* rows = Scratch<float>(0, left);
    float* panels = Scratch<float>(1, right);
    if (p.element == Element::F16) UnpackHalf(p, depth, rows, panels);
    if (p.element == Element::BF16) UnpackBfloat16(p, depth, rows, panels);
    if (p.element == Element::F32) UnpackFloat(p, depth, rows, panels);
    const CubeNan nan = FindNan(p, depth, rows, panels);
    if (nan.operand == 0) MultiplyFloat(p, depth, rows, panels);
    return nan;
}

}  // namespace emulator
