// Gather by byte offsets, GatherMask by bits.
// Source: asc-devkit 9.1, API/Memory矢量计算/离散与聚合/Gather.md, 比较与选择/GatherMask.md.
#ifndef ASCENDFX_EMULATOR_VECTOR_GATHER_H
#define ASCENDFX_EMULATOR_VECTOR_GATHER_H

#include "vector_arithmetic.h"
#include "vector_fill.h"

namespace AscendC {

struct GatherMaskParams {
    uint8_t src0BlockStride = 1;
    uint16_t repeatTimes = 0;
    uint16_t src0RepeatStride = 0;
    uint8_t src1RepeatStride = 0;

    GatherMaskParams() = default;
    GatherMaskParams(const uint8_t src0BlockStrideIn, const uint16_t repeatTimesIn,
                     const uint16_t src0RepeatStrideIn, const uint8_t src1RepeatStrideIn)
        : src0BlockStride(src0BlockStrideIn), repeatTimes(repeatTimesIn),
          src0RepeatStride(src0RepeatStrideIn), src1RepeatStride(src1RepeatStrideIn) {}
};

}  // namespace AscendC

namespace emulator {

void RunGather(Element element, const LocalOperand& dst, const LocalOperand& src,
               const LocalOperand& offsets, uint32_t base, uint32_t count, Site site);
// `pattern` is null for the built-in pattern `fixedPattern`.
uint64_t RunGatherMask(Element element, const LocalOperand& dst, const LocalOperand& src,
                       const LocalOperand* pattern, uint32_t fixedPattern, bool counter,
                       uint32_t mask, const AscendC::GatherMaskParams& params, Site site);

}  // namespace emulator

namespace AscendC {

template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src,
            const LocalTensor<uint32_t>& srcOffset, const uint32_t srcBaseAddr,
            const uint32_t count, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFilled<T>, "Gather: T is a 16- or 32-bit type");
    emulator::RunGather(emulator::ElementOf<T>(), dst, src, srcOffset, srcBaseAddr, count, site);
}

template <typename T, typename U>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0,
                const LocalTensor<U>& src1Pattern, const bool reduceMode, const uint32_t mask,
                const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt,
                emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFilled<T>, "GatherMask: T is a 16- or 32-bit type");
    static_assert(std::is_same_v<U, std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>>,
                  "GatherMask: the pattern is uint16_t for 16-bit data, uint32_t for 32-bit data");
    rsvdCnt = emulator::RunGatherMask(emulator::ElementOf<T>(), dst, src0, &src1Pattern, 0,
                                      reduceMode, mask, gatherMaskParams, site);
}

template <typename T>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern,
                const bool reduceMode, const uint32_t mask,
                const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt,
                emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFilled<T>, "GatherMask: T is a 16- or 32-bit type");
    rsvdCnt = emulator::RunGatherMask(emulator::ElementOf<T>(), dst, src0, nullptr, src1Pattern,
                                      reduceMode, mask, gatherMaskParams, site);
}

}  // namespace AscendC

#endif
