// How a vector instruction walks over its operands: `count` elements, or repeats of masked lanes
// with block and repeat strides. Source: API/Memory矢量计算/SIMD计算说明.
#ifndef ASCENDFX_EMULATOR_VECTOR_SHAPE_H
#define ASCENDFX_EMULATOR_VECTOR_SHAPE_H

#include "tensor.h"

namespace emulator {

// One operand; strides in blocks of 32 bytes, as documented (unused in the count form).
struct VectorOperand {
    const LocalOperand* tensor;
    uint32_t elementBytes;
    uint32_t blockStride = 1;
    uint32_t repeatStride = 8;
};

// `lanes` leading lanes of every repeat, or those whose bit is set.
struct VectorShape {
    bool dense;          // count form: `count` contiguous elements
    bool byBits;
    uint32_t count;
    uint32_t repeats;
    uint32_t lanes;      // per repeat
    uint32_t lastLanes;  // of the last repeat (counter mode)
    uint64_t bits[2];
};

// The mask argument as written in a call; MASK_PLACEHOLDER with isSetMask = false.
struct MaskArgument {
    const uint64_t* bits;  // bit form, else nullptr
    uint64_t lanes;
    bool isSet;
};

VectorShape DenseShape(int64_t count, const char* name, Site site);
VectorShape RepeatShape(MaskArgument mask, uint32_t repeats, uint32_t widestBytes,
                        const char* name, Site site);

constexpr uint32_t kMostSources = 3;

struct VectorOperands {
    const char* name;
    VectorOperand target;
    VectorOperand sources[kMostSources];
    uint32_t sourceCount;
    bool readsTarget = false;
    bool accumulates = false;  // the second source may be the target with a repeat stride of 0
};

// vector_overlap.cpp: of source and destination in the repeat form.
void CheckRepeatOverlap(const VectorShape& shape, const VectorOperands& operands, Site site);

// Checks and books the instruction; false if there is nothing to compute.
bool IssueVector(const VectorShape& shape, const VectorOperands& operands, Site site);

// Calls run(elements, target pointer, source pointers) for contiguous pieces in order.
using VectorRun = void (*)(void* context, uint64_t elements, std::byte* target,
                           std::byte* const* sources);
void ForEachRun(const VectorShape& shape, const VectorOperands& operands, VectorRun run,
                void* context);

template <typename Function>
void ForEachRun(const VectorShape& shape, const VectorOperands& operands, Function function) {
    ForEachRun(
        shape, operands,
        [](void* context, uint64_t elements, std::byte* target, std::byte* const* sources) {
            (*static_cast<Function*>(context))(elements, target, sources);
        },
        &function);
}

void SetVectorMask(uint64_t high, uint64_t low);
void SetMaskMode(bool counter);

}  // namespace emulator

namespace AscendC {

struct UnaryRepeatParams {
    uint16_t dstBlkStride = 1;
    uint16_t srcBlkStride = 1;
    uint8_t dstRepStride = 8;
    uint8_t srcRepStride = 8;
    bool halfBlock = false;

    UnaryRepeatParams() = default;
    UnaryRepeatParams(const uint16_t dstBlk, const uint16_t srcBlk, const uint8_t dstRep,
                      const uint8_t srcRep)
        : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep) {}
};

struct BinaryRepeatParams {
    uint32_t blockNumber = 8;
    uint8_t dstBlkStride = 1;
    uint8_t src0BlkStride = 1;
    uint8_t src1BlkStride = 1;
    uint8_t dstRepStride = 8;
    uint8_t src0RepStride = 8;
    uint8_t src1RepStride = 8;

    BinaryRepeatParams() = default;
    BinaryRepeatParams(const uint8_t dstBlk, const uint8_t src0Blk, const uint8_t src1Blk,
                       const uint8_t dstRep, const uint8_t src0Rep, const uint8_t src1Rep)
        : dstBlkStride(dstBlk), src0BlkStride(src0Blk), src1BlkStride(src1Blk),
          dstRepStride(dstRep), src0RepStride(src0Rep), src1RepStride(src1Rep) {}
};

struct BrcbRepeatParams {
    uint16_t dstBlkStride = 1;
    uint16_t dstRepStride = 8;

    BrcbRepeatParams() = default;
    BrcbRepeatParams(const uint16_t dstBlk, const uint16_t dstRep)
        : dstBlkStride(dstBlk), dstRepStride(dstRep) {}
};

struct CopyRepeatParams {
    uint16_t dstStride = 1;
    uint16_t srcStride = 1;
    uint16_t dstRepeatSize = 8;
    uint16_t srcRepeatSize = 8;

    CopyRepeatParams() = default;
    CopyRepeatParams(const uint16_t dst, const uint16_t src, const uint16_t dstRepeat,
                     const uint16_t srcRepeat)
        : dstStride(dst), srcStride(src), dstRepeatSize(dstRepeat), srcRepeatSize(srcRepeat) {}
};

constexpr uint64_t MASK_PLACEHOLDER = 0;

enum class MaskMode : uint8_t { NORMAL, COUNTER };

template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow) {
    emulator::SetVectorMask(maskHigh, maskLow);
}

// The first `len` lanes of a repeat; in counter mode the number of elements.
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t len) {
    if (mode == MaskMode::COUNTER) {
        emulator::SetVectorMask(0, static_cast<uint64_t>(len));
    } else if (len > 64) {
        emulator::SetVectorMask(len >= 128 ? ~uint64_t{0} : (uint64_t{1} << (len - 64)) - 1,
                                ~uint64_t{0});
    } else {
        emulator::SetVectorMask(0, len == 64 ? ~uint64_t{0} : (uint64_t{1} << len) - 1);
    }
}

inline void SetMaskCount() { emulator::SetMaskMode(true); }
inline void SetMaskNorm() { emulator::SetMaskMode(false); }
inline void ResetMask() { emulator::SetVectorMask(~uint64_t{0}, ~uint64_t{0}); }

}  // namespace AscendC

#endif
