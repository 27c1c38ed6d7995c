// LoadData with LoadData3DParamsV2 for matrices. Source: asc-devkit, page "LoadData (convolution)",
// section "moving matrices for products": with a 1 x 1 filter, stride and dilation 1 and no padding,
// L1 holds [channels/k0][l1H·l1W][k0], which is a matrix of l1H·l1W rows in NZ order.
#include <cstring>

#include "cube_load.h"
#include "cube_poison.h"
#include "cube_product.h"

namespace emulator {
namespace {

constexpr uint32_t kFractal = 512;
constexpr uint32_t kEdge = 16;

// The part of a matrix that is loaded. Rows from `rows` to the end of their tile hold no data.
struct Part {
    uint32_t bytes;        // of an element
    uint32_t k0;
    uint32_t rows, tiles;  // tiles of 16 rows
    uint32_t blocks;       // of k0 columns
    uint64_t sourceStart, sourcePitch;  // first row of the first block; from block to block
    bool transposed, toB;

    uint32_t columns() const { return blocks * k0; }

    // Byte offset in L0 of an element. Transposed, the loaded columns become the rows of A or the
    // columns of B, and the loaded rows their k.
    uint64_t Target(uint32_t row, uint32_t column) const {
        if (!transposed) {
            const uint32_t fractal = row / kEdge * blocks + column / k0;
            return uint64_t{fractal} * kFractal + row % kEdge * 32 + column % k0 * bytes;
        }
        const uint32_t deep = row / k0, wide = column / kEdge;
        const uint32_t fractal = toB ? deep * CeilDivide(columns(), kEdge) + wide
                                     : wide * (tiles * kEdge / k0) + deep;
        return uint64_t{fractal} * kFractal + column % kEdge * 32 + row % k0 * bytes;
    }
};

void CheckArguments(const LocalOperand& dst, const LocalOperand& src, uint32_t elementBytes,
                    const MatrixLoad& load, Site site) {
    const FieldCheck check{site, PIPE_MTE1};
    check("LoadData3DParamsV2.l1H", load.l1H, 0, 32767);
    check("LoadData3DParamsV2.l1W", load.l1W, 0, 32767);
    check("LoadData3DParamsV2.channelSize", load.channelSize, 0, 65535);
    check("LoadData3DParamsV2.kExtension", load.kExtension, 0, 65535);
    check("LoadData3DParamsV2.mExtension", load.mExtension, 0, 65535);
    check("LoadData3DParamsV2.kStartPt", load.kStartPt, 0, 65535);
    check("LoadData3DParamsV2.mStartPt", load.mStartPt, 0, 32767);
    const bool toB = dst.space() == Space::L0B;
    if (src.space() != Space::L1 || (dst.space() != Space::L0A && !toB)) {
        Fault(site, PIPE_MTE1, "arguments", dst.address,
              "LoadData 3D copies from L1 to L0A or L0B");
    }
    if (!load.isPlain) {
        Fault(site, PIPE_MTE1, "arguments", dst.address,
              "LoadData 3D is emulated for matrices only: filter, stride and dilation 1, padList 0");
    }
    if (elementBytes == 1 && (toB || load.enTranspose)) {
        Fault(site, PIPE_MTE1, "arguments", dst.address,
              "LoadData 3D moves 8-bit types to L0A without transposition only");
    }
    const int64_t k0 = 32 / elementBytes;
    if (load.channelSize % k0 != 0 || load.kStartPt % k0 != 0) {
        Fault(site, PIPE_MTE1, "arguments", dst.address,
              "LoadData 3D: channelSize = %lld and kStartPt = %lld must be multiples of %lld",
              static_cast<long long>(load.channelSize), static_cast<long long>(load.kStartPt),
              static_cast<long long>(k0));
    }
    if (load.kStartPt + load.kExtension > load.channelSize ||
        load.mStartPt + load.mExtension > load.l1H * load.l1W) {
        Fault(site, PIPE_MTE1, "arguments", dst.address,
              "LoadData 3D reads rows %lld..%lld, channels %lld..%lld of a %lld x %lld matrix",
              static_cast<long long>(load.mStartPt),
              static_cast<long long>(load.mStartPt + load.mExtension),
              static_cast<long long>(load.kStartPt),
              static_cast<long long>(load.kStartPt + load.kExtension),
              static_cast<long long>(load.l1H * load.l1W),
              static_cast<long long>(load.channelSize));
    }
}

// Every 32-byte row of the source: its first element goes to (row, block * k0).
template <typename Visit>
void ForEachRow(const Part& part, Visit visit) {
    for (uint32_t block = 0; block < part.blocks; ++block) {
        for (uint32_t row = 0; row < part.tiles * kEdge; ++row) {
            visit(row, block * part.k0, part.sourceStart + block * part.sourcePitch + row * 32);
        }
    }
}

void CarryRows(const Part& part, const LocalOperand& src, const LocalOperand& dst) {
    ForEachRow(part, [&](uint32_t row, uint32_t column, uint64_t source) {
        const bool outside = row >= part.rows;
        if (!outside && !IsPoisoned(Space::L1, src.address + source, 32)) return;
        if (!part.transposed) {
            const uint64_t target = dst.address + part.Target(row, column);
            if (outside) return SetPoison(dst.space(), target, 32);
            return CarryPoison(Space::L1, src.address + source, dst.space(), target, 32);
        }
        for (uint32_t i = 0; i < part.k0; ++i) {
            const uint64_t from = src.address + source + i * part.bytes;
            if (!outside && !IsPoisoned(Space::L1, from, part.bytes)) continue;
            SetPoison(dst.space(), dst.address + part.Target(row, column + i), part.bytes);
        }
    });
}

template <typename Word>
void MoveRows(const Part& part, const std::byte* source, std::byte* target) {
    ForEachRow(part, [&](uint32_t row, uint32_t column, uint64_t from) {
        if (row >= part.rows) return;
        if (!part.transposed) {
            std::memcpy(target + part.Target(row, column), source + from, 32);
            return;
        }
        for (uint32_t i = 0; i < part.k0; ++i) {
            std::memcpy(target + part.Target(row, column + i), source + from + i * sizeof(Word),
                        sizeof(Word));
        }
    });
}

// Whole fractals, except that 32-bit transposition of an odd number of blocks leaves the second
// half of the last fractals untouched.
void IssueLoad(const Part& part, const LocalOperand& dst, const LocalOperand& src, Site site) {
    const Range read = Piece(src, part.sourceStart, uint64_t{part.rows} * 32)
                           .Times(part.blocks, int64_t(part.sourcePitch))
                           .Aligned(32);
    const Cost cost{.bytes = uint64_t{part.tiles} * part.blocks * kFractal,
                    .repeats = part.tiles * part.blocks};
    const Options options{.carriesPoison = true};
    const uint32_t depth = part.tiles * kEdge / part.k0;
    const uint32_t whole = part.columns() / kEdge, rest = part.columns() % kEdge;
    if (!part.transposed) {
        Issue("LoadData 3D", PIPE_MTE1, site, {read}, {Piece(dst, 0, cost.bytes)}, cost, options);
    } else if (part.toB) {
        const uint64_t pitch = uint64_t{CeilDivide(part.columns(), kEdge)} * kFractal;
        Issue("LoadData 3D", PIPE_MTE1, site, {read},
              {Piece(dst, 0, part.columns() * 32).Times(depth, int64_t(pitch))}, cost, options);
    } else {
        const uint64_t length = uint64_t{whole} * depth * kFractal;
        Issue("LoadData 3D", PIPE_MTE1, site, {read},
              {Piece(dst, 0, length),
               Piece(dst, length, rest * 32).Times(depth, kFractal).Aligned(0)},
              cost, options);
    }
}

}  // namespace

void LoadMatrix(const LocalOperand& dst, const LocalOperand& src, uint32_t elementBytes,
                const MatrixLoad& load, Site site) {
    if (load.l1H == 0 || load.l1W == 0 || load.channelSize == 0 || load.kExtension == 0 ||
        load.mExtension == 0) {
        return;
    }
    CheckArguments(dst, src, elementBytes, load, site);
    Part part{};
    part.bytes = elementBytes;
    part.k0 = 32 / elementBytes;
    part.rows = uint32_t(load.mExtension);
    part.tiles = CeilDivide(part.rows, kEdge);
    part.blocks = CeilDivide(uint32_t(load.kExtension), part.k0);
    part.sourcePitch = uint64_t(load.l1H * load.l1W) * 32;
    part.sourceStart = uint64_t(load.kStartPt) / part.k0 * part.sourcePitch +
                       uint64_t(load.mStartPt) * 32;
    part.toB = dst.space() == Space::L0B;
    part.transposed = part.toB || load.enTranspose;
    IssueLoad(part, dst, src, site);
    CarryRows(part, src, dst);
    if (!kValues) return;
    const std::byte* source = LocalBytes(src);
    if (elementBytes == 1) MoveRows<uint8_t>(part, source, LocalBytes(dst));
    if (elementBytes == 2) MoveRows<uint16_t>(part, source, LocalBytes(dst));
    if (elementBytes == 4) MoveRows<uint32_t>(part, source, LocalBytes(dst));
}

}  // namespace emulator
