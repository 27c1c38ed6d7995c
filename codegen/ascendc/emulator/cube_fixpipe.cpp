// Fixpipe. Source: asc-devkit, pages "Fixpipe (L0C to GM)", "Fixpipe (L0C to L1)", "NZ2ND", "NZ2NZ",
// "F32 channel split", "Int8 channel merge".
#include "cube_fixpipe.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "atomic_store.h"
#include "cube_convert.h"
#include "cube_product.h"

namespace emulator {
namespace {

using AscendC::FixpipeParamsV220;

constexpr uint32_t kEdge = 16;
constexpr uint32_t kSourceRow = 64;     // 16 results
constexpr uint32_t kSourceBlock = 1024;

uint32_t SizeOf(Element element) {
    if (element == Element::I8 || element == Element::U8) return 1;
    return element == Element::F32 || element == Element::I32 ? 4 : 2;
}

// One output block: columns that stay together in a row of the destination.
struct Shape {
    uint32_t rows, columns, matrices;
    uint32_t size;           // bytes of an output element
    uint32_t blockColumns;   // ND: all columns; NZ: 16, 32 for 8-bit types, 8 for a split float
    uint64_t rowPitch, blockPitch, matrixPitch;  // bytes in the destination
    uint64_t sourcePitch, sourceMatrixPitch;     // bytes in L0C, between blocks of 16 columns

    uint32_t blocks() const { return CeilDivide(columns, blockColumns); }
    uint32_t lastColumns() const { return columns - (blocks() - 1) * blockColumns; }
};

[[noreturn]] void Refuse(const FixpipeMove& move, const char* text) {
    Fault(move.site, PIPE_FIX, "arguments", 0, "Fixpipe: %s", text);
}

void CheckFields(const FixpipeMove& move, const FixpipeParamsV220& p) {
    const FieldCheck check{move.site, PIPE_FIX};
    check("FixpipeParamsV220.nSize", p.nSize.given(), 1, 4095);
    check("FixpipeParamsV220.mSize", p.mSize.given(), 1, move.toNd ? 8192 : 65535);
    check("FixpipeParamsV220.srcStride", p.srcStride.given(), 0, 65535);
    check("FixpipeParamsV220.dstStride", p.dstStride.given(), 1, 0xffffffffll);
    check("FixpipeParamsV220.ndNum", p.ndNum.given(), 1, 65535);
    check("FixpipeParamsV220.unitFlag", p.unitFlag.given(), 0, 3);
    if (p.unitFlag == 1) Refuse(move, "unitFlag is 0, 2 or 3");
    if (move.toNd && p.ndNum > 1) {
        check("FixpipeParamsV220.srcNdStride", p.srcNdStride.given(), 0, 512);
        check("FixpipeParamsV220.dstNdStride", p.dstNdStride.given(), 0, 65535);
    }
}

void CheckModes(const FixpipeMove& move, const FixpipeParamsV220& p) {
    if (move.source->space() != Space::L0C) Refuse(move, "the source is not in L0C (CO1)");
    if (move.local != nullptr && move.local->space() != Space::L1) {
        Refuse(move, "2201 moves results to GM or L1 only");
    }
    if (!IsConversion(p.quantPre, move.from, move.to)) {
        Refuse(move, "quantPre does not convert the source type to the destination type (it is "
                     "never inferred: F322F16 for half, F322BF16 for bfloat16_t, NoQuant for the "
                     "type of L0C)");
    }
    if (p.isChannelSplit && (move.toNd || move.to != Element::F32 || p.unitFlag != 0)) {
        Refuse(move, "isChannelSplit works for NZ output of float without unitFlag");
    }
    if (!move.toNd && p.nSize % (p.isChannelSplit ? 8 : kEdge) != 0) {
        Fault(move.site, PIPE_FIX, "arguments", 0,
              "Fixpipe: nSize = %u is not a multiple of %u, as NZ output needs", uint32_t(p.nSize),
              p.isChannelSplit ? 8 : kEdge);
    }
    if (NeedsScaleTensor(p.quantPre) != (move.scales != nullptr)) {
        Refuse(move, "VDEQF16, VQF322B8_PRE and VREQ8 take a tensor of scales, other modes none");
    }
    if (NeedsScale(p.quantPre) && !NeedsScaleTensor(p.quantPre) && !p.deqScalar.isSet()) {
        Refuse(move, "deqScalar has no default and was not set");
    }
}

Shape ShapeOf(const FixpipeMove& move, const FixpipeParamsV220& p) {
    Shape s{};
    s.rows = p.mSize;
    s.columns = p.nSize;
    s.matrices = move.toNd ? uint32_t(p.ndNum) : 1;
    s.size = SizeOf(move.to);
    s.sourcePitch = uint64_t{p.srcStride} * kSourceRow;
    s.sourceMatrixPitch = uint64_t{p.srcNdStride} * kSourceBlock;
    if (move.toNd) {
        s.blockColumns = s.columns;
        s.rowPitch = uint64_t{p.dstStride} * s.size;
        s.matrixPitch = uint64_t{p.dstNdStride} * s.size;
    } else {
        s.blockColumns = p.isChannelSplit ? 8 : s.size == 1 ? 32 : kEdge;
        s.rowPitch = uint64_t{s.blockColumns} * s.size;
        s.blockPitch = uint64_t{p.dstStride} * 32;
    }
    return s;
}

void CheckStrides(const FixpipeMove& move, const FixpipeParamsV220& p, const Shape& s) {
    if (s.columns > kEdge && (p.srcStride % kEdge != 0 || p.srcStride < s.rows)) {
        Fault(move.site, PIPE_FIX, "arguments", 0,
              "Fixpipe: srcStride = %u; the column blocks of %u rows lie a multiple of 16 and at "
              "least mSize rows apart",
              uint32_t(p.srcStride), s.rows);
    }
    const bool rowsOverlap = move.toNd && s.rows > 1 && p.dstStride < s.columns;
    const bool blocksOverlap = !move.toNd && s.blocks() > 1 && s.blockPitch < s.rows * s.rowPitch;
    if (rowsOverlap || blocksOverlap) {
        Fault(move.site, PIPE_FIX, "arguments", 0,
              "Fixpipe: dstStride = %u lets %u x %u results overlap", uint32_t(p.dstStride), s.rows,
              s.columns);
    }
}

template <typename Operand>
void AddWrites(const Operand& dst, const Shape& s, uint32_t matrix, std::vector<Range>* out) {
    const uint64_t start = matrix * s.matrixPitch;
    const uint32_t whole = s.columns / s.blockColumns;
    const uint64_t length = uint64_t{s.blockColumns} * s.size;
    if (s.rowPitch == length) {
        out->push_back(Piece(dst, start, length * s.rows).Times(whole, int64_t(s.blockPitch)));
    } else {
        out->push_back(Piece(dst, start, length).Times(s.rows, int64_t(s.rowPitch)));
    }
    const uint32_t rest = s.columns % s.blockColumns;
    if (rest == 0) return;
    out->push_back(Piece(dst, start + whole * s.blockPitch, uint64_t{rest} * s.size)
                       .Times(s.rows, int64_t(rest) * s.size));
}

void IssueMove(const FixpipeMove& move, const Shape& s, Options options) {
    std::vector<Range> reads, writes;
    const uint32_t whole = s.columns / kEdge, rest = s.columns % kEdge;
    for (uint32_t matrix = 0; matrix < s.matrices; ++matrix) {
        const uint64_t start = matrix * s.sourceMatrixPitch;
        reads.push_back(Piece(*move.source, start, s.rows * kSourceRow)
                            .Times(whole, int64_t(s.sourcePitch)));
        reads.push_back(Piece(*move.source, start + whole * s.sourcePitch, rest * 4)
                            .Times(s.rows, kSourceRow));
        if (move.global != nullptr) AddWrites(*move.global, s, matrix, &writes);
        if (move.local != nullptr) AddWrites(*move.local, s, matrix, &writes);
    }
    if (move.scales != nullptr) reads.push_back(Piece(*move.scales, 0, s.columns * 8));
    IssueLists("Fixpipe", PIPE_FIX, move.site, {reads.data(), uint32_t(reads.size())},
               {writes.data(), uint32_t(writes.size())},
               Cost{.bytes = uint64_t{s.matrices} * s.rows * s.columns * s.size}, options);
}

// Where the block of 16 (or fewer) results from `column` on goes, relative to its matrix.
uint64_t TargetOf(const Shape& s, uint32_t row, uint32_t column) {
    const uint32_t block = column / s.blockColumns, inside = column % s.blockColumns;
    const bool last = block + 1 == s.blocks() && s.lastColumns() != s.blockColumns;
    const uint64_t rowPitch = last ? uint64_t{s.lastColumns()} * s.size : s.rowPitch;
    return block * s.blockPitch + row * rowPitch + uint64_t{inside} * s.size;
}

std::vector<uint64_t> ScalesOf(const FixpipeMove& move, const FixpipeParamsV220& p) {
    if (!NeedsScale(p.quantPre)) return {};
    std::vector<uint64_t> words((p.nSize + kEdge - 1u) / kEdge * kEdge, p.deqScalar);
    if (move.scales != nullptr) std::memcpy(words.data(), LocalBytes(*move.scales), p.nSize * 8);
    for (uint32_t column = 0; column < p.nSize; ++column) {
        const char* defect = ScaleDefect(words[column], move.to);
        if (defect == nullptr) continue;
        Fault(move.site, PIPE_FIX, "arguments", 0, "Fixpipe: scale 0x%llx of column %u %s",
              static_cast<unsigned long long>(words[column]), column, defect);
    }
    return words;
}

void ConvertAll(const FixpipeMove& move, const FixpipeParamsV220& p, const Shape& s) {
    const std::vector<uint64_t> scales = ScalesOf(move, p);
    const FixpipeConversion conversion{p.quantPre, p.reluEn, move.to};
    const std::byte* source = LocalBytes(*move.source);
    std::byte* target = move.local != nullptr
                            ? LocalBytes(*move.local)
                            : reinterpret_cast<std::byte*>(move.global->address);
    const uint32_t step = std::min(s.blockColumns, kEdge);
    std::byte converted[kSourceRow];
    for (uint32_t matrix = 0; matrix < s.matrices; ++matrix) {
        for (uint32_t row = 0; row < s.rows; ++row) {
            for (uint32_t column = 0; column < s.columns; column += step) {
                const uint32_t count = std::min(step, s.columns - column);
                const std::byte* from = source + matrix * s.sourceMatrixPitch +
                                        column / kEdge * s.sourcePitch + row * kSourceRow +
                                        column % kEdge * 4;
                std::byte* to = target + matrix * s.matrixPitch + TargetOf(s, row, column);
                ConvertResults(conversion, from, count,
                               scales.empty() ? nullptr : scales.data() + column, converted);
                if (move.global != nullptr) {
                    StoreGlobal(to, converted, uint64_t{count} * s.size);
                } else {
                    std::memcpy(to, converted, count * s.size);
                }
            }
        }
    }
}

// Columns that Mmad did not compute stay "never written" in L1.
void CarryPadding(const FixpipeMove& move, const Shape& s) {
    for (uint32_t row = 0; row < s.rows; ++row) {
        for (uint32_t column = 0; column < s.columns; column += kEdge) {
            const uint64_t from = move.source->address + column / kEdge * s.sourcePitch +
                                  uint64_t{row} * kSourceRow;
            if (!IsPoisoned(Space::L0C, from, kSourceRow)) continue;
            for (uint32_t i = 0; i < kEdge; ++i) {
                if (!IsPoisoned(Space::L0C, from + i * 4, 4)) continue;
                SetPoison(Space::L1, move.local->address + TargetOf(s, row, column) + i * s.size,
                          s.size);
            }
        }
    }
}

}  // namespace

void MoveResults(const FixpipeMove& move, const FixpipeParamsV220& p) {
    if (p.nSize.given() == 0 || p.mSize.given() == 0 || p.ndNum.given() == 0) return;
    CheckFields(move, p);
    CheckModes(move, p);
    const Shape s = ShapeOf(move, p);
    CheckStrides(move, p, s);
    Options options;
    options.carriesPoison = !move.toNd;
    options.atomic = move.global != nullptr && IsAtomic();
    IssueMove(move, s, options);
    if (kValues) ConvertAll(move, p, s);
    if (move.local != nullptr) CarryPadding(move, s);
}

}  // namespace emulator
