// Overlap of source and destination in the repeat forms (general notes, "address overlap"):
// inside a repeat they coincide block by block or do not touch; no repeat reads what an earlier
// one wrote, except that Add, Sub, Mul, Max, Min, AddRelu and SubRelu on half, int32_t and float
// may accumulate into their second source with a repeat stride of 0.
#include "machine.h"
#include "vector_shape.h"

namespace emulator {

namespace {

constexpr uint32_t kBlock = 32;

struct Extent {
    uint64_t begin, end;
};

uint32_t BlocksOf(const VectorShape& shape, const VectorOperand& operand) {
    return (shape.lanes * operand.elementBytes + kBlock - 1) / kBlock;
}

Extent ExtentOf(const VectorShape& shape, const VectorOperand& operand) {
    const uint64_t blocks = uint64_t{shape.repeats - 1} * operand.repeatStride +
                            uint64_t{BlocksOf(shape, operand) - 1} * operand.blockStride + 1;
    return Extent{operand.tensor->address, operand.tensor->address + blocks * kBlock};
}

bool SameLayout(const VectorOperand& a, const VectorOperand& b) {
    return a.tensor->address == b.tensor->address && a.blockStride == b.blockStride &&
           a.repeatStride == b.repeatStride;
}

// Repeats of the operand touch different blocks.
bool RepeatsAreApart(const VectorShape& shape, const VectorOperand& operand) {
    return shape.repeats == 1 ||
           operand.repeatStride > (BlocksOf(shape, operand) - 1) * operand.blockStride;
}

// Which repeat wrote a block of UB last, and as its how-manyth block.
struct Writers {
    uint64_t stamp[196608 / kBlock];
    uint64_t generation;
};
Writers writers;

struct Walk {
    const VectorShape& shape;
    const VectorOperand& target;
    const VectorOperand& source;
    const char* name;
    Site site;

    static uint64_t Block(const VectorOperand& operand, uint32_t repeat, uint32_t block) {
        return operand.tensor->address / kBlock + uint64_t{repeat} * operand.repeatStride +
               uint64_t{block} * operand.blockStride;
    }

    [[noreturn]] void Refuse(uint64_t block, const char* why) const {
        Fault(site, PIPE_V, "arguments", block * kBlock, "%s: UB byte %llu %s", name,
              static_cast<unsigned long long>(block * kBlock), why);
    }

    void Check() const {
        const uint64_t base = ++writers.generation << 16;
        const uint32_t blocks = BlocksOf(shape, target);
        for (uint32_t repeat = 0; repeat < shape.repeats; ++repeat) {
            for (uint32_t i = 0; i < blocks; ++i) {  // earlier repeats
                const uint64_t read = Block(source, repeat, i);
                if (writers.stamp[read] > base) {
                    Refuse(read, "is read by a repeat after an earlier repeat wrote it");
                }
            }
            for (uint32_t i = 0; i < blocks; ++i) {
                writers.stamp[Block(target, repeat, i)] = base + 1 + repeat * 8 + i;
            }
            for (uint32_t i = 0; i < blocks; ++i) {  // this repeat
                const uint64_t read = Block(source, repeat, i);
                const uint64_t stamp = writers.stamp[read];
                if (stamp > base + repeat * 8 && stamp != base + 1 + repeat * 8 + i) {
                    Refuse(read, "belongs to source and destination of a repeat, at other places");
                }
            }
        }
    }
};

}  // namespace

void CheckRepeatOverlap(const VectorShape& shape, const VectorOperands& operands, Site site) {
    const VectorOperand& target = operands.target;
    const Extent written = ExtentOf(shape, target);
    if (written.end > sizeof writers.stamp / 8 * kBlock) return;  // out of bounds: a later fault
    for (uint32_t i = 0; i < operands.sourceCount; ++i) {
        const VectorOperand& source = operands.sources[i];
        const Extent read = ExtentOf(shape, source);
        if (read.end <= written.begin || written.end <= read.begin) continue;
        if (source.elementBytes != target.elementBytes || source.blockStride == 0) continue;
        if (SameLayout(source, target) && RepeatsAreApart(shape, target)) continue;
        const bool stays = source.repeatStride == 0 || target.repeatStride == 0;
        if (i == 1 && operands.accumulates && stays) continue;
        if (read.end > sizeof writers.stamp / 8 * kBlock) return;
        Walk{shape, target, source, operands.name, site}.Check();
    }
}

}  // namespace emulator
