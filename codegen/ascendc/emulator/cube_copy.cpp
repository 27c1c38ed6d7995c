// Copies into the cube core's memories. Source: asc-devkit, pages "DataCopy (GM to L1, ND2NZ)",
// "DataCopy (L1 to BiasTable buffer)" and "Fill".
#include "cube_copy.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "cube_product.h"

namespace emulator {

bool GridOverlaps(uint32_t m, uint64_t a, uint32_t n, uint64_t b) {
    if (m < 2 && n < 2) return false;
    if (m < 2) return b == 0;
    if (n < 2) return a == 0;
    const uint64_t common = std::gcd(a, b);
    if (common == 0) return true;
    return b / common < m && a / common < n;
}

namespace {

void CheckNdToNz(const AscendC::Nd2NzParams& p, uint32_t elementBytes, Site site) {
    const FieldCheck check{site, PIPE_MTE2};
    check("Nd2NzParams.ndNum", p.ndNum.given(), 0, 4095);
    check("Nd2NzParams.nValue", p.nValue.given(), 0, 16384);
    check("Nd2NzParams.dValue", p.dValue.given(), 0, 65535);
    check("Nd2NzParams.srcNdMatrixStride", p.srcNdMatrixStride.given(), 0, 65535);
    check("Nd2NzParams.srcDValue", p.srcDValue.given(), 1, 65535);
    check("Nd2NzParams.dstNzC0Stride", p.dstNzC0Stride.given(), 1, 16384);
    check("Nd2NzParams.dstNzNStride", p.dstNzNStride.given(), 1, 16384);
    check("Nd2NzParams.dstNzMatrixStride", p.dstNzMatrixStride.given(), 0, 16384);
    if (p.ndNum > 1 && p.dstNzMatrixStride * elementBytes % 32 != 0) {
        Fault(site, PIPE_MTE2, "alignment", 0,
              "Nd2NzParams.dstNzMatrixStride = %u elements is not a multiple of 32 bytes",
              uint32_t(p.dstNzMatrixStride));
    }
}

// Whether the matrices of one copy share a granule of L1; one alone was checked before.
bool MatricesOverlap(const std::vector<Range>& writes, uint32_t capacity) {
    std::vector<bool> taken(capacity / 32);
    for (const Range& range : writes) {
        for (uint32_t i = 0; i < range.outerCount * range.count; ++i) {
            const uint64_t begin = range.address + i / range.count * range.outerStride +
                                   i % range.count * range.stride;
            for (uint64_t at = begin / 32; at < (begin + range.length) / 32; ++at) {
                if (at >= taken.size()) return false;  // Issue reports the bounds
                if (taken[at]) return true;
                taken[at] = true;
            }
        }
    }
    return false;
}

// Rows of 32 bytes with the tail of the last block zero: what one ND matrix becomes.
void MoveNdToNz(const std::byte* source, std::byte* target, uint32_t rowBytes, uint32_t rows,
                uint64_t sourcePitch, uint64_t rowPitch, uint64_t blockPitch) {
    const uint32_t whole = rowBytes / 32, tail = rowBytes % 32;
    for (uint32_t row = 0; row < rows; ++row) {
        const std::byte* from = source + row * sourcePitch;
        std::byte* to = target + row * rowPitch;
        for (uint32_t block = 0; block < whole; ++block) {
            std::memcpy(to + block * blockPitch, from + block * 32, 32);
        }
        if (tail == 0) continue;
        std::memcpy(to + whole * blockPitch, from + whole * 32, tail);
        std::memset(to + whole * blockPitch + tail, 0, 32 - tail);
    }
}

}  // namespace

void CopyNdToNz(const LocalOperand& dst, const GlobalOperand& src, uint32_t elementBytes,
                const AscendC::Nd2NzParams& p, Site site) {
    const uint32_t matrices = p.ndNum, rows = p.nValue;
    if (dst.space() != Space::L1) {
        Fault(site, PIPE_MTE2, "arguments", dst.address, "ND2NZ copies to L1 only (A1, B1, C1)");
    }
    if (p.ndNum.given() == 0 || p.nValue.given() == 0 || p.dValue.given() == 0) return;
    CheckNdToNz(p, elementBytes, site);
    const uint32_t rowBytes = p.dValue * elementBytes;
    const uint32_t blocks = CeilDivide(rowBytes, 32);
    const uint64_t rowPitch = p.dstNzNStride * uint64_t{32};
    const uint64_t blockPitch = p.dstNzC0Stride * uint64_t{32};
    if (GridOverlaps(rows, rowPitch, blocks, blockPitch)) {
        Fault(site, PIPE_MTE2, "arguments", dst.address,
              "ND2NZ writes blocks over each other: %u rows every %u blocks of 32 bytes, %u column "
              "blocks every %u",
              rows, uint32_t(p.dstNzNStride), blocks, uint32_t(p.dstNzC0Stride));
    }
    const uint64_t sourcePitch = uint64_t{p.srcDValue} * elementBytes;
    const uint64_t sourceMatrix = uint64_t{p.srcNdMatrixStride} * elementBytes;
    const uint64_t targetMatrix = uint64_t{p.dstNzMatrixStride} * elementBytes;
    std::vector<Range> reads, writes;
    for (uint32_t matrix = 0; matrix < matrices; ++matrix) {
        if (matrix == 0 || sourceMatrix != 0) {
            reads.push_back(Piece(src, matrix * sourceMatrix, rowBytes).Times(rows, sourcePitch));
        }
        if (matrix != 0 && sourceMatrix + targetMatrix == 0) continue;  // the same again
        const Range block = p.dstNzNStride == 1
                                ? Piece(dst, matrix * targetMatrix, rows * 32)
                                : Piece(dst, matrix * targetMatrix, 32).Times(rows, rowPitch);
        writes.push_back(block.TimesOuter(blocks, blockPitch));
    }
    if (writes.size() > 1 && MatricesOverlap(writes, 524288)) {
        Fault(site, PIPE_MTE2, "arguments", dst.address,
              "ND2NZ writes %u matrices over each other: dstNzMatrixStride = %u elements", matrices,
              uint32_t(p.dstNzMatrixStride));
    }
    IssueLists("DataCopy ND2NZ", PIPE_MTE2, site, {reads.data(), uint32_t(reads.size())},
               {writes.data(), uint32_t(writes.size())},
               Cost{.bytes = uint64_t{matrices} * rows * rowBytes});
    if (!kValues) return;
    const auto* source = reinterpret_cast<const std::byte*>(src.address);
    std::byte* target = LocalBytes(dst);
    for (uint32_t matrix = 0; matrix < matrices; ++matrix) {
        MoveNdToNz(source + matrix * sourceMatrix, target + matrix * targetMatrix, rowBytes, rows,
                   sourcePitch, rowPitch, blockPitch);
    }
}

void CopyToBiasTable(const LocalOperand& dst, const LocalOperand& src, uint32_t blockCount,
                     uint32_t blockLen, uint32_t srcGap, uint32_t dstGap, Site site) {
    if (blockCount == 0 || blockLen == 0) return;
    const uint64_t length = blockLen * uint64_t{64};
    const uint64_t sourcePitch = length + srcGap * uint64_t{32};
    const uint64_t pitch = length + dstGap * uint64_t{64};
    Issue("DataCopy L1->BT", PIPE_MTE1, site,
          {Piece(src, 0, length).Times(blockCount, int64_t(sourcePitch))},
          {Piece(dst, 0, length).Times(blockCount, int64_t(pitch))},
          Cost{.bytes = blockCount * length});
    if (!kValues) return;
    for (uint32_t block = 0; block < blockCount; ++block) {
        std::memcpy(LocalBytes(dst) + block * pitch, LocalBytes(src) + block * sourcePitch, length);
    }
}

void CopyToBiasTable(const LocalOperand& dst, const LocalOperand& src, uint64_t bytes, Site site) {
    if (bytes % 64 != 0) {
        Fault(site, PIPE_MTE1, "arguments", bytes,
              "DataCopy of %llu bytes to the bias table: the chip copies units of 64 bytes and would "
              "lose the tail",
              static_cast<unsigned long long>(bytes));
    }
    if (bytes == 0) return;
    Issue("DataCopy L1->BT", PIPE_MTE1, site, {Piece(src, 0, bytes)}, {Piece(dst, 0, bytes)},
          Cost{.bytes = bytes});
    if (kValues) std::memcpy(LocalBytes(dst), LocalBytes(src), bytes);
}

void FillLocal(const LocalOperand& dst, uint32_t elementBytes, uint64_t bits, int64_t repeatTimes,
               int64_t blockNum, int64_t dstGap, Site site) {
    const bool inL1 = dst.space() == Space::L1;
    if (!inL1 && dst.space() != Space::L0A && dst.space() != Space::L0B) {
        Fault(site, PIPE_MTE2, "arguments", dst.address, "Fill works on L1, L0A and L0B only");
    }
    const pipe_t pipe = inL1 ? PIPE_MTE2 : PIPE_MTE1;
    const FieldCheck check{site, pipe};
    check("InitConstValueParams.repeatTimes", repeatTimes, 0, 32767);
    check("InitConstValueParams.blockNum", blockNum, 0, 32767);
    check("InitConstValueParams.dstGap", dstGap, 0, 32767);
    if (repeatTimes == 0 || blockNum == 0) return;
    const uint64_t unit = inL1 ? 32 : 512;
    const uint64_t length = uint64_t(blockNum) * unit;
    const uint64_t pitch = length + uint64_t(dstGap) * unit;
    Issue("Fill", pipe, site, {},
          {Piece(dst, 0, length).Times(uint32_t(repeatTimes), int64_t(pitch))},
          Cost{.bytes = uint64_t(repeatTimes) * length});
    if (!kValues) return;
    std::byte* target = LocalBytes(dst);
    for (int64_t repeat = 0; repeat < repeatTimes; ++repeat) {
        for (uint64_t at = 0; at < length; at += elementBytes) {
            std::memcpy(target + repeat * pitch + at, &bits, elementBytes);
        }
    }
}

}  // namespace emulator
