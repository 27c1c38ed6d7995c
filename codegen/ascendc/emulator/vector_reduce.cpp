// Reductions. Sums: a binary tree of neighbours inside a repeat, repeats one after the other, as
// the ReduceSum page describes for Atlas A2; half sums are rounded to half at every step.
#include "vector_reduce.h"

#include <vector>

#include "element_bytes.h"
#include "machine.h"

namespace emulator {

namespace {

using AscendC::ReduceOrder;
using AscendC::ReduceType;

constexpr uint32_t kBlock = 32;
constexpr uint32_t kRepeat = 256;

float LoadFloat(const std::byte* from, bool isHalf) {
    if (isHalf) {
        uint16_t bits;
        std::memcpy(&bits, from, 2);
        return HalfToFloat(bits);
    }
    float value;
    std::memcpy(&value, from, 4);
    return value;
}

void StoreFloat(std::byte* to, float value, bool isHalf) {
    if (isHalf) {
        const uint16_t bits = FloatToHalf(value);
        std::memcpy(to, &bits, 2);
    } else {
        std::memcpy(to, &value, 4);
    }
}

void StoreIndex(std::byte* to, uint64_t index, uint32_t bytes) { std::memcpy(to, &index, bytes); }

float RoundTo(float value, bool isHalf) { return isHalf ? HalfToFloat(FloatToHalf(value)) : value; }

// Sum of at most 128 values as a binary tree of neighbours; destroys them.
float TreeSum(float* values, uint32_t count, bool isHalf) {
    while (count > 1) {
        const uint32_t pairs = count / 2;
        for (uint32_t i = 0; i < pairs; ++i) {
            values[i] = RoundTo(values[2 * i] + values[2 * i + 1], isHalf);
        }
        if (count % 2) values[pairs] = values[count - 1];
        count = pairs + count % 2;
    }
    return values[0];
}

struct Best {
    float value;
    uint64_t index;
};

// The first of equal values wins; a NaN never does unless it comes first.
Best FindBest(ReduceType type, const float* values, uint64_t count) {
    Best best{values[0], 0};
    for (uint64_t i = 1; i < count; ++i) {
        const bool better =
            type == ReduceType::MAX ? values[i] > best.value : values[i] < best.value;
        if (better) best = Best{values[i], i};
    }
    return best;
}

// Values of one repeat under its mask, and their lanes.
struct Lanes {
    uint32_t count = 0;
    float values[128];
    uint8_t lane[128];
};

Lanes Collect(const std::byte* source, const VectorShape& shape, uint32_t repeat,
              const ReduceStrides& strides, uint32_t bytes) {
    Lanes lanes;
    const uint32_t perBlock = kBlock / bytes;
    for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
        if (shape.byBits && !((shape.bits[lane / 64] >> (lane % 64)) & 1)) continue;
        const uint64_t at = (uint64_t{repeat} * static_cast<uint32_t>(strides.repeat) +
                             lane / perBlock * static_cast<uint32_t>(strides.block)) *
                                kBlock +
                            lane % perBlock * bytes;
        lanes.lane[lanes.count] = static_cast<uint8_t>(lane);
        lanes.values[lanes.count++] = LoadFloat(source + at, bytes == 2);
    }
    return lanes;
}

void IssueReduction(const char* name, const LocalOperand& dst, const LocalOperand& src,
                    const VectorShape& shape, const ReduceStrides& strides, uint32_t bytes,
                    uint32_t written, uint64_t pitch, Site site) {
    const uint32_t blocks = (shape.lanes * bytes + kBlock - 1) / kBlock;
    const Range whole = Piece(src, 0, kBlock)
                            .Times(shape.lanes * bytes / kBlock, int64_t{strides.block} * kBlock)
                            .TimesOuter(shape.repeats, int64_t{strides.repeat} * kBlock);
    const uint32_t rest = shape.lanes * bytes % kBlock;
    const Range tail =
        Piece(src, uint64_t{blocks - 1} * static_cast<uint32_t>(strides.block) * kBlock, rest)
            .Times(shape.repeats, int64_t{strides.repeat} * kBlock);
    const Range target =
        Piece(dst, 0, written).Aligned(0).Times(shape.repeats, static_cast<int64_t>(pitch));
    Cost cost;
    cost.elements = uint64_t{shape.repeats} * shape.lanes;
    cost.repeats = shape.repeats;
    Issue(name, PIPE_V, site, {whole, tail}, {target}, cost);
}

void CheckTarget(const char* name, const LocalOperand& dst, uint32_t alignment, Site site) {
    if (dst.address % alignment == 0) return;
    Fault(site, PIPE_V, "alignment", dst.address,
          "%s: the destination (UB byte %u) must be a multiple of %u bytes", name, dst.address,
          alignment);
}

}  // namespace

void ReduceAll(ReduceType type, Element element, const LocalOperand& dst, const LocalOperand& src,
               const LocalOperand& work, int64_t count, bool index, Site site) {
    const char* name = type == ReduceType::SUM   ? "ReduceSum"
                       : type == ReduceType::MAX ? "ReduceMax"
                                                 : "ReduceMin";
    if (DenseShape(count, name, site).count == 0) return;
    const uint32_t bytes = BytesOfElement(element);
    const bool isHalf = bytes == 2;
    const auto n = static_cast<uint64_t>(count);
    const uint32_t lanes = kRepeat / bytes;
    const uint32_t written = bytes * (index ? 2 : 1);
    CheckTarget(name, dst, written, site);
    // Max and Min keep value-index pairs of all repeats in the work buffer (ReduceMax page).
    const uint64_t repeats = n / lanes > 0 ? n / lanes : 1;
    const uint64_t scratch =
        type == ReduceType::SUM ? 0 : (repeats * 2 * bytes + kBlock - 1) / kBlock * kBlock;
    Cost cost;
    cost.elements = n;
    cost.repeats = static_cast<uint32_t>((n + lanes - 1) / lanes);
    Issue(name, PIPE_V, site, {Piece(src, 0, n * bytes)},
          {Piece(work, 0, scratch), Piece(dst, 0, written).Aligned(0)}, cost);
    const bool apart = work.address + scratch <= dst.address || dst.address + written <= work.address;
    if (scratch != 0 && apart) SetPoison(Space::UB, work.address, scratch);  // garbage from now on
    if (!kValues) return;
    const std::byte* from = LocalBytes(src);
    std::byte* to = LocalBytes(dst);
    static std::vector<float> values;
    if (values.size() < n) values.resize(n);
    if (isHalf) {
        Tables().halfToFloat(values.data(), reinterpret_cast<const uint16_t*>(from), n);
    } else {
        std::memcpy(values.data(), from, n * 4);
    }
    if (type != ReduceType::SUM) {
        const Best best = FindBest(type, values.data(), n);
        StoreFloat(to, best.value, isHalf);
        if (index) StoreIndex(to + bytes, best.index, bytes);
        return;
    }
    float sum = 0;
    for (uint64_t start = 0; start < n; start += lanes) {
        const uint64_t rest = n - start;
        const float part = TreeSum(values.data() + start,
                                   static_cast<uint32_t>(rest < lanes ? rest : lanes), isHalf);
        sum = start == 0 ? part : RoundTo(sum + part, isHalf);
    }
    StoreFloat(to, sum, isHalf);
}

void ReduceRepeats(ReduceType type, Element element, const LocalOperand& dst,
                   const LocalOperand& src, MaskArgument mask, ReduceStrides strides,
                   ReduceOrder order, Site site) {
    const char* name = "ReduceRepeat";
    const uint32_t bytes = BytesOfElement(element);
    if (strides.repeats == 0 || (mask.isSet && mask.bits == nullptr && mask.lanes == 0)) return;
    const VectorShape shape =
        RepeatShape(mask, static_cast<uint32_t>(strides.repeats), bytes, name, site);
    const bool sum = type == ReduceType::SUM;
    const bool pair = !sum && order <= ReduceOrder::ORDER_INDEX_VALUE;
    const bool onlyIndex = !sum && order == ReduceOrder::ORDER_ONLY_INDEX;
    const uint32_t written = pair ? 2 * bytes : onlyIndex ? 4 : bytes;
    const uint64_t pitch = uint64_t{written} * static_cast<uint32_t>(strides.target);
    CheckTarget(name, dst, written, site);
    IssueReduction(name, dst, src, shape, strides, bytes, written, pitch, site);
    if (!kValues) return;
    const bool isHalf = bytes == 2;
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        Lanes lanes = Collect(LocalBytes(src), shape, repeat, strides, bytes);
        std::byte* to = LocalBytes(dst) + repeat * pitch;
        if (lanes.count == 0) continue;
        if (sum) {
            StoreFloat(to, TreeSum(lanes.values, lanes.count, isHalf), isHalf);
            continue;
        }
        const Best best = FindBest(type, lanes.values, lanes.count);
        const uint64_t index = lanes.lane[best.index];
        if (onlyIndex) {
            StoreIndex(to, index, 4);
        } else {
            const bool indexFirst = order == ReduceOrder::ORDER_INDEX_VALUE;
            StoreFloat(to + (indexFirst ? bytes : 0), best.value, isHalf);
            if (pair) StoreIndex(to + (indexFirst ? 0 : bytes), index, bytes);
        }
    }
}

void ReduceBlocks(ReduceType type, Element element, const LocalOperand& dst,
                  const LocalOperand& src, MaskArgument mask, ReduceStrides strides, Site site) {
    const uint32_t bytes = BytesOfElement(element);
    if (strides.repeats == 0) return;
    const VectorShape shape = RepeatShape(mask, static_cast<uint32_t>(strides.repeats), bytes,
                                          "ReduceDataBlock", site);
    CheckTarget("ReduceDataBlock", dst, 8 * bytes, site);
    const uint32_t perBlock = kBlock / bytes;
    const uint32_t blocks = (shape.lanes + perBlock - 1) / perBlock;
    const uint64_t pitch = uint64_t{8} * bytes * static_cast<uint32_t>(strides.target);
    IssueReduction("ReduceDataBlock", dst, src, shape, strides, bytes, blocks * bytes, pitch, site);
    if (!kValues) return;
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        const Lanes lanes = Collect(LocalBytes(src), shape, repeat, strides, bytes);
        std::byte* to = LocalBytes(dst) + repeat * pitch;
        for (uint32_t start = 0; start < lanes.count;) {
            const uint32_t block = lanes.lane[start] / perBlock;
            float values[16];
            uint32_t count = 0;
            while (start < lanes.count && lanes.lane[start] / perBlock == block) {
                values[count++] = lanes.values[start++];
            }
            const float result = type == ReduceType::SUM ? TreeSum(values, count, bytes == 2)
                                                         : FindBest(type, values, count).value;
            StoreFloat(to + block * bytes, result, bytes == 2);
        }
    }
}

void ReducePairs(Element element, const LocalOperand& dst, const LocalOperand& src,
                 MaskArgument mask, ReduceStrides strides, Site site) {
    const uint32_t bytes = BytesOfElement(element);
    if (strides.repeats == 0) return;
    const VectorShape shape = RepeatShape(mask, static_cast<uint32_t>(strides.repeats), bytes,
                                          "ReducePairElem", site);
    CheckTarget("ReducePairElem", dst, kBlock, site);
    const uint64_t pitch = uint64_t{kRepeat / 2} * static_cast<uint32_t>(strides.target);
    IssueReduction("ReducePairElem", dst, src, shape, strides, bytes, shape.lanes / 2 * bytes,
                   pitch, site);
    if (!kValues) return;
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        const Lanes lanes = Collect(LocalBytes(src), shape, repeat, strides, bytes);
        std::byte* to = LocalBytes(dst) + repeat * pitch;
        for (uint32_t i = 0; i + 1 < lanes.count; i += 2) {
            StoreFloat(to + i / 2 * bytes, lanes.values[i] + lanes.values[i + 1], bytes == 2);
        }
    }
}

}  // namespace emulator
