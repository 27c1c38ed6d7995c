// half and bfloat16_t as storage types with exact conversions.
//
// Rounding: RINT = to nearest, ties to even; ROUND = to nearest, ties away from zero; ODD = to odd
// (if inexact, the neighbour whose last bit is one). Overflow gives infinity as IEEE 754 does,
// except that directed modes stop at the largest finite value where IEEE 754 says so.
#ifndef ASCENDFX_EMULATOR_HALF_H
#define ASCENDFX_EMULATOR_HALF_H

#include <cstring>

#include "core_types.h"

// Inlined everywhere: these are also compiled for AVX2, and a shared copy could be that one.
#define EMULATOR_INLINE inline __attribute__((always_inline))

namespace AscendC {

enum class RoundMode : uint8_t {
    CAST_NONE,
    CAST_RINT,
    CAST_FLOOR,
    CAST_CEIL,
    CAST_ROUND,
    CAST_TRUNC,
    CAST_ODD,
};

}  // namespace AscendC

namespace emulator {

EMULATOR_INLINE uint32_t FloatBits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

EMULATOR_INLINE float FloatFromBits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// Exact. Branch free, so that loops over it vectorise: the scaling renormalises denormals.
EMULATOR_INLINE float HalfToFloat(uint16_t bits) {
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
    const uint32_t scaled = FloatBits(FloatFromBits(magnitude) * 0x1p112f);
    const uint32_t special = magnitude | 0x7f800000u;  // infinity and NaN keep their payload
    const uint32_t value = magnitude >= 0x0f800000u ? special : scaled;
    return FloatFromBits(value | static_cast<uint32_t>(bits & 0x8000u) << 16);
}

EMULATOR_INLINE float BfloatToFloat(uint16_t bits) {
    return FloatFromBits(static_cast<uint32_t>(bits) << 16);
}

// Nearest even, branch free. A NaN becomes the quiet NaN of the same sign.
EMULATOR_INLINE uint16_t FloatToBfloat(float value) {
    const uint32_t bits = FloatBits(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16 & 0x8000u) | 0x7fc0u;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

// Nearest even, branch free: normal results by adding the rounding bias in place, denormal ones
// by letting a float addition round at the right bit.
EMULATOR_INLINE uint16_t FloatToHalf(float value) {
    const uint32_t bits = FloatBits(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t denormal = FloatBits(FloatFromBits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t result = magnitude < 0x38800000u ? denormal : normal;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;
    result = magnitude > 0x7f800000u ? 0x7e00u : result;
    return static_cast<uint16_t>(result | sign);
}

// All modes, one value at a time.
uint16_t FloatToBfloat(float value, AscendC::RoundMode mode);
uint16_t FloatToHalf(float value, AscendC::RoundMode mode);

}  // namespace emulator

// Scalars of the two formats. They convert to float by themselves and from arithmetic types only
// when asked: `half(2.5)`. A `half` tensor therefore takes no `double` scalar, as on the device.
struct half {
    uint16_t bits = 0;

    half() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    explicit half(T value) : bits(emulator::FloatToHalf(static_cast<float>(value))) {}
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    half& operator=(T value) {
        bits = emulator::FloatToHalf(static_cast<float>(value));
        return *this;
    }
    operator float() const { return emulator::HalfToFloat(bits); }
};

// Scalar arithmetic stays half, rounded once per operation, as the device's scalar unit has it.
inline half operator+(half a, half b) { return half(static_cast<float>(a) + static_cast<float>(b)); }
inline half operator-(half a, half b) { return half(static_cast<float>(a) - static_cast<float>(b)); }
inline half operator*(half a, half b) { return half(static_cast<float>(a) * static_cast<float>(b)); }
inline half operator/(half a, half b) { return half(static_cast<float>(a) / static_cast<float>(b)); }
inline half operator-(half a) { return half(-static_cast<float>(a)); }

struct bfloat16_t {
    uint16_t bits = 0;

    bfloat16_t() = default;
    explicit bfloat16_t(float value) : bits(emulator::FloatToBfloat(value)) {}
    explicit operator float() const { return emulator::BfloatToFloat(bits); }
};

namespace AscendC {

// Two values share a byte, the first in the low nibble. Only tensors of it exist, no scalars.
struct int4b_t {
    uint8_t pair;
};

inline float ToFloat(const bfloat16_t& value) { return static_cast<float>(value); }
inline bfloat16_t ToBfloat16(const float& value) { return bfloat16_t(value); }

}  // namespace AscendC

namespace emulator {

// Elements of T to bytes; int4b_t counts must be even.
template <typename T>
constexpr uint64_t BytesOf(uint64_t elements) {
    if (std::is_same_v<T, AscendC::int4b_t>) return elements / 2;
    return elements > kMostBytes / sizeof(T) ? kMostBytes : elements * sizeof(T);
}

// Untyped name of an element type, for tables of kernels in .cpp files.
enum class Element : uint8_t { I4, I8, U8, I16, U16, F16, BF16, I32, U32, F32, I64, U64, COUNT };

template <typename T>
constexpr Element ElementOf() {
    if constexpr (std::is_same_v<T, AscendC::int4b_t>) return Element::I4;
    else if constexpr (std::is_same_v<T, int8_t>) return Element::I8;
    else if constexpr (std::is_same_v<T, uint8_t>) return Element::U8;
    else if constexpr (std::is_same_v<T, int16_t>) return Element::I16;
    else if constexpr (std::is_same_v<T, uint16_t>) return Element::U16;
    else if constexpr (std::is_same_v<T, half>) return Element::F16;
    else if constexpr (std::is_same_v<T, bfloat16_t>) return Element::BF16;
    else if constexpr (std::is_same_v<T, int32_t>) return Element::I32;
    else if constexpr (std::is_same_v<T, uint32_t>) return Element::U32;
    else if constexpr (std::is_same_v<T, float>) return Element::F32;
    else if constexpr (std::is_same_v<T, int64_t>) return Element::I64;
    else if constexpr (std::is_same_v<T, uint64_t>) return Element::U64;
    else return Element::COUNT;
}

}  // namespace emulator

#endif
