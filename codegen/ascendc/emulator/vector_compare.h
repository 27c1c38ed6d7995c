// Compare and Select: packed bits, one per element, the first in the lowest bit.
// Source: asc-devkit 9.1, API/Memory矢量计算/比较与选择.
#ifndef ASCENDFX_EMULATOR_VECTOR_COMPARE_H
#define ASCENDFX_EMULATOR_VECTOR_COMPARE_H

#include "vector_arithmetic.h"

namespace AscendC {

enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t {
    VSEL_CMPMASK_SPR,
    VSEL_TENSOR_SCALAR_MODE,
    VSEL_TENSOR_TENSOR_MODE,
};

}  // namespace AscendC

namespace emulator {

void RunCompare(const VectorCall& call, const LocalOperand& dst, const LocalOperand& src0,
                const LocalOperand* src1, uint64_t scalarBits, AscendC::CMPMODE mode,
                const AscendC::BinaryRepeatParams& params, Site site);
void RunSelect(const VectorCall& call, const LocalOperand& dst, const LocalOperand& bits,
               const LocalOperand& src0, const LocalOperand* src1, uint64_t scalarBits,
               AscendC::SELMODE mode, const AscendC::BinaryRepeatParams& params, Site site);

}  // namespace emulator

namespace AscendC {

template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, uint32_t count, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float, int32_t>, "Compare: T is half, float, int32_t");
    static_assert(emulator::IsOneOf<U, int8_t, uint8_t>, "Compare: U is int8_t or uint8_t");
    constexpr auto kElement = emulator::ElementOf<T>();
    emulator::RunCompare(emulator::CountCall("Compare", kElement, kElement, count), dst, src0,
                         &src1, 0, cmpMode, BinaryRepeatParams(), site);
}

// On Atlas A2 the mask of the repeat forms has no effect: all lanes are compared.
template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
             CMPMODE cmpMode, const uint64_t mask, uint8_t repeatTime,
             const BinaryRepeatParams& repeatParams,
             emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float, int32_t>, "Compare: T is half, float, int32_t");
    static_assert(emulator::IsOneOf<U, int8_t, uint8_t>, "Compare: U is int8_t or uint8_t");
    constexpr auto kElement = emulator::ElementOf<T>();
    emulator::RunCompare(emulator::RepeatCall("Compare", kElement, kElement,
                                              {nullptr, mask, isSetMask}, repeatTime),
                         dst, src0, &src1, 0, cmpMode, repeatParams, site);
}

template <typename T, typename U, bool isSetMask = true>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1, CMPMODE cmpMode,
              uint32_t count, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float, int32_t>, "Compares: T is half, float, int32_t");
    static_assert(emulator::IsOneOf<U, int8_t, uint8_t>, "Compares: U is int8_t or uint8_t");
    constexpr auto kElement = emulator::ElementOf<T>();
    emulator::RunCompare(emulator::CountCall("Compares", kElement, kElement, count), dst, src0,
                         nullptr, emulator::BitsOf(src1), cmpMode, BinaryRepeatParams(), site);
}

template <typename T, typename U, bool isSetMask = true>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1, CMPMODE cmpMode,
              const uint64_t mask, uint8_t repeatTime, const UnaryRepeatParams& repeatParams,
              emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float, int32_t>, "Compares: T is half, float, int32_t");
    static_assert(emulator::IsOneOf<U, int8_t, uint8_t>, "Compares: U is int8_t or uint8_t");
    constexpr auto kElement = emulator::ElementOf<T>();
    const BinaryRepeatParams params(1, static_cast<uint8_t>(repeatParams.srcBlkStride), 1, 8,
                                    repeatParams.srcRepStride, 8);
    emulator::RunCompare(emulator::RepeatCall("Compares", kElement, kElement,
                                              {nullptr, mask, isSetMask}, repeatTime),
                         dst, src0, nullptr, emulator::BitsOf(src1), cmpMode, params, site);
}

// The name before CANN 9.
template <typename T, typename U, bool isSetMask = true>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1,
                   CMPMODE cmpMode, uint32_t count, emulator::Site site = emulator::Site::Here()) {
    Compares<T, U, isSetMask>(dst, src0, src1, cmpMode, count, site);
}

#define EMULATOR_SELECT_TYPES                                                              \
    static_assert(emulator::IsOneOf<T, half, float>, "Select: T is half or float");        \
    static_assert(emulator::IsOneOf<U, uint8_t, uint16_t, uint32_t, uint64_t>,             \
                  "Select: U is uint8_t, uint16_t, uint32_t or uint64_t");                 \
    constexpr auto kElement = emulator::ElementOf<T>();

template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            T src1, SELMODE selMode, uint32_t count,
            emulator::Site site = emulator::Site::Here()) {
    EMULATOR_SELECT_TYPES
    emulator::RunSelect(emulator::CountCall("Select", kElement, kElement, count), dst, selMask,
                        src0, nullptr, emulator::BitsOf(src1), selMode, BinaryRepeatParams(), site);
}

template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint32_t count,
            emulator::Site site = emulator::Site::Here()) {
    EMULATOR_SELECT_TYPES
    emulator::RunSelect(emulator::CountCall("Select", kElement, kElement, count), dst, selMask,
                        src0, &src1, 0, selMode, BinaryRepeatParams(), site);
}

template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            T src1, SELMODE selMode, uint64_t mask, uint8_t repeatTime,
            const BinaryRepeatParams& repeatParams,
            emulator::Site site = emulator::Site::Here()) {
    EMULATOR_SELECT_TYPES
    emulator::RunSelect(
        emulator::RepeatCall("Select", kElement, kElement, {nullptr, mask, isSetMask}, repeatTime),
        dst, selMask, src0, nullptr, emulator::BitsOf(src1), selMode, repeatParams, site);
}

template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask, uint8_t repeatTime,
            const BinaryRepeatParams& repeatParams,
            emulator::Site site = emulator::Site::Here()) {
    EMULATOR_SELECT_TYPES
    emulator::RunSelect(
        emulator::RepeatCall("Select", kElement, kElement, {nullptr, mask, isSetMask}, repeatTime),
        dst, selMask, src0, &src1, 0, selMode, repeatParams, site);
}
#undef EMULATOR_SELECT_TYPES

}  // namespace AscendC

#endif
