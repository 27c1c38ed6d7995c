// exp and ln in double precision, rounded once by the caller: the float result is the nearest one
// except when the exact value lies within about 1e-13 (relative) of a rounding boundary.
//
// The chip documents no accuracy for Exp and Ln; these are deterministic on every host.
// Derivation: exp(x) = 2^n exp(r), |r| <= ln(2)/2, Taylor to degree 12 (remainder r^13/13! < 2e-16);
// ln(m 2^e) = e ln(2) + 2 atanh(f), f = (m-1)/(m+1), |f| <= 0.172, odd terms to f^21.
#ifndef ASCENDFX_EMULATOR_VECTOR_MATH_H
#define ASCENDFX_EMULATOR_VECTOR_MATH_H

#include "half.h"

namespace emulator {

EMULATOR_INLINE uint64_t DoubleBits(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return bits;
}

EMULATOR_INLINE double DoubleFromBits(uint64_t bits) {
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
}

EMULATOR_INLINE double ExpDouble(float input) {
    constexpr double kShifter = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    constexpr double kLog2E = 1.4426950408889634;
    constexpr double kLn2High = 0.693147180369123816490;  // 32 bits, so that n * high is exact
    constexpr double kLn2Low = 1.90821492927058770002e-10;
    double x = input;
    x = x > 200.0 ? 200.0 : x;
    x = x < -200.0 ? -200.0 : x;
    const double shifted = x * kLog2E + kShifter;
    const double n = shifted - kShifter;
    const double r = (x - n * kLn2High) - n * kLn2Low;
    double p = 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const double result = DoubleFromBits(DoubleBits(p) + (DoubleBits(shifted) << 52));
    return input != input ? static_cast<double>(input) : result;
}

EMULATOR_INLINE double LnDouble(float input) {
    constexpr double kLn2 = 0.69314718055994530942;
    constexpr uint64_t kOne = 0x3ff0000000000000u;
    constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdu;
    const double x = input;
    const uint64_t bits = DoubleBits(x);
    // Exponent such that the mantissa lies in [sqrt(1/2), sqrt(2)).
    const uint64_t biased = (bits - kSqrtHalf + kOne) >> 52;
    const double e = DoubleFromBits(biased | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
    const double m = DoubleFromBits(bits - (biased << 52) + kOne);
    const double f = (m - 1.0) / (m + 1.0);
    const double s = f * f;
    double p = 1.0 / 21;
    p = p * s + 1.0 / 19;
    p = p * s + 1.0 / 17;
    p = p * s + 1.0 / 15;
    p = p * s + 1.0 / 13;
    p = p * s + 1.0 / 11;
    p = p * s + 1.0 / 9;
    p = p * s + 1.0 / 7;
    p = p * s + 1.0 / 5;
    p = p * s + 1.0 / 3;
    const double result = e * kLn2 + (2.0 * f + 2.0 * f * s * p);
    const double infinity = __builtin_inf();
    double special = input == 0.0f ? -infinity : __builtin_nan("");
    special = x == infinity ? infinity : special;
    const bool ordinary = x > 0.0 && x < infinity;
    return ordinary ? result : special;
}

}  // namespace emulator

#endif
