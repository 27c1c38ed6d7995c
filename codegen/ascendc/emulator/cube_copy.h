// Copies into the cube core's memories: ND to NZ, L1 to the bias table, Fill.
#ifndef ASCENDFX_EMULATOR_CUBE_COPY_H
#define ASCENDFX_EMULATOR_CUBE_COPY_H

#include "cube_params.h"
#include "tensor.h"

namespace emulator {

void CopyNdToNz(const LocalOperand& dst, const GlobalOperand& src, uint32_t elementBytes,
                const AscendC::Nd2NzParams& params, Site site);

// L1 -> BT (C2), float or int32. Block lengths and dstGap count 64 bytes on 2201, srcGap 32 bytes.
void CopyToBiasTable(const LocalOperand& dst, const LocalOperand& src, uint32_t blockCount,
                     uint32_t blockLen, uint32_t srcGap, uint32_t dstGap, Site site);
// The form with an element count: one contiguous piece, rounded down to 32 bytes.
void CopyToBiasTable(const LocalOperand& dst, const LocalOperand& src, uint64_t bytes, Site site);

void FillLocal(const LocalOperand& dst, uint32_t elementBytes, uint64_t bits, int64_t repeatTimes,
               int64_t blockNum, int64_t dstGap, Site site);

// Whether two of the addresses i·a + j·b with i < m, j < n coincide.
bool GridOverlaps(uint32_t m, uint64_t a, uint32_t n, uint64_t b);

}  // namespace emulator

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& intriParams,
              emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, int4b_t, int8_t, uint8_t, int16_t, uint16_t, int32_t,
                                    uint32_t, half, bfloat16_t, float>,
                  "DataCopy with Nd2NzParams: 8-, 16- and 32-bit types (ND2NZ page)");
    emulator::CopyNdToNz(dst, src, sizeof(T), intriParams, site);
}

template <typename T, typename U = T>
void Fill(const LocalTensor<T>& dst, const InitConstValueParams<U>& initConstValueParams,
          emulator::Site site = emulator::Site::Here()) {
    static_assert(std::is_same_v<T, U>, "Fill: the value has the type of the tensor (Fill page)");
    static_assert(emulator::IsOneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t,
                                    float>,
                  "Fill: 16- and 32-bit types (Fill page)");
    const InitConstValueParams<U>& p = initConstValueParams;
    emulator::FillLocal(dst, sizeof(T), emulator::BitsOf(p.initValue), p.repeatTimes.given(),
                        p.blockNum.given(), p.dstGap.given(), site);
}

template <typename T>
void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<T>& params,
                    emulator::Site site = emulator::Site::Here()) {
    Fill(dst, params, site);
}

}  // namespace AscendC

#endif
