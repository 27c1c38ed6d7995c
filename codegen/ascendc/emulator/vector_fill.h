// Duplicate, CreateVecIndex, Brcb, Copy, Transpose.
// Source: asc-devkit 9.1, API/Memory矢量计算/数据填充, 数据搬运/UB与UB数据搬运, 数据排布转换.
#ifndef ASCENDFX_EMULATOR_VECTOR_FILL_H
#define ASCENDFX_EMULATOR_VECTOR_FILL_H

#include "vector_arithmetic.h"

namespace emulator {

void RunDuplicate(const VectorCall& call, const LocalOperand& dst, uint64_t scalarBits,
                  uint32_t dstBlockStride, uint32_t dstRepeatStride, Site site);
void RunIndex(Element element, const LocalOperand& dst, uint64_t firstBits, uint32_t count,
              Site site);
void RunBrcb(Element element, const LocalOperand& dst, const LocalOperand& src, uint32_t repeats,
             const AscendC::BrcbRepeatParams& params, Site site);
void RunCopy(const VectorCall& call, const LocalOperand& dst, const LocalOperand& src,
             const AscendC::CopyRepeatParams& params, Site site);

void RunTranspose(const LocalOperand& dst, const LocalOperand& src, Site site);

template <typename T>
constexpr bool IsFilled =
    IsOneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>;

}  // namespace emulator

namespace AscendC {

template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count,
               emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFilled<T>, "Duplicate: T is a 16- or 32-bit type");
    constexpr auto kElement = emulator::ElementOf<T>();
    emulator::RunDuplicate(emulator::CountCall("Duplicate", kElement, kElement, count), dst,
                           emulator::BitsOf(scalarValue), 1, 8, site);
}

template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask,
               const uint8_t repeatTime, const uint16_t dstBlockStride,
               const uint8_t dstRepeatStride, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFilled<T>, "Duplicate: T is a 16- or 32-bit type");
    constexpr auto kElement = emulator::ElementOf<T>();
    emulator::RunDuplicate(emulator::RepeatCall("Duplicate", kElement, kElement,
                                                {nullptr, mask, isSetMask}, repeatTime),
                           dst, emulator::BitsOf(scalarValue), dstBlockStride, dstRepeatStride,
                           site);
}

template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[],
               const uint8_t repeatTime, const uint16_t dstBlockStride,
               const uint8_t dstRepeatStride, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFilled<T>, "Duplicate: T is a 16- or 32-bit type");
    constexpr auto kElement = emulator::ElementOf<T>();
    emulator::RunDuplicate(
        emulator::RepeatCall("Duplicate", kElement, kElement, {mask, 0, isSetMask}, repeatTime),
        dst, emulator::BitsOf(scalarValue), dstBlockStride, dstRepeatStride, site);
}

template <typename T>
void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count,
                    emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, int16_t, half, int32_t, float>,
                  "CreateVecIndex: T is int16_t, half, int32_t or float");
    emulator::RunIndex(emulator::ElementOf<T>(), dst, emulator::BitsOf(firstValue), count, site);
}

template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTime,
          const BrcbRepeatParams& repeatParams, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFilled<T>, "Brcb: T is a 16- or 32-bit type");
    emulator::RunBrcb(emulator::ElementOf<T>(), dst, src, repeatTime, repeatParams, site);
}

template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask,
          const uint8_t repeatTime, const CopyRepeatParams& repeatParams,
          emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFilled<T>, "Copy: T is a 16- or 32-bit type");
    constexpr auto kElement = emulator::ElementOf<T>();
    emulator::RunCopy(
        emulator::RepeatCall("Copy", kElement, kElement, {nullptr, mask, isSetMask}, repeatTime),
        dst, src, repeatParams, site);
}

template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
          const uint8_t repeatTime, const CopyRepeatParams& repeatParams,
          emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFilled<T>, "Copy: T is a 16- or 32-bit type");
    constexpr auto kElement = emulator::ElementOf<T>();
    emulator::RunCopy(
        emulator::RepeatCall("Copy", kElement, kElement, {mask, 0, isSetMask}, repeatTime), dst,
        src, repeatParams, site);
}

// One square of 16 by 16 elements.
template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, int16_t, uint16_t, half>,
                  "Transpose: T is int16_t, uint16_t or half");
    emulator::RunTranspose(dst, src, site);
}

}  // namespace AscendC

#endif
