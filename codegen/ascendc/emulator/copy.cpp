// Copies: ranges, padding, positions, and the atomic update.
#include "copy.h"

#include "atomic_store.h"
#include "machine.h"

namespace emulator {

namespace {

constexpr uint64_t kBlock = 32;

// Every copy to or from UB goes through VECIN or VECOUT (copy pages, "data paths" of 2201).
void CheckPosition(const LocalOperand& tensor, const char* name, pipe_t pipe, Site site) {
    if (tensor.position != AscendC::TPosition::VECCALC) return;
    Fault(site, pipe, "arguments", tensor.address,
          "%s between GM and UB takes a VECIN or VECOUT tensor; this one is VECCALC", name);
}

void CheckCount(const char* name, pipe_t pipe, const CopyShape& shape, Site site) {
    if (shape.count <= 4095) return;
    Fault(site, pipe, "arguments", shape.count, "%s: blockCount %u is not in 0..4095", name,
          shape.count);
}

bool IsEmpty(const CopyShape& shape) { return shape.count == 0 || shape.length == 0; }

template <typename Tensor>
Range Pieces(const Tensor& tensor, const CopyShape& shape, uint64_t length, uint64_t gap) {
    return Piece(tensor, 0, length).Times(shape.count, static_cast<int64_t>(length + gap));
}

uint64_t RoundUp(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

void MoveIn(const LocalOperand& dst, const GlobalOperand& src, const CopyShape& shape) {
    std::byte* to = LocalBytes(dst);
    for (uint32_t i = 0; i < shape.count; ++i) {
        std::memcpy(to + i * (shape.length + shape.targetGap),
                    src.address + i * (shape.length + shape.sourceGap), shape.length);
    }
}

// Source pieces start at multiples of `pitch` in local memory.
void MoveOut(const GlobalOperand& dst, const LocalOperand& src, const CopyShape& shape,
             uint64_t pitch) {
    const std::byte* from = LocalBytes(src);
    for (uint32_t i = 0; i < shape.count; ++i) {
        StoreGlobal(dst.address + i * (shape.length + shape.targetGap), from + i * pitch,
                    shape.length);
    }
}

void IssueOut(const char* name, const Range& from, const Range& to, uint64_t bytes, Site site) {
    Options options;
    options.atomic = IsAtomic();
    Issue(name, PIPE_MTE3, site, {from}, {to}, Cost{bytes}, options);
}

void FillPadding(std::byte* row, const CopyShape& shape, const Padding& padding) {
    const uint64_t used = padding.left + shape.length;
    const uint64_t end = RoundUp(used + padding.right);
    // Without isPad the fill repeats the first element (documented for no padding at all).
    std::byte pattern[8];
    std::memcpy(pattern, &padding.value, 8);
    if (!padding.isPad) std::memcpy(pattern, row + padding.left, padding.elementBytes);
    const auto fill = [&](uint64_t from, uint64_t to) {
        for (uint64_t at = from; at < to; at += padding.elementBytes) {
            std::memcpy(row + at, pattern, padding.elementBytes);
        }
    };
    fill(0, padding.left);
    fill(used, end);
}

void CheckPadding(const Padding& padding, const CopyShape& shape, Site site) {
    if (padding.left > kBlock || padding.right > kBlock) {
        Fault(site, PIPE_MTE2, "arguments", 0,
              "DataCopyPad: a padding of %u and %u bytes; at most 32 each", padding.left,
              padding.right);
    }
    if (padding.elementBytes == 8 && padding.isPad && padding.value != 0) {
        Fault(site, PIPE_MTE2, "arguments", 0, "DataCopyPad: 64-bit types pad with 0 only");
    }
    if (shape.length % padding.elementBytes != 0) {
        Fault(site, PIPE_MTE2, "arguments", 0,
              "DataCopyPad: blockLen %llu is not a multiple of the element size",
              static_cast<unsigned long long>(shape.length));
    }
}

// The rule of vector_overlap.cpp for pieces in the place of repeats: a piece may be copied onto
// itself but not overlap in part, and none may read what an earlier one wrote.
void CheckNoPartialOverlap(const LocalOperand& dst, const LocalOperand& src,
                           const CopyShape& shape, Site site) {
    const uint64_t readPitch = shape.length + shape.sourceGap;
    const uint64_t writePitch = shape.length + shape.targetGap;
    const auto refuse = [&](uint64_t read, const char* why) {
        Fault(site, PIPE_V, "arguments", read, "DataCopy: UB bytes %llu to %llu %s",
              static_cast<unsigned long long>(read),
              static_cast<unsigned long long>(read + shape.length), why);
    };
    const auto overlaps = [&](uint64_t read, uint64_t written) {
        return read < written + shape.length && written < read + shape.length;
    };
    for (uint64_t i = 0; i < shape.count; ++i) {
        const uint64_t read = src.address + i * readPitch;
        const uint64_t written = dst.address + i * writePitch;
        if (read != written && overlaps(read, written)) {
            refuse(read, "are source of a piece and overlap its destination in part");
        }
        if (i == 0 || read + shape.length <= dst.address) continue;
        // Earlier pieces lie at distances of writePitch: only the two nearest can touch this one.
        const uint64_t nearest = read < dst.address ? 0 : (read - dst.address) / writePitch;
        for (uint64_t j = nearest; j <= nearest + 1 && j < i; ++j) {
            if (overlaps(read, dst.address + j * writePitch)) {
                refuse(read, "are read after an earlier piece wrote some of them");
            }
        }
    }
}

}  // namespace

CopyShape WholeBlocks(uint64_t bytes, Site site) {
    if (bytes % kBlock != 0) {
        Fault(site, PIPE_S, "arguments", bytes,
              "DataCopy of %llu bytes: the chip rounds down to a multiple of 32 and silently loses "
              "the tail; use DataCopyPad",
              static_cast<unsigned long long>(bytes));
    }
    return CopyShape{1, bytes, 0, 0};
}

CopyShape ShapeOf(const AscendC::DataCopyParams& params) {
    return CopyShape{params.blockCount, params.blockLen * kBlock, params.srcGap * kBlock,
                     params.dstGap * kBlock};
}

void CopyIn(const LocalOperand& dst, const GlobalOperand& src, CopyShape shape, Site site) {
    CheckPosition(dst, "DataCopy", PIPE_MTE2, site);
    CheckCount("DataCopy", PIPE_MTE2, shape, site);
    if (IsEmpty(shape)) return;
    Issue("DataCopy", PIPE_MTE2, site, {Pieces(src, shape, shape.length, shape.sourceGap)},
          {Pieces(dst, shape, shape.length, shape.targetGap)}, Cost{shape.count * shape.length});
    if (kValues) MoveIn(dst, src, shape);
}

void CopyOut(const GlobalOperand& dst, const LocalOperand& src, CopyShape shape, Site site) {
    CheckPosition(src, "DataCopy", PIPE_MTE3, site);
    CheckCount("DataCopy", PIPE_MTE3, shape, site);
    if (IsEmpty(shape)) return;
    IssueOut("DataCopy", Pieces(src, shape, shape.length, shape.sourceGap),
             Pieces(dst, shape, shape.length, shape.targetGap), shape.count * shape.length, site);
    if (kValues) MoveOut(dst, src, shape, shape.length + shape.sourceGap);
}

void CopyInside(const LocalOperand& dst, const LocalOperand& src, CopyShape shape, Site site) {
    if (dst.space() != Space::UB || src.space() != Space::UB) {
        Fault(site, PIPE_V, "arguments", dst.address,
              "DataCopy between local tensors: both must be in UB (%s to %s has its own call)",
              kSpaceNames[static_cast<int>(src.space())],
              kSpaceNames[static_cast<int>(dst.space())]);
    }
    CheckCount("DataCopy", PIPE_V, shape, site);
    if (IsEmpty(shape)) return;
    CheckNoPartialOverlap(dst, src, shape, site);
    Issue("DataCopy", PIPE_V, site, {Pieces(src, shape, shape.length, shape.sourceGap)},
          {Pieces(dst, shape, shape.length, shape.targetGap)}, Cost{shape.count * shape.length});
    if (!kValues) return;
    std::byte* to = LocalBytes(dst);
    const std::byte* from = LocalBytes(src);
    for (uint32_t i = 0; i < shape.count; ++i) {  // a piece may be copied onto itself
        std::memmove(to + i * (shape.length + shape.targetGap),
                     from + i * (shape.length + shape.sourceGap), shape.length);
    }
}

void CopyInPadded(const LocalOperand& dst, const GlobalOperand& src, CopyShape shape,
                  Padding padding, Site site) {
    if (dst.space() != Space::UB) {
        Fault(site, PIPE_MTE2, "arguments", dst.address,
              "DataCopyPad from GM goes to UB only on 2201; use the ND to NZ copy for L1");
    }
    CheckPosition(dst, "DataCopyPad", PIPE_MTE2, site);
    CheckCount("DataCopyPad", PIPE_MTE2, shape, site);
    CheckPadding(padding, shape, site);
    if (IsEmpty(shape)) return;
    const uint64_t row = RoundUp(padding.left + shape.length + padding.right);
    // With paddings but isPad = false the fill is random: only the data counts as written.
    const bool random = !padding.isPad && padding.left + padding.right != 0;
    const Range data = Piece(src, 0, shape.length)
                           .Times(shape.count,
                                  static_cast<int64_t>(shape.length + shape.sourceGap));
    const Range target = random ? Piece(dst, padding.left, shape.length).Aligned(0)
                                : Piece(dst, 0, row);
    Issue("DataCopyPad", PIPE_MTE2, site, {data},
          {target.Times(shape.count, static_cast<int64_t>(row + shape.targetGap))},
          Cost{shape.count * shape.length});
    if (!kValues) return;
    std::byte* to = LocalBytes(dst);
    for (uint32_t i = 0; i < shape.count; ++i) {
        std::byte* start = to + i * (row + shape.targetGap);
        std::memcpy(start + padding.left, src.address + i * (shape.length + shape.sourceGap),
                    shape.length);
        FillPadding(start, shape, padding);
    }
}

void CopyOutPadded(const GlobalOperand& dst, const LocalOperand& src, CopyShape shape,
                   uint32_t elementBytes, Site site) {
    CheckPosition(src, "DataCopyPad", PIPE_MTE3, site);
    CheckCount("DataCopyPad", PIPE_MTE3, shape, site);
    if (shape.length % elementBytes != 0) {
        Fault(site, PIPE_MTE3, "arguments", 0,
              "DataCopyPad: blockLen %llu is not a multiple of the element size",
              static_cast<unsigned long long>(shape.length));
    }
    if (IsEmpty(shape)) return;
    const uint64_t pitch = RoundUp(shape.length) + shape.sourceGap;
    const Range from =
        Piece(src, 0, shape.length).Times(shape.count, static_cast<int64_t>(pitch));
    IssueOut("DataCopyPad", from, Pieces(dst, shape, shape.length, shape.targetGap),
             shape.count * shape.length, site);
    if (kValues) MoveOut(dst, src, shape, pitch);
}

}  // namespace emulator
