// Copies between GM and UB or L1, inside UB, and the atomic mode of copies to GM.
// Source: asc-devkit 9.1, API/Memory矢量计算/数据搬运, API/原子操作.
#ifndef ASCENDFX_EMULATOR_COPY_H
#define ASCENDFX_EMULATOR_COPY_H

#include "cube_copy.h"

namespace AscendC {

// Lengths and gaps in blocks of 32 bytes; a gap runs from the end of a block to the next.
struct DataCopyParams {
    uint16_t blockCount = 1;
    uint16_t blockLen = 0;
    union {
        uint16_t srcGap = 0;
        uint16_t srcStride;
    };
    union {
        uint16_t dstGap = 0;
        uint16_t dstStride;
    };

    DataCopyParams() = default;
    DataCopyParams(const uint16_t count, const uint16_t len, const uint16_t srcGapIn,
                   const uint16_t dstGapIn)
        : blockCount(count), blockLen(len), srcGap(srcGapIn), dstGap(dstGapIn) {}
};

// blockLen in bytes; gaps in bytes on the GM side, in blocks of 32 bytes on the local side.
struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    uint32_t srcStride = 0;
    uint32_t dstStride = 0;
    uint32_t rsv = 0;

    DataCopyExtParams() = default;
    DataCopyExtParams(const uint16_t count, const uint32_t len, const uint32_t srcStrideIn,
                      const uint32_t dstStrideIn, const uint32_t rsvIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn),
          rsv(rsvIn) {}
};

template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    T paddingValue{};

    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(const bool isPadValue, const uint8_t leftPadValue,
                         const uint8_t rightPadValue, T padValue)
        : isPad(isPadValue), leftPadding(leftPadValue), rightPadding(rightPadValue),
          paddingValue(padValue) {}
};

}  // namespace AscendC

namespace emulator {

// blockCount pieces of blockLen, in bytes, with gaps in bytes.
struct CopyShape {
    uint32_t count;
    uint64_t length, sourceGap, targetGap;
};

struct Padding {
    bool isPad;
    uint32_t left, right;  // bytes
    uint64_t value;
    uint32_t elementBytes;
};

enum class AtomicOperation : uint8_t { ADD, MAX, MIN };

void CopyIn(const LocalOperand& dst, const GlobalOperand& src, CopyShape shape, Site site);
void CopyOut(const GlobalOperand& dst, const LocalOperand& src, CopyShape shape, Site site);
void CopyInside(const LocalOperand& dst, const LocalOperand& src, CopyShape shape, Site site);
void CopyInPadded(const LocalOperand& dst, const GlobalOperand& src, CopyShape shape,
                  Padding padding, Site site);
void CopyOutPadded(const GlobalOperand& dst, const LocalOperand& src, CopyShape shape,
                   uint32_t elementBytes, Site site);
// The shape of a contiguous copy; a length that is no multiple of 32 bytes is a fault.
CopyShape WholeBlocks(uint64_t bytes, Site site);
CopyShape ShapeOf(const AscendC::DataCopyParams& params);
void SetAtomic(AtomicOperation operation, Element element, Site site);
void ClearAtomic();

template <typename T>
constexpr bool IsCopied = IsOneOf<T, int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t,
                                  uint32_t, float, int64_t, uint64_t, double>;

}  // namespace emulator

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count,
              emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCopied<T>, "DataCopy: this element type is not documented");
    emulator::CopyIn(dst, src, emulator::WholeBlocks(uint64_t{count} * sizeof(T), site), site);
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
              emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCopied<T>, "DataCopy: this element type is not documented");
    emulator::CopyOut(dst, src, emulator::WholeBlocks(uint64_t{count} * sizeof(T), site), site);
}

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
              emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCopied<T>, "DataCopy: this element type is not documented");
    if (dst.space() == emulator::Space::BIAS_TABLE) {
        return emulator::CopyToBiasTable(dst, src, uint64_t{count} * sizeof(T), site);
    }
    emulator::CopyInside(dst, src, emulator::WholeBlocks(uint64_t{count} * sizeof(T), site), site);
}

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
              const DataCopyParams& repeatParams, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCopied<T>, "DataCopy: this element type is not documented");
    emulator::CopyIn(dst, src, emulator::ShapeOf(repeatParams), site);
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
              const DataCopyParams& repeatParams, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCopied<T>, "DataCopy: this element type is not documented");
    emulator::CopyOut(dst, src, emulator::ShapeOf(repeatParams), site);
}

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src,
              const DataCopyParams& repeatParams, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCopied<T>, "DataCopy: this element type is not documented");
    if (dst.space() == emulator::Space::BIAS_TABLE) {
        return emulator::CopyToBiasTable(dst, src, repeatParams.blockCount, repeatParams.blockLen,
                                         repeatParams.srcGap, repeatParams.dstGap, site);
    }
    emulator::CopyInside(dst, src, emulator::ShapeOf(repeatParams), site);
}

template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                 const DataCopyExtParams& dataCopyParams,
                 const DataCopyPadExtParams<T>& padParams,
                 emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCopied<T>, "DataCopyPad: this element type is not documented");
    const emulator::CopyShape shape{dataCopyParams.blockCount, dataCopyParams.blockLen,
                                    dataCopyParams.srcStride,
                                    uint64_t{dataCopyParams.dstStride} * 32};
    const emulator::Padding padding{
        padParams.isPad, static_cast<uint32_t>(padParams.leftPadding * sizeof(T)),
        static_cast<uint32_t>(padParams.rightPadding * sizeof(T)),
        emulator::BitsOf(padParams.paddingValue), sizeof(T)};
    emulator::CopyInPadded(dst, src, shape, padding, site);
}

template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                 const DataCopyExtParams& dataCopyParams,
                 emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsCopied<T>, "DataCopyPad: this element type is not documented");
    const emulator::CopyShape shape{dataCopyParams.blockCount, dataCopyParams.blockLen,
                                    uint64_t{dataCopyParams.srcStride} * 32,
                                    dataCopyParams.dstStride};
    emulator::CopyOutPadded(dst, src, shape, sizeof(T), site);
}

template <typename T>
void SetAtomicAdd(emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, int8_t, int16_t, half, bfloat16_t, int32_t, float>,
                  "SetAtomicAdd: T is int8_t, int16_t, half, bfloat16_t, int32_t or float");
    emulator::SetAtomic(emulator::AtomicOperation::ADD, emulator::ElementOf<T>(), site);
}

template <typename T>
void SetAtomicMax(emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, int8_t, int16_t, half, bfloat16_t, int32_t, float>,
                  "SetAtomicMax: T is int8_t, int16_t, half, bfloat16_t, int32_t or float");
    emulator::SetAtomic(emulator::AtomicOperation::MAX, emulator::ElementOf<T>(), site);
}

template <typename T>
void SetAtomicMin(emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, int8_t, int16_t, half, bfloat16_t, int32_t, float>,
                  "SetAtomicMin: T is int8_t, int16_t, half, bfloat16_t, int32_t or float");
    emulator::SetAtomic(emulator::AtomicOperation::MIN, emulator::ElementOf<T>(), site);
}

inline void SetAtomicNone() { emulator::ClearAtomic(); }
inline void DisableDmaAtomic() { emulator::ClearAtomic(); }

}  // namespace AscendC

#endif
