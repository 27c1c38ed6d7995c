// Float to half and bfloat16 under every rounding mode, one value at a time.
#include "vector_tables.h"

namespace emulator {

namespace {

using AscendC::RoundMode;

// `kept` and the discarded fraction decide whether the magnitude goes up by one unit.
bool RoundsUp(RoundMode mode, bool negative, uint32_t kept, uint32_t rest, uint32_t half) {
    switch (mode) {
        case RoundMode::CAST_FLOOR: return negative && rest != 0;
        case RoundMode::CAST_CEIL: return !negative && rest != 0;
        case RoundMode::CAST_TRUNC: return false;
        case RoundMode::CAST_ROUND: return rest >= half;
        case RoundMode::CAST_ODD: return rest != 0 && (kept & 1) == 0;
        default: return rest > half || (rest == half && (kept & 1) != 0);
    }
}

// Overflow under a directed mode that points towards zero stops at the largest finite value.
bool StopsAtFinite(RoundMode mode, bool negative) {
    return mode == RoundMode::CAST_TRUNC || mode == RoundMode::CAST_ODD ||
           (mode == RoundMode::CAST_FLOOR && !negative) || (mode == RoundMode::CAST_CEIL && negative);
}

}  // namespace

uint16_t FloatToBfloat(float value, RoundMode mode) {
    const uint32_t bits = FloatBits(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
    if (magnitude > 0x7f800000u) return sign | 0x7fc0;
    const bool negative = sign != 0;
    const uint32_t kept = magnitude >> 16;
    uint32_t result = kept + RoundsUp(mode, negative, kept, magnitude & 0xffffu, 0x8000u);
    if (result == 0x7f80u && magnitude < 0x7f800000u && StopsAtFinite(mode, negative)) {
        result = 0x7f7fu;
    }
    return static_cast<uint16_t>(sign | result);
}

uint16_t FloatToHalf(float value, RoundMode mode) {
    const uint32_t bits = FloatBits(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
    const bool negative = sign != 0;
    if (magnitude > 0x7f800000u) return sign | 0x7e00;
    if (magnitude == 0x7f800000u) return sign | 0x7c00;
    if (magnitude >= 0x47800000u) {  // 65536 and above
        return sign | (StopsAtFinite(mode, negative) ? 0x7bff : 0x7c00);
    }
    uint32_t shift = 13, mantissa = magnitude - 0x38000000u;
    if (magnitude < 0x38800000u) {  // the result is denormal: count units of 2^-24
        const uint32_t exponent = magnitude >> 23;
        shift = exponent < 102 ? 31 : 126 - exponent;
        mantissa = exponent == 0 ? magnitude : (magnitude & 0x7fffffu) | 0x800000u;
        if (shift == 31) {  // below half a unit: only the fact that it is not zero matters
            shift = 25;
            mantissa = magnitude != 0 ? 1 : 0;
        }
    }
    const uint32_t kept = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    uint32_t result = kept + RoundsUp(mode, negative, kept, rest, 1u << (shift - 1));
    if (result >= 0x7c00u && StopsAtFinite(mode, negative)) result = 0x7bffu;
    return static_cast<uint16_t>(sign | result);
}

const VectorTables& Tables() {
#if defined(__x86_64__)
    static const bool avx2 = __builtin_cpu_supports("avx2");
    return avx2 ? Avx2Tables() : PlainTables();
#else
    return PlainTables();
#endif
}

}  // namespace emulator
