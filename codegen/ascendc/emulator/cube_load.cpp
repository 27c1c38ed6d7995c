// Loads of 512-byte fractals. Source: asc-devkit, pages "LoadData (2D matrices)",
// "LoadDataWithTranspose" and "LoadData (convolution)", and "restrictions of matrix loads".
#include "cube_load.h"

#include <algorithm>
#include <cstring>

#include "cube_copy.h"
#include "cube_poison.h"
#include "cube_product.h"

namespace emulator {
namespace {

constexpr uint64_t kFractal = 512;
constexpr uint32_t kEdge = 16;

bool IsL0(Space space) { return space == Space::L0A || space == Space::L0B; }

// to[c][r] = from[r][c] of a 16 x 16 block of 16-bit numbers.
void Transpose16(const std::byte* from, std::byte* to) {
    uint16_t in[256], out[256];
    std::memcpy(in, from, sizeof in);
    for (uint32_t row = 0; row < 16; ++row) {
        for (uint32_t column = 0; column < 16; ++column) {
            out[column * 16 + row] = in[row * 16 + column];
        }
    }
    std::memcpy(to, out, sizeof out);
}

// Copies what a 2D load moves; the source stride is negative with addrMode 1.
void MoveFractals(const std::byte* source, std::byte* target, uint32_t count, int64_t sourceStride,
                  int64_t targetStride, bool transpose) {
    for (uint32_t i = 0; i < count; ++i) {
        const std::byte* from = source + i * sourceStride;
        std::byte* to = target + i * targetStride;
        if (transpose) {
            Transpose16(from, to);
        } else {
            std::memcpy(to, from, kFractal);
        }
    }
}

struct FractalMove {
    int64_t start;  // bytes
    int64_t sourceStride, targetStride;
};

FractalMove CheckFractals(const LocalOperand& dst, uint32_t elementBytes, bool mayGoBack,
                          const AscendC::LoadData2DParams& p, pipe_t pipe, Site site) {
    const FieldCheck check{site, pipe};
    check("LoadData2DParams.startIndex", p.startIndex.given(), 0, 65535);
    check("LoadData2DParams.repeatTimes", p.repeatTimes.given(), 0, 255);
    check("LoadData2DParams.srcStride", p.srcStride.given(), 0, 65535);
    check("LoadData2DParams.dstGap", p.dstGap.given(), 0, 65535);
    check("LoadData2DParams.addrMode (1 only from GM to L1)", p.addrMode.given(), 0, mayGoBack);
    if (p.ifTranspose && (elementBytes != 2 || !IsL0(dst.space()))) {
        Fault(site, pipe, "arguments", dst.address,
              "LoadData2DParams.ifTranspose works on 16-bit types from L1 to L0A or L0B only");
    }
    const int64_t stride = p.srcStride * int64_t(kFractal);
    return {p.startIndex * int64_t(kFractal), p.addrMode == 1 ? -stride : stride,
            (p.dstGap + int64_t{1}) * int64_t(kFractal)};
}

// `count` fractals in steps, in as few pieces as possible.
Range Fractals(Range first, uint32_t count, int64_t stride) {
    if (stride != int64_t(first.length)) return first.Times(count, stride);
    first.length *= count;
    return first;
}

}  // namespace

void LoadFractals(const LocalOperand& dst, const LocalOperand& src, uint32_t elementBytes,
                  const AscendC::LoadData2DParams& p, Site site) {
    if (src.space() != Space::L1 || !IsL0(dst.space())) {
        Fault(site, PIPE_MTE1, "arguments", dst.address,
              "LoadData copies from L1 (A1, B1) to L0A (A2) or L0B (B2)");
    }
    if (p.repeatTimes.given() == 0) return;
    const FractalMove move = CheckFractals(dst, elementBytes, false, p, PIPE_MTE1, site);
    const uint32_t count = p.repeatTimes;
    const Range read = Piece(src, uint64_t(move.start), kFractal);
    const uint32_t distinct = move.sourceStride == 0 ? 1 : count;
    Issue("LoadData", PIPE_MTE1, site, {Fractals(read, distinct, move.sourceStride).Aligned(32)},
          {Fractals(Piece(dst, 0, kFractal), count, move.targetStride)},
          Cost{.bytes = count * kFractal, .repeats = count}, {.carriesPoison = true});
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t from = src.address + uint64_t(move.start + i * move.sourceStride);
        const uint64_t to = dst.address + uint64_t(i * move.targetStride);
        if (p.ifTranspose) {
            CarryTransposed(Space::L1, from, dst.space(), to);
        } else {
            CarryPoison(Space::L1, from, dst.space(), to, kFractal);
        }
    }
    if (!kValues) return;
    MoveFractals(LocalBytes(src) + move.start, LocalBytes(dst), count, move.sourceStride,
                 move.targetStride, p.ifTranspose);
}

void LoadFractals(const LocalOperand& dst, const GlobalOperand& src, uint32_t elementBytes,
                  const AscendC::LoadData2DParams& p, Site site) {
    if (!IsL0(dst.space()) && dst.space() != Space::L1) {
        Fault(site, PIPE_MTE2, "arguments", dst.address,
              "LoadData copies from GM to L1, L0A (A2) or L0B (B2)");
    }
    if (p.repeatTimes.given() == 0) return;
    if (p.ifTranspose) {
        Fault(site, PIPE_MTE2, "arguments", dst.address,
              "LoadData2DParams.ifTranspose is not available from GM");
    }
    const bool toL1 = dst.space() == Space::L1;
    const FractalMove move = CheckFractals(dst, elementBytes, toL1, p, PIPE_MTE2, site);
    const uint32_t count = p.repeatTimes;
    const Range read = Piece(src, uint64_t(move.start), kFractal);
    const uint32_t distinct = move.sourceStride == 0 ? 1 : count;
    Issue("LoadData", PIPE_MTE2, site, {Fractals(read, distinct, move.sourceStride)},
          {Fractals(Piece(dst, 0, kFractal), count, move.targetStride)},
          Cost{.bytes = count * kFractal, .repeats = count});
    if (!kValues) return;
    MoveFractals(reinterpret_cast<const std::byte*>(src.address) + move.start, LocalBytes(dst),
                 count, move.sourceStride, move.targetStride, false);
}

namespace {

// A square of `edge` x `edge` numbers made of fractals that follow each other in L1: of whole rows
// for 8 and 16 bits, of 8 columns each for 32 bits.
struct Square {
    uint32_t edge, fractals;
};

Square SquareOf(uint32_t elementBytes) {
    if (elementBytes == 1) return {32, 2};
    if (elementBytes == 2) return {16, 1};
    return {16, 2};
}

// Byte offset of (row, column) in a square, `gap` bytes from one of its fractals to the next.
constexpr uint64_t OffsetInSquare(uint32_t elementBytes, uint32_t row, uint32_t column,
                                  uint64_t gap) {
    if (elementBytes == 4) return (column / 8) * gap + (row * 8 + column % 8) * 4;
    const uint32_t k0 = 32 / elementBytes;
    return (row / kEdge) * gap + (row % kEdge * k0 + column) * elementBytes;
}

template <typename Word, uint32_t kSide>
void TransposeWords(const std::byte* from, std::byte* to, uint64_t gap) {
    constexpr uint32_t kBytes = sizeof(Word);
    for (uint32_t row = 0; row < kSide; ++row) {
        for (uint32_t column = 0; column < kSide; ++column) {
            std::memcpy(to + OffsetInSquare(kBytes, column, row, gap),
                        from + OffsetInSquare(kBytes, row, column, kFractal), kBytes);
        }
    }
}

void TransposeSquare(const std::byte* from, std::byte* to, uint32_t elementBytes, uint64_t gap) {
    if (elementBytes == 1) TransposeWords<uint8_t, 32>(from, to, gap);
    if (elementBytes == 2) TransposeWords<uint16_t, 16>(from, to, gap);
    if (elementBytes == 4) TransposeWords<uint32_t, 16>(from, to, gap);
}

// Never-written numbers of a square stay so in the transposed one.
void CarrySquare(const LocalOperand& src, uint64_t from, const LocalOperand& dst, uint64_t to,
                 uint32_t elementBytes, uint64_t gap) {
    const Square square = SquareOf(elementBytes);
    if (!IsPoisoned(Space::L1, src.address + from, square.fractals * kFractal)) return;
    for (uint32_t row = 0; row < square.edge; ++row) {
        for (uint32_t column = 0; column < square.edge; ++column) {
            const uint64_t at = from + OffsetInSquare(elementBytes, row, column, kFractal);
            if (!IsPoisoned(Space::L1, src.address + at, elementBytes)) continue;
            SetPoison(dst.space(),
                      dst.address + to + OffsetInSquare(elementBytes, column, row, gap),
                      elementBytes);
        }
    }
}

}  // namespace

void LoadSquares(const LocalOperand& dst, const LocalOperand& src, uint32_t elementBytes,
                 const AscendC::LoadData2dTransposeParams& p, Site site) {
    if (src.space() != Space::L1 || !IsL0(dst.space())) {
        Fault(site, PIPE_MTE1, "arguments", dst.address,
              "LoadDataWithTranspose copies from L1 (A1, B1) to L0A (A2) or L0B (B2)");
    }
    if (p.repeatTimes.given() == 0) return;
    const FieldCheck check{site, PIPE_MTE1};
    check("LoadData2dTransposeParams.startIndex", p.startIndex.given(), 0, 65535);
    check("LoadData2dTransposeParams.repeatTimes", p.repeatTimes.given(), 0, 255);
    check("LoadData2dTransposeParams.srcStride", p.srcStride.given(), 0, 65535);
    check("LoadData2dTransposeParams.dstGap", p.dstGap.given(), 0, 65535);
    check("LoadData2dTransposeParams.dstFracGap", p.dstFracGap.given(), 0, 65535);
    check("LoadData2dTransposeParams.addrMode", p.addrMode.given(), 0, 1);
    const Square square = SquareOf(elementBytes);
    const uint32_t count = p.repeatTimes;
    const int64_t bytes = int64_t(square.fractals * kFractal);
    const int64_t stride = p.srcStride * bytes * (p.addrMode == 1 ? -1 : 1);
    const int64_t start = p.startIndex * bytes;
    const uint64_t pitch = (p.dstGap + uint64_t{1}) * kFractal;
    const uint64_t gap = square.fractals == 1 ? kFractal : (p.dstFracGap + uint64_t{1}) * kFractal;
    if (GridOverlaps(count, pitch, square.fractals, gap)) {
        Fault(site, PIPE_MTE1, "arguments", dst.address,
              "LoadDataWithTranspose writes fractals over each other: %u repeats with dstGap = %u, "
              "dstFracGap = %u",
              count, uint32_t(p.dstGap), uint32_t(p.dstFracGap));
    }
    const Range read = Piece(src, uint64_t(start), uint64_t(bytes)).Aligned(32);
    Issue("LoadDataWithTranspose", PIPE_MTE1, site,
          {Fractals(read, stride == 0 ? 1 : count, stride)},
          {Piece(dst, 0, kFractal).Times(count, int64_t(pitch)).TimesOuter(square.fractals, gap)},
          Cost{.bytes = uint64_t(count * bytes), .repeats = count}, {.carriesPoison = true});
    for (uint32_t i = 0; i < count; ++i) {
        CarrySquare(src, uint64_t(start + i * stride), dst, i * pitch, elementBytes, gap);
    }
    if (!kValues) return;
    for (uint32_t i = 0; i < count; ++i) {
        TransposeSquare(LocalBytes(src) + start + i * stride, LocalBytes(dst) + i * pitch,
                        elementBytes, gap);
    }
}

}  // namespace emulator
