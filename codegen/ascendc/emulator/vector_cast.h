// Cast: conversions between element formats.
// Source: asc-devkit 9.1, API/Memory矢量计算/类型转换/Cast.md (table for Atlas A2).
#ifndef ASCENDFX_EMULATOR_VECTOR_CAST_H
#define ASCENDFX_EMULATOR_VECTOR_CAST_H

#include "vector_arithmetic.h"

namespace emulator {

// Whether the page lists the pair for Atlas A2; modes are checked when the call runs.
template <typename To, typename From>
constexpr bool IsCastPair =
    (std::is_same_v<To, half> && IsOneOf<From, AscendC::int4b_t, int8_t, uint8_t, int16_t, int32_t,
                                         float>) ||
    (std::is_same_v<From, half> && IsOneOf<To, AscendC::int4b_t, int8_t, uint8_t, int16_t, int32_t,
                                           float>) ||
    (std::is_same_v<From, bfloat16_t> && IsOneOf<To, int32_t, float>) ||
    (std::is_same_v<From, float> && IsOneOf<To, int16_t, bfloat16_t, int32_t, float, int64_t>) ||
    (std::is_same_v<From, int16_t> && std::is_same_v<To, float>) ||
    (std::is_same_v<From, int32_t> && IsOneOf<To, int16_t, float, int64_t>) ||
    (std::is_same_v<From, int64_t> && IsOneOf<To, int32_t, float>);

void RunCast(const VectorCall& call, const LocalOperand& dst, const LocalOperand& src,
             AscendC::RoundMode mode, const AscendC::UnaryRepeatParams& params, Site site);
void SetDeqScaleBits(uint16_t bits);

}  // namespace emulator

namespace AscendC {

template <typename T, typename U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint32_t count, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCastPair<T, U>, "Cast: Atlas A2 has no such conversion");
    emulator::RunCast(
        emulator::CountCall("Cast", emulator::ElementOf<T>(), emulator::ElementOf<U>(), count),
        dst, src, roundMode, UnaryRepeatParams(), site);
}

template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,
          emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCastPair<T, U>, "Cast: Atlas A2 has no such conversion");
    emulator::RunCast(emulator::RepeatCall("Cast", emulator::ElementOf<T>(),
                                           emulator::ElementOf<U>(), {nullptr, mask, isSetMask},
                                           repeatTime),
                      dst, src, roundMode, repeatParams, site);
}

template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,
          emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCastPair<T, U>, "Cast: Atlas A2 has no such conversion");
    emulator::RunCast(emulator::RepeatCall("Cast", emulator::ElementOf<T>(),
                                           emulator::ElementOf<U>(), {mask, 0, isSetMask},
                                           repeatTime),
                      dst, src, roundMode, repeatParams, site);
}

inline void SetDeqScale(half scale) { emulator::SetDeqScaleBits(scale.bits); }

}  // namespace AscendC

#endif
