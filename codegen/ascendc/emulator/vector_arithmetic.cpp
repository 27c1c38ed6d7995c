// Element-wise arithmetic: shapes to runs, runs to the tables of loops.
#include "vector_arithmetic.h"

#include "element_bytes.h"
#include "machine.h"

namespace emulator {

namespace {

VectorShape ShapeOf(const VectorCall& call, uint32_t widestBytes, Site site) {
    if (call.repeats < 0) return DenseShape(call.count, call.name, site);
    return RepeatShape(call.mask, static_cast<uint32_t>(call.repeats), widestBytes, call.name,
                       site);
}

VectorOperands UnaryOperands(const VectorCall& call, const LocalOperand& dst,
                             const LocalOperand& src, const AscendC::UnaryRepeatParams& params) {
    VectorOperands operands{};
    operands.name = call.name;
    operands.target = {&dst, BytesOfElement(call.target), params.dstBlkStride,
                       params.dstRepStride};
    operands.sources[0] = {&src, BytesOfElement(call.source), params.srcBlkStride,
                           params.srcRepStride};
    operands.sourceCount = 1;
    return operands;
}

// Overlap rule of the general notes; int16_t is excepted there.
bool MayAccumulate(Binary op) {
    return op == Binary::ADD || op == Binary::SUB || op == Binary::MUL || op == Binary::MAX ||
           op == Binary::MIN || op == Binary::ADD_RELU || op == Binary::SUB_RELU;
}

}  // namespace

void RunBinary(Binary op, const VectorCall& call, const LocalOperand& dst,
               const LocalOperand& src0, const LocalOperand& src1,
               const AscendC::BinaryRepeatParams& params, Site site) {
    const uint32_t bytes = BytesOfElement(call.target);
    VectorOperands operands{};
    operands.name = call.name;
    operands.target = {&dst, bytes, params.dstBlkStride, params.dstRepStride};
    operands.sources[0] = {&src0, bytes, params.src0BlkStride, params.src0RepStride};
    operands.sources[1] = {&src1, bytes, params.src1BlkStride, params.src1RepStride};
    operands.sourceCount = 2;
    operands.readsTarget = op == Binary::MUL_ADD_DST || op == Binary::FUSED_MUL_ADD ||
                           op == Binary::FUSED_MUL_ADD_RELU;
    operands.accumulates = MayAccumulate(op) && call.target != Element::I16;
    const VectorShape shape = ShapeOf(call, bytes, site);
    if (!IssueVector(shape, operands, site)) return;
    const BinaryLoop loop =
        Tables().binary[static_cast<int>(op)][static_cast<int>(call.target)];
    ForEachRun(shape, operands,
               [loop](uint64_t n, std::byte* target, std::byte* const* sources) {
                   loop(target, sources[0], sources[1], n);
               });
}

void RunUnary(Unary op, const VectorCall& call, const LocalOperand& dst, const LocalOperand& src,
              const AscendC::UnaryRepeatParams& params, Site site) {
    const VectorOperands operands = UnaryOperands(call, dst, src, params);
    const VectorShape shape = ShapeOf(call, operands.target.elementBytes, site);
    if (!IssueVector(shape, operands, site)) return;
    const UnaryLoop loop = Tables().unary[static_cast<int>(op)][static_cast<int>(call.target)];
    ForEachRun(shape, operands,
               [loop](uint64_t n, std::byte* target, std::byte* const* sources) {
                   loop(target, sources[0], n);
               });
}

void RunScalar(Scalar op, const VectorCall& call, const LocalOperand& dst, const LocalOperand& src,
               uint64_t scalarBits, const AscendC::UnaryRepeatParams& params, Site site) {
    VectorOperands operands = UnaryOperands(call, dst, src, params);
    operands.readsTarget = op == Scalar::AXPY;
    const VectorShape shape = ShapeOf(call, operands.target.elementBytes, site);
    const bool shifts = op == Scalar::SHIFT_LEFT || op == Scalar::SHIFT_RIGHT;
    const uint64_t mostShift = operands.target.elementBytes * 8;
    if (shifts && scalarBits > mostShift) {
        Fault(site, PIPE_V, "arguments", scalarBits, "%s: the amount is not in 0..%llu", call.name,
              static_cast<unsigned long long>(mostShift));
    }
    if (!IssueVector(shape, operands, site)) return;
    const ScalarLoop loop = Tables().scalar[static_cast<int>(op)][static_cast<int>(call.target)];
    ForEachRun(shape, operands,
               [loop, scalarBits](uint64_t n, std::byte* target, std::byte* const* sources) {
                   loop(target, sources[0], scalarBits, n);
               });
}

}  // namespace emulator
