// Gather and GatherMask.
#include "vector_gather.h"

#include <algorithm>
#include <vector>

#include "element_bytes.h"
#include "machine.h"

namespace emulator {

namespace {

constexpr uint32_t kBlock = 32;

std::vector<Range> reads;
std::vector<std::byte> kept;

// Ranges of equal pieces at increasing distance of `bytes` are one range.
void AddRead(const LocalOperand& tensor, uint64_t offset, uint32_t bytes) {
    if (!reads.empty()) {
        Range& last = reads.back();
        if (last.address + last.length == tensor.address + offset) {
            last.length += bytes;
            return;
        }
    }
    reads.push_back(Piece(tensor, offset, bytes).Aligned(0));
}

RangeList ReadList() { return RangeList{reads.data(), static_cast<uint32_t>(reads.size())}; }

bool BuiltInSelects(uint32_t pattern, uint64_t index) {
    switch (pattern) {
        case 1: return index % 2 == 0;
        case 2: return index % 2 == 1;
        case 7: return true;
        default: return index % 4 == pattern - 3;
    }
}

}  // namespace

void RunGather(Element element, const LocalOperand& dst, const LocalOperand& src,
               const LocalOperand& offsets, uint32_t base, uint32_t count, Site site) {
    if (count == 0) return;
    const uint32_t bytes = BytesOfElement(element);
    // The offsets are themselves an operand: they are checked before they are looked at.
    Issue("Gather offsets", PIPE_V, site, {Piece(offsets, 0, uint64_t{count} * 4)}, {}, Cost{});
    if (!kValues) {  // the offsets were never computed
        Cost cost;
        cost.elements = count;
        Issue("Gather", PIPE_V, site, {}, {Piece(dst, 0, uint64_t{count} * bytes)}, cost);
        return;
    }
    const auto* offset = reinterpret_cast<const uint32_t*>(LocalBytes(offsets));
    reads.clear();
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t at = uint64_t{base} + offset[i];
        if (at % bytes != 0) {
            Fault(site, PIPE_V, "alignment", at,
                  "Gather: offset %llu of element %u is not a multiple of the element size",
                  static_cast<unsigned long long>(at), i);
        }
        AddRead(src, at, bytes);
    }
    const Range write = Piece(dst, 0, uint64_t{count} * bytes);
    Cost cost;
    cost.elements = count;
    IssueLists("Gather", PIPE_V, site, ReadList(), RangeList{&write, 1}, cost);
    std::byte* to = LocalBytes(dst);
    const std::byte* from = LocalBytes(src) + base;
    if (bytes == 4) {
        for (uint32_t i = 0; i < count; ++i) std::memcpy(to + i * 4, from + offset[i], 4);
    } else {
        for (uint32_t i = 0; i < count; ++i) std::memcpy(to + i * 2, from + offset[i], 2);
    }
}

uint64_t RunGatherMask(Element element, const LocalOperand& dst, const LocalOperand& src,
                       const LocalOperand* pattern, uint32_t fixedPattern, bool counter,
                       uint32_t mask, const AscendC::GatherMaskParams& params, Site site) {
    const uint32_t bytes = BytesOfElement(element);
    const uint32_t perBlock = kBlock / bytes;
    const uint64_t perRepeat = counter ? mask : 256 / bytes;
    if (pattern == nullptr && (fixedPattern < 1 || fixedPattern > 7)) {
        Fault(site, PIPE_V, "arguments", fixedPattern, "GatherMask: pattern %u is not in 1..7",
              fixedPattern);
    }
    if (params.repeatTimes == 0 || perRepeat == 0) return 0;
    if (pattern != nullptr) {
        const Range bits = Piece(*pattern, 0, (perRepeat + 7) / 8)
                               .Times(params.repeatTimes,
                                      int64_t{params.src1RepeatStride} * kBlock);
        Issue("GatherMask pattern", PIPE_V, site, {bits}, {}, Cost{});
    }
    const std::byte* bits = pattern != nullptr ? LocalBytes(*pattern) : nullptr;
    const std::byte* from = LocalBytes(src);
    // SetSize may have made the tensor larger than its memory.
    const uint32_t memory = current->memory[static_cast<int>(src.space())].size;
    const uint64_t readable = src.address < memory ? std::min(src.bytes, memory - src.address) : 0;
    reads.clear();
    kept.clear();
    for (uint32_t repeat = 0; repeat < params.repeatTimes; ++repeat) {
        const std::byte* repeatBits =
            bits == nullptr ? nullptr : bits + uint64_t{repeat} * params.src1RepeatStride * kBlock;
        for (uint64_t i = 0; i < perRepeat; ++i) {
            const bool selected =
                bits == nullptr
                    ? BuiltInSelects(fixedPattern, i)
                    : (static_cast<unsigned>(repeatBits[i / 8]) >> (i % 8) & 1) != 0;
            const uint64_t at = (uint64_t{repeat} * params.src0RepeatStride +
                                 i / perBlock * params.src0BlockStride) *
                                    kBlock +
                                i % perBlock * bytes;
            if (!selected) continue;
            AddRead(src, at, bytes);
            if (at + bytes > readable) continue;  // a fault is raised below
            kept.insert(kept.end(), from + at, from + at + bytes);
        }
    }
    const Range write = Piece(dst, 0, kept.size());
    Cost cost;
    cost.elements = params.repeatTimes * perRepeat;
    cost.repeats = params.repeatTimes;
    IssueLists("GatherMask", PIPE_V, site, ReadList(), RangeList{&write, 1}, cost);
    if (kValues) std::memcpy(LocalBytes(dst), kept.data(), kept.size());
    return kept.size() / bytes;
}

}  // namespace emulator
