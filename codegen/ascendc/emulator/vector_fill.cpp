// Duplicate, CreateVecIndex, Brcb, Copy, Transpose.
#include "vector_fill.h"

#include "element_bytes.h"
#include "machine.h"

namespace emulator {

namespace {

constexpr uint32_t kBlock = 32;

template <typename T>
void Fill(std::byte* to, uint64_t bits, uint64_t n) {
    auto* out = reinterpret_cast<T*>(to);
    for (uint64_t i = 0; i < n; ++i) out[i] = static_cast<T>(bits);
}

void FillElements(std::byte* to, uint64_t bits, uint64_t n, uint32_t bytes) {
    (bytes == 2 ? Fill<uint16_t> : Fill<uint32_t>)(to, bits, n);
}

VectorShape ShapeOf(const VectorCall& call, uint32_t bytes, Site site) {
    if (call.repeats < 0) return DenseShape(call.count, call.name, site);
    return RepeatShape(call.mask, static_cast<uint32_t>(call.repeats), bytes, call.name, site);
}

}  // namespace

void RunDuplicate(const VectorCall& call, const LocalOperand& dst, uint64_t scalarBits,
                  uint32_t dstBlockStride, uint32_t dstRepeatStride, Site site) {
    const uint32_t bytes = BytesOfElement(call.target);
    VectorOperands operands{};
    operands.name = call.name;
    operands.target = {&dst, bytes, dstBlockStride, dstRepeatStride};
    const VectorShape shape = ShapeOf(call, bytes, site);
    if (!IssueVector(shape, operands, site)) return;
    ForEachRun(shape, operands, [&](uint64_t n, std::byte* target, std::byte* const*) {
        FillElements(target, scalarBits, n, bytes);
    });
}

void RunIndex(Element element, const LocalOperand& dst, uint64_t firstBits, uint32_t count,
              Site site) {
    VectorOperands operands{};
    operands.name = "CreateVecIndex";
    operands.target = {&dst, BytesOfElement(element)};
    if (!IssueVector(DenseShape(count, operands.name, site), operands, site)) return;
    std::byte* to = LocalBytes(dst);
    for (uint32_t i = 0; i < count; ++i) {
        switch (element) {
            case Element::I16:
                reinterpret_cast<int16_t*>(to)[i] = static_cast<int16_t>(firstBits + i);
                break;
            case Element::I32:
                reinterpret_cast<int32_t*>(to)[i] = static_cast<int32_t>(firstBits + i);
                break;
            case Element::F16:
                reinterpret_cast<uint16_t*>(to)[i] = FloatToHalf(
                    HalfToFloat(static_cast<uint16_t>(firstBits)) + static_cast<float>(i));
                break;
            default:
                reinterpret_cast<float*>(to)[i] =
                    FloatFromBits(static_cast<uint32_t>(firstBits)) + static_cast<float>(i);
        }
    }
}

void RunBrcb(Element element, const LocalOperand& dst, const LocalOperand& src, uint32_t repeats,
             const AscendC::BrcbRepeatParams& params, Site site) {
    const uint32_t bytes = BytesOfElement(element);
    if (repeats == 0) return;
    if (params.dstBlkStride == 0) {
        Fault(site, PIPE_V, "arguments", 0, "Brcb: dstBlkStride 0 is undefined");
    }
    const Range target = Piece(dst, 0, kBlock)
                             .Times(8, int64_t{params.dstBlkStride} * kBlock)
                             .TimesOuter(repeats, int64_t{params.dstRepStride} * kBlock);
    Cost cost;
    cost.elements = uint64_t{repeats} * 8 * (kBlock / bytes);
    cost.repeats = repeats;
    Issue("Brcb", PIPE_V, site, {Piece(src, 0, uint64_t{repeats} * 8 * bytes)}, {target}, cost);
    if (!kValues) return;
    std::byte* to = LocalBytes(dst);
    const std::byte* from = LocalBytes(src);
    for (uint32_t i = 0; i < repeats * 8; ++i) {
        uint32_t value = 0;
        std::memcpy(&value, from + uint64_t{i} * bytes, bytes);
        const uint64_t block = uint64_t{i / 8} * params.dstRepStride + i % 8 * params.dstBlkStride;
        FillElements(to + block * kBlock, value, kBlock / bytes, bytes);
    }
}

void RunCopy(const VectorCall& call, const LocalOperand& dst, const LocalOperand& src,
             const AscendC::CopyRepeatParams& params, Site site) {
    const uint32_t bytes = BytesOfElement(call.target);
    VectorOperands operands{};
    operands.name = call.name;
    operands.target = {&dst, bytes, params.dstStride, params.dstRepeatSize};
    operands.sources[0] = {&src, bytes, params.srcStride, params.srcRepeatSize};
    operands.sourceCount = 1;
    const VectorShape shape = ShapeOf(call, bytes, site);
    if (!IssueVector(shape, operands, site)) return;
    ForEachRun(shape, operands, [&](uint64_t n, std::byte* target, std::byte* const* sources) {
        std::memmove(target, sources[0], n * bytes);
    });
}

void RunTranspose(const LocalOperand& dst, const LocalOperand& src, Site site) {
    constexpr uint64_t kEdge = 16, kBytes = kEdge * kEdge * 2;
    const bool apart = dst.address + kBytes <= src.address || src.address + kBytes <= dst.address;
    if (!apart && dst.address != src.address) {
        Fault(site, PIPE_V, "arguments", dst.address,
              "Transpose: source and destination overlap in part");
    }
    Cost cost;
    cost.elements = kEdge * kEdge;
    Issue("Transpose", PIPE_V, site, {Piece(src, 0, kBytes)}, {Piece(dst, 0, kBytes)}, cost);
    if (!kValues) return;
    uint16_t square[kEdge * kEdge];
    std::memcpy(square, LocalBytes(src), kBytes);
    auto* to = reinterpret_cast<uint16_t*>(LocalBytes(dst));
    for (uint64_t i = 0; i < kEdge; ++i) {
        for (uint64_t j = 0; j < kEdge; ++j) to[i * kEdge + j] = square[j * kEdge + i];
    }
}

}  // namespace emulator
