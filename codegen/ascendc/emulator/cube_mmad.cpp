// Checks of one Mmad. Source: asc-devkit, pages "Mmad", "GEMV" and "alignment along K".
#include "cube_mmad.h"

#include "cube_product.h"

namespace emulator {
namespace {

constexpr uint32_t kFractal = 512;
constexpr uint32_t kBlock = 1024;  // 16 x 16 results
constexpr uint32_t kEdge = 16;
constexpr uint32_t kSafeBlocks = 10;  // Mmad page: from here on the hardware orders C itself

// Sizes of one product in fractals: whole ones and what is left of the last.
struct Extent {
    uint32_t m, n, k;
    uint32_t bits;  // of an element of A and B
    uint32_t k0;
    uint32_t depthPitch;  // fractals of A from one tile of rows to the next

    uint32_t rowTiles() const { return CeilDivide(m, kEdge); }
    uint32_t columnTiles() const { return CeilDivide(n, kEdge); }
    uint32_t depths() const { return CeilDivide(k, k0); }
    uint32_t bytesOf(uint32_t elements) const { return elements * bits / 8; }
};

void CheckArguments(const LocalOperand& dst, const LocalOperand& left, const LocalOperand& right,
                    const LocalOperand* bias, const AscendC::MmadParams& p, Site site) {
    const FieldCheck check{site, PIPE_M};
    check("MmadParams.m", p.m.given(), 0, 4095);
    check("MmadParams.n", p.n.given(), 0, 4095);
    check("MmadParams.k", p.k.given(), 0, 4095);
    check("MmadParams.unitFlag", p.unitFlag.given(), 0, 3);
    const auto fault = [&](const char* text) { Fault(site, PIPE_M, "arguments", 0, "%s", text); };
    if (dst.space() != Space::L0C) fault("Mmad writes to L0C (CO1)");
    if (left.space() != Space::L0A) fault("Mmad reads its left matrix from L0A (A2)");
    if (right.space() != Space::L0B) fault("Mmad reads its right matrix from L0B (B2)");
    if (bias != nullptr && bias->space() != Space::BIAS_TABLE) {
        fault("Mmad takes its bias from the bias table (C2)");
    }
    if (p.isBias) fault("MmadParams.isBias is abandoned: use cmatrixInitVal or the bias overload");
    if (p.unitFlag == 1) fault("MmadParams.unitFlag is 0, 2 or 3");
    if (bias == nullptr && p.cmatrixSource && !p.cmatrixInitVal) {
        fault("MmadParams.cmatrixSource (start from the bias table) is emulated through the "
              "overload with a bias tensor only");
    }
}

// Only the numbers that count; the rest of the last fractals is read and ignored by the device.
uint32_t LeftRanges(const LocalOperand& a, const Extent& e, Range* out) {
    if (e.m == 1) {  // GEMV: A is a plain vector
        out[0] = Piece(a, 0, e.bytesOf(e.k));
        return 1;
    }
    const uint32_t tiles = e.m / kEdge, rows = e.m % kEdge;
    const uint32_t depths = e.k / e.k0, rest = e.bytesOf(e.k % e.k0);
    const int64_t pitch = int64_t{e.depthPitch} * kFractal;
    const uint64_t lastTile = uint64_t(tiles * pitch), lastDepth = uint64_t{depths} * kFractal;
    out[0] = Piece(a, 0, lastDepth).Times(tiles, pitch);
    out[1] = Piece(a, lastDepth, rest).Times(kEdge, 32).TimesOuter(tiles, pitch);
    out[2] = Piece(a, lastTile, rows * 32).Times(depths, kFractal);
    out[3] = Piece(a, lastTile + lastDepth, rest).Times(rows, 32);
    return 4;
}

uint32_t RightRanges(const LocalOperand& b, const Extent& e, Range* out) {
    const uint32_t depths = e.k / e.k0, rest = e.bytesOf(e.k % e.k0);
    const int64_t pitch = int64_t{e.columnTiles()} * kFractal;
    out[0] = Piece(b, 0, e.n * 32).Times(depths, pitch);
    out[1] = Piece(b, uint64_t(depths * pitch), rest).Times(e.n, 32);
    return 2;
}

uint32_t ResultRanges(const LocalOperand& c, const Extent& e, Range* out) {
    const uint32_t columns = e.n / kEdge, rest = e.n % kEdge;
    const int64_t pitch = int64_t{e.rowTiles()} * kBlock;
    out[0] = Piece(c, 0, e.m * 64).Times(columns, pitch);
    out[1] = Piece(c, uint64_t(columns * pitch), rest * 4).Times(e.m, 64);
    return 2;
}

// Whole fractals must lie in the tensors, although part of them is ignored.
void CheckFits(const char* what, const LocalOperand& tensor, uint64_t needed, Site site) {
    if (needed <= tensor.bytes) return;
    Fault(site, PIPE_M, "bounds", tensor.address,
          "Mmad: %s takes %llu bytes in whole fractals, its tensor has %u", what,
          static_cast<unsigned long long>(needed), tensor.bytes);
}

void MarkPadding(const LocalOperand& c, const Extent& e) {
    const uint32_t rest = e.n % kEdge;
    for (uint32_t column = 0; column < e.columnTiles(); ++column) {
        const uint64_t block = c.address + uint64_t{column} * e.rowTiles() * kBlock;
        const uint32_t unused = e.rowTiles() * kEdge - e.m;
        if (unused != 0) SetPoison(Space::L0C, block + e.m * 64, unused * 64);
        if (rest == 0 || column + 1 != e.columnTiles()) continue;
        for (uint32_t row = 0; row < e.m; ++row) {
            SetPoison(Space::L0C, block + row * 64 + rest * 4, (kEdge - rest) * 4);
        }
    }
}

void IssueProduct(const LocalOperand& dst, const LocalOperand& left, const LocalOperand& right,
                  const LocalOperand* bias, const Extent& e, CubeStart start, Site site) {
    Range reads[9];
    uint32_t count = LeftRanges(left, e, reads);
    count += RightRanges(right, e, reads + count);
    if (start == CubeStart::CURRENT) count += ResultRanges(dst, e, reads + count);
    if (start == CubeStart::BIAS) reads[count++] = Piece(*bias, 0, e.n * 4);
    // Alignment is asked of the tensors, not of pieces inside a fractal.
    for (uint32_t i = 0; i < count; ++i) reads[i].alignment = 0;
    const uint32_t blocks = e.rowTiles() * e.columnTiles();
    const Range write = Piece(dst, 0, uint64_t{blocks} * kBlock).Aligned(kBlock);
    const InPipe order = (e.m / kEdge) * (e.n / kEdge) < kSafeBlocks ? InPipe::PIPELINED
                                                                      : InPipe::ORDERED;
    IssueLists("Mmad", PIPE_M, site, {reads, count}, {&write, 1},
               Cost{.elements = uint64_t{e.m} * e.n * e.k, .repeats = blocks * e.depths()},
               {.inPipe = order});
}

void CheckAlignment(const char* what, const LocalOperand& tensor, uint32_t bytes, Site site) {
    if (tensor.address % bytes == 0) return;
    Fault(site, PIPE_M, "alignment", tensor.address, "Mmad: %s starts at %u, not a multiple of %u",
          what, tensor.address, bytes);
}

}  // namespace

void MultiplyMatrices(const LocalOperand& dst, const LocalOperand& left, const LocalOperand& right,
                      const LocalOperand* bias, Element element, const AscendC::MmadParams& p,
                      Site site) {
    if (p.m.given() == 0 || p.n.given() == 0 || p.k.given() == 0) return;
    CheckArguments(dst, left, right, bias, p, site);
    if (element == Element::I4 && p.k % 2 != 0) {
        Fault(site, PIPE_M, "arguments", 0,
              "MmadParams.k = %u: two int4b_t share a byte, so that k is even",
              static_cast<unsigned>(p.k));
    }
    Extent e{p.m, p.n, p.k, 256 / CubeDepth0(element), CubeDepth0(element), 0};
    const bool alignTo16 = p.kDirectionAlign && element == Element::F32;
    e.depthPitch = alignTo16 ? CeilDivide(e.k, kEdge) * 2 : e.depths();
    const uint64_t leftBytes = e.m == 1 ? uint64_t{e.bytesOf(e.k)}
                                        : uint64_t{e.rowTiles()} * e.depthPitch * kFractal;
    CheckFits("A", left, leftBytes, site);
    CheckFits("B", right, uint64_t{e.depths()} * e.columnTiles() * kFractal, site);
    CheckFits("C", dst, uint64_t{e.rowTiles()} * e.columnTiles() * kBlock, site);
    CheckAlignment("A", left, 512, site);
    CheckAlignment("B", right, 512, site);
    CheckAlignment("C", dst, kBlock, site);
    if (bias != nullptr) CheckAlignment("bias", *bias, 64, site);
    CubeStart start = p.cmatrixInitVal ? CubeStart::ZERO : CubeStart::CURRENT;
    if (bias != nullptr) start = CubeStart::BIAS;
    IssueProduct(dst, left, right, bias, e, start, site);
    if (kValues) {
        const CubeNan nan = MultiplyFractals(
            {element, e.m, e.n, e.k, alignTo16, start, LocalBytes(left), LocalBytes(right),
             bias == nullptr ? nullptr : LocalBytes(*bias), LocalBytes(dst), 0xffffffffu});
        if (nan.operand != 0) {
            Fault(site, PIPE_M, "arguments", 0,
                  "Mmad: %c[%u, %u] is NaN; Mmad inputs must not contain NaN", nan.operand, nan.row,
                  nan.column);
        }
    }
    MarkPadding(dst, e);
}

void SetHf32Mode(bool enabled, Site site) {
    if (enabled) Fault(site, PIPE_S, "arguments", 0, "SetHF32Mode: HF32 is not emulated");
}

}  // namespace emulator
