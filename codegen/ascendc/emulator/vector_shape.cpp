// Walking over vector operands: ranges for the checks, runs for the arithmetic.
#include "vector_shape.h"

#include <vector>

#include "machine.h"

namespace emulator {

namespace {

constexpr uint32_t kBlock = 32;
constexpr uint32_t kRepeat = 256;

std::vector<Range> reads, writes;  // scratch, so that no instruction allocates

bool IsContiguous(const VectorOperand& operand, const VectorShape& shape) {
    return operand.blockStride == 1 &&
           operand.repeatStride * kBlock == shape.lanes * operand.elementBytes;
}

uint64_t OffsetOf(const VectorOperand& operand, uint32_t repeat, uint32_t lane) {
    const uint32_t perBlock = kBlock / operand.elementBytes;
    return (uint64_t{repeat} * operand.repeatStride +
            uint64_t{lane / perBlock} * operand.blockStride) *
               kBlock +
           lane % perBlock * operand.elementBytes;
}

// `lanes` lanes of `repeats` repeats from `firstRepeat` on.
void AddRepeats(const VectorOperand& operand, uint32_t firstRepeat, uint32_t repeats,
                uint32_t lanes, std::vector<Range>* ranges) {
    if (lanes == 0 || repeats == 0) return;
    const uint64_t start = uint64_t{firstRepeat} * operand.repeatStride * kBlock;
    const int64_t pitch = int64_t{operand.repeatStride} * kBlock;
    const uint64_t bytes = uint64_t{lanes} * operand.elementBytes;
    if (operand.blockStride == 1) {
        ranges->push_back(Piece(*operand.tensor, start, bytes).Times(repeats, pitch));
        return;
    }
    const uint64_t stride = uint64_t{operand.blockStride} * kBlock;
    const auto blocks = static_cast<uint32_t>(bytes / kBlock);
    if (blocks != 0) {
        ranges->push_back(Piece(*operand.tensor, start, kBlock)
                              .Times(blocks, static_cast<int64_t>(stride))
                              .TimesOuter(repeats, pitch));
    }
    if (bytes % kBlock != 0) {
        ranges->push_back(Piece(*operand.tensor, start + blocks * stride, bytes % kBlock)
                              .Times(repeats, pitch));
    }
}

bool IsSelected(const VectorShape& shape, uint32_t lane) {
    return (shape.bits[lane / 64] >> (lane % 64)) & 1;
}

// Maximal runs of selected lanes that do not cross a multiple of `step`.
template <typename Function>
void ForEachSelected(const VectorShape& shape, uint32_t step, Function function) {
    for (uint32_t lane = 0; lane < shape.lanes;) {
        if (!IsSelected(shape, lane)) {
            ++lane;
            continue;
        }
        uint32_t end = lane + 1;
        while (end < shape.lanes && end % step != 0 && IsSelected(shape, end)) ++end;
        function(lane, end - lane);
        lane = end;
    }
}

void AddRanges(const VectorOperand& operand, const VectorShape& shape,
               std::vector<Range>* ranges) {
    if (shape.dense) {
        ranges->push_back(Piece(*operand.tensor, 0, uint64_t{shape.count} * operand.elementBytes));
        return;
    }
    if (!shape.byBits) {
        const bool shortLast = shape.lastLanes != shape.lanes;
        AddRepeats(operand, 0, shape.repeats - shortLast, shape.lanes, ranges);
        if (shortLast) AddRepeats(operand, shape.repeats - 1, 1, shape.lastLanes, ranges);
        return;
    }
    ForEachSelected(shape, kBlock / operand.elementBytes, [&](uint32_t lane, uint32_t count) {
        Range range = Piece(*operand.tensor, OffsetOf(operand, 0, lane),
                            uint64_t{count} * operand.elementBytes);
        range.alignment = 0;
        ranges->push_back(range.Times(shape.repeats, int64_t{operand.repeatStride} * kBlock));
    });
}

// Source and target may coincide but not overlap in part; widening in place reads what it wrote.
void CheckOverlap(const VectorShape& shape, const VectorOperands& operands, Site site) {
    const VectorOperand& target = operands.target;
    const uint64_t begin = target.tensor->address;
    const uint64_t end = begin + uint64_t{shape.count} * target.elementBytes;
    for (uint32_t i = 0; i < operands.sourceCount; ++i) {
        const VectorOperand& source = operands.sources[i];
        const uint64_t from = source.tensor->address;
        const uint64_t to = from + uint64_t{shape.count} * source.elementBytes;
        if (to <= begin || from >= end) continue;
        if (from == begin && source.elementBytes >= target.elementBytes) continue;
        Fault(site, PIPE_V, "arguments", begin,
              "%s: source (UB bytes %llu to %llu) and destination (%llu to %llu) overlap in part",
              operands.name, static_cast<unsigned long long>(from),
              static_cast<unsigned long long>(to), static_cast<unsigned long long>(begin),
              static_cast<unsigned long long>(end));
    }
}

struct Walk {
    const VectorOperands& operands;
    VectorRun run;
    void* context;
    std::byte* target;
    std::byte* sources[kMostSources];

    void Step(uint64_t count, uint32_t repeat, uint32_t lane) const {
        std::byte* pointers[kMostSources] = {};
        for (uint32_t i = 0; i < operands.sourceCount; ++i) {
            pointers[i] = sources[i] + OffsetOf(operands.sources[i], repeat, lane);
        }
        run(context, count, target + OffsetOf(operands.target, repeat, lane), pointers);
    }
};

bool AllOperands(const VectorOperands& operands, bool (*holds)(const VectorOperand&,
                                                              const VectorShape&),
                 const VectorShape& shape) {
    if (!holds(operands.target, shape)) return false;
    for (uint32_t i = 0; i < operands.sourceCount; ++i) {
        if (!holds(operands.sources[i], shape)) return false;
    }
    return true;
}

}  // namespace

VectorShape DenseShape(int64_t count, const char* name, Site site) {
    if (count < 0 || count > 1 << 20) {
        Fault(site, PIPE_V, "arguments", static_cast<uint64_t>(count), "%s: count %lld", name,
              static_cast<long long>(count));
    }
    VectorShape shape{};
    shape.dense = true;
    shape.count = static_cast<uint32_t>(count);
    return shape;
}

VectorShape RepeatShape(MaskArgument mask, uint32_t repeats, uint32_t widestBytes,
                        const char* name, Site site) {
    const uint32_t capacity = kRepeat / widestBytes;
    VectorShape shape{};
    shape.repeats = repeats;
    shape.lanes = capacity;
    if (ControlRegister(Register::MASK_MODE) != 0) {
        const uint64_t total = mask.isSet ? mask.lanes : ControlRegister(Register::MASK_LOW);
        shape.repeats = static_cast<uint32_t>((total + capacity - 1) / capacity);
        shape.lastLanes = total == 0 ? 0 : static_cast<uint32_t>((total - 1) % capacity + 1);
        return shape;
    }
    if (mask.bits != nullptr || !mask.isSet) {
        shape.byBits = true;
        shape.bits[0] = mask.isSet ? mask.bits[0] : ControlRegister(Register::MASK_LOW);
        shape.bits[1] = capacity <= 64 ? 0
                        : mask.isSet   ? mask.bits[1]
                                       : ControlRegister(Register::MASK_HIGH);
        if (shape.bits[0] == 0 && shape.bits[1] == 0) {
            Fault(site, PIPE_V, "arguments", 0, "%s: %s selects no element", name,
                  mask.isSet ? "the mask" : "the mask register (SetVectorMask)");
        }
        const bool all = shape.bits[0] == ~uint64_t{0} &&
                         (capacity <= 64 || shape.bits[1] == ~uint64_t{0});
        if (all && capacity >= 64) shape.byBits = false;
    } else {
        if (mask.lanes == 0 || mask.lanes > capacity) {
            Fault(site, PIPE_V, "arguments", mask.lanes, "%s: mask %llu is not in 1..%u", name,
                  static_cast<unsigned long long>(mask.lanes), capacity);
        }
        shape.lanes = static_cast<uint32_t>(mask.lanes);
    }
    shape.lastLanes = shape.lanes;
    return shape;
}

bool IssueVector(const VectorShape& shape, const VectorOperands& operands, Site site) {
    const uint64_t elements =
        shape.dense ? shape.count
        : shape.repeats == 0
            ? 0
            : uint64_t{shape.repeats - 1} * shape.lanes + shape.lastLanes;
    if (elements == 0) return false;
    if (shape.dense) {
        CheckOverlap(shape, operands, site);
    } else {
        CheckRepeatOverlap(shape, operands, site);
    }
    reads.clear();
    writes.clear();
    for (uint32_t i = 0; i < operands.sourceCount; ++i) {
        AddRanges(operands.sources[i], shape, &reads);
    }
    AddRanges(operands.target, shape, &writes);
    if (operands.readsTarget) AddRanges(operands.target, shape, &reads);
    Cost cost;
    cost.elements = elements;
    cost.repeats = shape.repeats;
    IssueLists(operands.name, PIPE_V, site,
               RangeList{reads.data(), static_cast<uint32_t>(reads.size())},
               RangeList{writes.data(), static_cast<uint32_t>(writes.size())}, cost);
    return kValues;
}

void ForEachRun(const VectorShape& shape, const VectorOperands& operands, VectorRun run,
                void* context) {
    Walk walk{operands, run, context, LocalBytes(*operands.target.tensor), {}};
    uint32_t step = kBlock / operands.target.elementBytes;
    for (uint32_t i = 0; i < operands.sourceCount; ++i) {
        walk.sources[i] = LocalBytes(*operands.sources[i].tensor);
        const uint32_t perBlock = kBlock / operands.sources[i].elementBytes;
        step = perBlock < step ? perBlock : step;
    }
    if (shape.dense) return walk.Step(shape.count, 0, 0);
    const bool oneRun = !shape.byBits && AllOperands(operands, IsContiguous, shape);
    if (oneRun) {
        return walk.Step(uint64_t{shape.repeats - 1} * shape.lanes + shape.lastLanes, 0, 0);
    }
    const bool wholeRepeats = AllOperands(
        operands, [](const VectorOperand& each, const VectorShape&) { return each.blockStride == 1; },
        shape);
    for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
        const uint32_t lanes = repeat + 1 == shape.repeats ? shape.lastLanes : shape.lanes;
        if (shape.byBits) {
            ForEachSelected(shape, step, [&](uint32_t lane, uint32_t count) {
                walk.Step(count, repeat, lane);
            });
        } else if (wholeRepeats) {
            walk.Step(lanes, repeat, 0);
        } else {
            for (uint32_t lane = 0; lane < lanes; lane += step) {
                walk.Step(lanes - lane < step ? lanes - lane : step, repeat, lane);
            }
        }
    }
}

void SetVectorMask(uint64_t high, uint64_t low) {
    ControlRegister(Register::MASK_HIGH) = high;
    ControlRegister(Register::MASK_LOW) = low;
}

void SetMaskMode(bool counter) { ControlRegister(Register::MASK_MODE) = counter; }

}  // namespace emulator
