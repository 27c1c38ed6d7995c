// Sort32, MrgSort, GetMrgSortResult: records of 8 bytes, score low, index high.
// Source: asc-devkit 9.1, API/Memory矢量计算/排序组合（ISASI）.
#ifndef ASCENDFX_EMULATOR_VECTOR_SORT_H
#define ASCENDFX_EMULATOR_VECTOR_SORT_H

#include "vector_shape.h"

namespace AscendC {

template <typename T>
struct MrgSortSrcList {
    LocalTensor<T> src1, src2, src3, src4;

    MrgSortSrcList() = default;
    MrgSortSrcList(const LocalTensor<T>& src1In, const LocalTensor<T>& src2In,
                   const LocalTensor<T>& src3In, const LocalTensor<T>& src4In)
        : src1(src1In), src2(src2In), src3(src3In), src4(src4In) {}
};

struct MrgSort4Info {
    uint16_t elementLengths[4] = {0, 0, 0, 0};
    bool ifExhaustedSuspension = false;
    uint16_t validBit = 0;
    uint8_t repeatTimes = 1;

    MrgSort4Info() = default;
    MrgSort4Info(const uint16_t lengths[4], const bool suspend, const uint16_t valid,
                 const uint16_t repeats)
        : ifExhaustedSuspension(suspend), validBit(valid),
          repeatTimes(static_cast<uint8_t>(repeats)) {
        for (int i = 0; i < 4; ++i) elementLengths[i] = lengths[i];
    }
};

}  // namespace AscendC

namespace emulator {

void RunSort32(bool isHalf, const LocalOperand& dst, const LocalOperand& score,
               const LocalOperand& index, int32_t repeats, Site site);
void RunMrgSort(bool isHalf, const LocalOperand& dst, const LocalOperand* const sources[4],
                const AscendC::MrgSort4Info& info, Site site);
uint16_t MergedCount(int list);

}  // namespace emulator

namespace AscendC {

template <typename T>
void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0,
            const LocalTensor<uint32_t>& src1, const int32_t repeatTime,
            emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float>, "Sort32: T is half or float");
    emulator::RunSort32(sizeof(T) == 2, dst, src0, src1, repeatTime, site);
}

template <typename T>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params,
             emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, half, float>, "MrgSort: T is half or float");
    const emulator::LocalOperand* const sources[4] = {&src.src1, &src.src2, &src.src3, &src.src4};
    emulator::RunMrgSort(sizeof(T) == 2, dst, sources, params, site);
}

// How many records of each list the last MrgSort consumed.
inline void GetMrgSortResult(uint16_t& mrgSortList1, uint16_t& mrgSortList2,
                             uint16_t& mrgSortList3, uint16_t& mrgSortList4) {
    mrgSortList1 = emulator::MergedCount(0);
    mrgSortList2 = emulator::MergedCount(1);
    mrgSortList3 = emulator::MergedCount(2);
    mrgSortList4 = emulator::MergedCount(3);
}

}  // namespace AscendC

#endif
