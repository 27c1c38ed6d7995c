// Compare and Select.
#include "vector_compare.h"

#include <vector>

#include "element_bytes.h"
#include "machine.h"

namespace emulator {

namespace {

using AscendC::CMPMODE;
using AscendC::SELMODE;

constexpr uint32_t kRepeat = 256;
constexpr uint32_t kBlock = 32;

std::vector<uint8_t> flags;  // one byte per element

void PackBits(std::byte* to, const uint8_t* from, uint64_t count) {
    for (uint64_t i = 0; i < count; i += 8) {
        unsigned byte = 0;
        for (uint64_t j = 0; j < 8 && i + j < count; ++j) byte |= unsigned{from[i + j]} << j;
        to[i / 8] = static_cast<std::byte>(byte);
    }
}

bool BitAt(const std::byte* bits, uint64_t index) {
    return (static_cast<unsigned>(bits[index / 8]) >> (index % 8)) & 1;
}

// All lanes of a repeat, or the count form.
VectorShape CompareShape(const VectorCall& call, uint32_t bytes, Site site) {
    if (call.repeats < 0) return DenseShape(call.count, call.name, site);
    VectorShape shape{};
    shape.repeats = static_cast<uint32_t>(call.repeats);
    shape.lanes = shape.lastLanes = kRepeat / bytes;
    return shape;
}

uint64_t Elements(const VectorShape& shape) {
    return shape.dense ? shape.count : uint64_t{shape.repeats} * shape.lanes;
}

void AddSource(const LocalOperand& tensor, const VectorShape& shape, uint32_t bytes,
               uint32_t blockStride, uint32_t repeatStride, std::vector<Range>* ranges) {
    if (shape.dense) {
        ranges->push_back(Piece(tensor, 0, uint64_t{shape.count} * bytes));
        return;
    }
    ranges->push_back(Piece(tensor, 0, kBlock)
                          .Times(8, int64_t{blockStride} * kBlock)
                          .TimesOuter(shape.repeats, int64_t{repeatStride} * kBlock));
}

template <typename T>
void SelectRun(std::byte* dst, const std::byte* bits, uint64_t firstBit, const std::byte* a,
               const std::byte* b, bool scalar, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
        const std::byte* from =
            BitAt(bits, firstBit + i) ? a + i * sizeof(T) : b + (scalar ? 0 : i * sizeof(T));
        std::memcpy(dst + i * sizeof(T), from, sizeof(T));
    }
}

}  // namespace

void RunCompare(const VectorCall& call, const LocalOperand& dst, const LocalOperand& src0,
                const LocalOperand* src1, uint64_t scalarBits, CMPMODE mode,
                const AscendC::BinaryRepeatParams& params, Site site) {
    const uint32_t bytes = BytesOfElement(call.source);
    const VectorShape shape = CompareShape(call, bytes, site);
    const uint64_t count = Elements(shape);
    if (call.source == Element::I32 && mode != CMPMODE::EQ) {
        Fault(site, PIPE_V, "arguments", 0, "%s: int32_t supports CMPMODE::EQ only", call.name);
    }
    if (shape.dense && count * bytes % kRepeat != 0) {
        Fault(site, PIPE_V, "arguments", count,
              "%s: %llu elements are not a multiple of 256 bytes; the rest is not compared",
              call.name, static_cast<unsigned long long>(count));
    }
    if (count == 0) return;
    std::vector<Range> reads;
    AddSource(src0, shape, bytes, params.src0BlkStride, params.src0RepStride, &reads);
    if (src1 != nullptr) {
        AddSource(*src1, shape, bytes, params.src1BlkStride, params.src1RepStride, &reads);
    }
    const Range write = Piece(dst, 0, count / 8);
    Cost cost;
    cost.elements = count;
    IssueLists(call.name, PIPE_V, site,
               RangeList{reads.data(), static_cast<uint32_t>(reads.size())}, RangeList{&write, 1},
               cost);
    if (!kValues) return;
    const auto& tables = Tables();
    const CompareLoop loop = (src1 != nullptr ? tables.compare : tables.compareScalar)
        [static_cast<int>(mode)][static_cast<int>(call.source)];
    if (flags.size() < count) flags.resize(count);
    const std::byte* a = LocalBytes(src0);
    const auto* b = src1 != nullptr ? LocalBytes(*src1)
                                    : reinterpret_cast<const std::byte*>(&scalarBits);
    const uint32_t perBlock = kBlock / bytes;
    if (shape.dense) {
        loop(flags.data(), a, b, count);
    } else {
        for (uint64_t i = 0; i < count; i += perBlock) {
            const uint64_t repeat = i / shape.lanes, block = i % shape.lanes / perBlock;
            const uint64_t at0 =
                (repeat * params.src0RepStride + block * params.src0BlkStride) * kBlock;
            const uint64_t at1 =
                (repeat * params.src1RepStride + block * params.src1BlkStride) * kBlock;
            loop(flags.data() + i, a + at0, src1 != nullptr ? b + at1 : b, perBlock);
        }
    }
    PackBits(LocalBytes(dst), flags.data(), count);
}

void RunSelect(const VectorCall& call, const LocalOperand& dst, const LocalOperand& bits,
               const LocalOperand& src0, const LocalOperand* src1, uint64_t scalarBits,
               SELMODE mode, const AscendC::BinaryRepeatParams& params, Site site) {
    const bool scalar = src1 == nullptr;
    if (scalar != (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE)) {
        Fault(site, PIPE_V, "arguments", static_cast<uint64_t>(mode),
              "Select: mode 1 takes a scalar, modes 0 and 2 take a tensor as second source");
    }
    const uint32_t bytes = BytesOfElement(call.target);
    const uint32_t lanes = kRepeat / bytes;
    VectorOperands operands{};
    operands.name = "Select";
    operands.target = {&dst, bytes, params.dstBlkStride, params.dstRepStride};
    operands.sources[0] = {&src0, bytes, params.src0BlkStride, params.src0RepStride};
    operands.sourceCount = scalar ? 1 : 2;
    if (!scalar) operands.sources[1] = {src1, bytes, params.src1BlkStride, params.src1RepStride};
    const VectorShape shape = call.repeats < 0
                                  ? DenseShape(call.count, "Select", site)
                                  : RepeatShape(call.mask, static_cast<uint32_t>(call.repeats),
                                                bytes, "Select", site);
    const uint64_t selected =
        shape.dense ? shape.count : uint64_t{shape.repeats} * lanes;
    const bool sameBits = mode == SELMODE::VSEL_CMPMASK_SPR;
    const uint64_t bitCount = sameBits && selected > lanes ? lanes : selected;
    if (selected == 0) return;
    Issue("Select mask", PIPE_V, site, {Piece(bits, 0, (bitCount + 7) / 8)}, {}, Cost{});
    if (!IssueVector(shape, operands, site)) return;
    const std::byte* mask = LocalBytes(bits);
    const std::byte* start = LocalBytes(dst);
    ForEachRun(shape, operands, [&](uint64_t n, std::byte* target, std::byte* const* sources) {
        // The lane of a run follows from where it starts in the target.
        const auto offset = static_cast<uint64_t>(target - start);
        uint64_t lane = offset / bytes;
        if (!shape.dense && params.dstRepStride != 0) {
            const uint64_t pitch = uint64_t{params.dstRepStride} * kBlock;
            const uint64_t inRepeat = offset % pitch;
            const uint64_t block = inRepeat / kBlock / (params.dstBlkStride ? params.dstBlkStride : 1);
            lane = offset / pitch * lanes + block * (kBlock / bytes) + inRepeat % kBlock / bytes;
        }
        const std::byte* b =
            scalar ? reinterpret_cast<const std::byte*>(&scalarBits) : sources[1];
        for (uint64_t done = 0; done < n;) {  // mode 0 uses the same bits in every repeat
            const uint64_t first = sameBits ? (lane + done) % lanes : lane + done;
            const uint64_t room = sameBits ? lanes - first : n;
            const uint64_t step = n - done < room ? n - done : room;
            const auto run = bytes == 2 ? SelectRun<uint16_t> : SelectRun<uint32_t>;
            run(target + done * bytes, mask, first, sources[0] + done * bytes,
                scalar ? b : b + done * bytes, scalar, step);
            done += step;
        }
    });
}

}  // namespace emulator
