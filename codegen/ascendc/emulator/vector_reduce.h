// Reductions: over a whole tensor (the form that is the same in CANN 8 and 9), per repeat, per
// 32-byte block. Source: asc-devkit 9.1, API/Memory矢量计算/归约计算.
#ifndef ASCENDFX_EMULATOR_VECTOR_REDUCE_H
#define ASCENDFX_EMULATOR_VECTOR_REDUCE_H

#include "vector_arithmetic.h"

namespace AscendC {

enum class ReduceType : uint8_t { SUM, MAX, MIN };
enum class ReduceOrder : uint8_t {
    ORDER_VALUE_INDEX,
    ORDER_INDEX_VALUE,
    ORDER_ONLY_VALUE,
    ORDER_ONLY_INDEX,
};

}  // namespace AscendC

namespace emulator {

struct ReduceStrides {
    int32_t repeats, target, block, repeat;
};

void ReduceAll(AscendC::ReduceType type, Element element, const LocalOperand& dst,
               const LocalOperand& src, const LocalOperand& work, int64_t count, bool index,
               Site site);
void ReduceRepeats(AscendC::ReduceType type, Element element, const LocalOperand& dst,
                   const LocalOperand& src, MaskArgument mask, ReduceStrides strides,
                   AscendC::ReduceOrder order, Site site);
void ReduceBlocks(AscendC::ReduceType type, Element element, const LocalOperand& dst,
                  const LocalOperand& src, MaskArgument mask, ReduceStrides strides, Site site);
void ReducePairs(Element element, const LocalOperand& dst, const LocalOperand& src,
                 MaskArgument mask, ReduceStrides strides, Site site);

}  // namespace emulator

namespace AscendC {

template <typename T, bool isSetMask = true>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               const LocalTensor<T>& sharedTmpBuffer, const int32_t count,
               emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float>, "ReduceSum: T is half or float");
    emulator::ReduceAll(ReduceType::SUM, emulator::ElementOf<T>(), dst, src, sharedTmpBuffer,
                        count, false, site);
}

template <typename T>
void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               const LocalTensor<T>& sharedTmpBuffer, const int32_t count, bool calIndex = 0,
               emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float>, "ReduceMax: T is half or float");
    emulator::ReduceAll(ReduceType::MAX, emulator::ElementOf<T>(), dst, src, sharedTmpBuffer,
                        count, calIndex, site);
}

template <typename T>
void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src,
               const LocalTensor<T>& sharedTmpBuffer, const int32_t count, bool calIndex = 0,
               emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float>, "ReduceMin: T is half or float");
    emulator::ReduceAll(ReduceType::MIN, emulator::ElementOf<T>(), dst, src, sharedTmpBuffer,
                        count, calIndex, site);
}

// CANN 9.1 names.
template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>
void ReduceRepeat(const LocalTensor<T>& dst, const LocalTensor<U>& src, const int32_t mask,
                  const int32_t repeatTime, const int32_t dstRepStride,
                  const int32_t srcBlkStride, const int32_t srcRepStride,
                  ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,
                  emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float> && std::is_same_v<T, U>,
                  "ReduceRepeat: half or float, source and destination alike");
    emulator::ReduceRepeats(reduceType, emulator::ElementOf<T>(), dst, src,
                            {nullptr, static_cast<uint64_t>(mask), isSetMask},
                            {repeatTime, dstRepStride, srcBlkStride, srcRepStride}, order, site);
}

template <ReduceType reduceType, typename T, bool isSetMask = true>
void ReduceDataBlock(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,
                     const int32_t repeatTime, const int32_t dstRepStride,
                     const int32_t srcBlkStride, const int32_t srcRepStride,
                     emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float>, "ReduceDataBlock: T is half or float");
    emulator::ReduceBlocks(reduceType, emulator::ElementOf<T>(), dst, src,
                           {nullptr, static_cast<uint64_t>(mask), isSetMask},
                           {repeatTime, dstRepStride, srcBlkStride, srcRepStride}, site);
}

template <ReduceType reduceType, typename T, bool isSetMask = true>
void ReducePairElem(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,
                    const int32_t repeatTime, const int32_t dstRepStride,
                    const int32_t srcBlkStride, const int32_t srcRepStride,
                    emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float>, "ReducePairElem: T is half or float");
    static_assert(reduceType == ReduceType::SUM, "ReducePairElem: SUM only");
    emulator::ReducePairs(emulator::ElementOf<T>(), dst, src,
                          {nullptr, static_cast<uint64_t>(mask), isSetMask},
                          {repeatTime, dstRepStride, srcBlkStride, srcRepStride}, site);
}

}  // namespace AscendC

#endif
