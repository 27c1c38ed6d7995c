// Cast: looks up the loop of the pair and mode; int4 and the scaled int32 to half are special.
#include "vector_cast.h"

#include "element_bytes.h"
#include "machine.h"

namespace emulator {

namespace {

using AscendC::RoundMode;

const char* const kModeNames[kModes] = {"CAST_NONE",  "CAST_RINT",  "CAST_FLOOR", "CAST_CEIL",
                                        "CAST_ROUND", "CAST_TRUNC", "CAST_ODD"};

void ScaledToHalf(uint16_t* d, const int32_t* a, uint64_t n) {
    const float scale =
        HalfToFloat(static_cast<uint16_t>(ControlRegister(Register::DEQ_SCALE)));
    for (uint64_t i = 0; i < n; ++i) d[i] = FloatToHalf(static_cast<float>(a[i]) * scale);
}

void NibblesToHalves(uint16_t* d, const uint8_t* a, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
        const int nibble = a[i / 2] >> (i % 2 * 4) & 15;
        d[i] = FloatToHalf(static_cast<float>(nibble < 8 ? nibble : nibble - 16));
    }
}

void HalvesToNibbles(uint8_t* d, const uint16_t* a, uint64_t n, UnaryLoop toByte) {
    for (uint64_t i = 0; i < n; ++i) {
        int8_t value;
        toByte(&value, a + i, 1);
        value = value > 7 ? 7 : value < -8 ? -8 : value;
        const int shift = i % 2 * 4;
        d[i / 2] = static_cast<uint8_t>((d[i / 2] & ~(15 << shift)) | (value & 15) << shift);
    }
}

[[noreturn]] void ModeFault(RoundMode mode, Site site) {
    Fault(site, PIPE_V, "arguments", static_cast<uint64_t>(mode),
          "Cast: this conversion does not list RoundMode::%s",
          static_cast<int>(mode) < kModes ? kModeNames[static_cast<int>(mode)] : "?");
}

// Two values share a byte, so only the count form is modelled.
void RunNibbleCast(const VectorCall& call, const LocalOperand& dst, const LocalOperand& src,
                   RoundMode mode, Site site) {
    if (call.repeats >= 0 || call.count % 2 != 0) {
        Fault(site, PIPE_V, "arguments", 0,
              "Cast with int4b_t: the count must be even (repeats and masks are not modelled)");
    }
    const auto n = static_cast<uint64_t>(call.count);
    const bool toNibbles = call.target == Element::I4;
    if (n == 0) return;
    const UnaryLoop toByte =
        Tables().cast[static_cast<int>(Element::I8)][static_cast<int>(Element::F16)]
                     [static_cast<int>(mode)];
    if (toNibbles ? toByte == nullptr : mode != RoundMode::CAST_NONE) ModeFault(mode, site);
    Cost cost;
    cost.elements = n;
    Issue("Cast", PIPE_V, site, {Piece(src, 0, toNibbles ? n * 2 : n / 2)},
          {Piece(dst, 0, toNibbles ? n / 2 : n * 2)}, cost);
    if (!kValues) return;
    auto* to = LocalBytes(dst);
    auto* from = LocalBytes(src);
    if (toNibbles) {
        HalvesToNibbles(reinterpret_cast<uint8_t*>(to), reinterpret_cast<uint16_t*>(from), n,
                        toByte);
    } else {
        NibblesToHalves(reinterpret_cast<uint16_t*>(to), reinterpret_cast<uint8_t*>(from), n);
    }
}

}  // namespace

void RunCast(const VectorCall& call, const LocalOperand& dst, const LocalOperand& src,
             RoundMode mode, const AscendC::UnaryRepeatParams& params, Site site) {
    if (call.target == Element::I4 || call.source == Element::I4) {
        return RunNibbleCast(call, dst, src, mode, site);
    }
    const bool scaled = call.target == Element::F16 && call.source == Element::I32;
    const UnaryLoop loop = Tables().cast[static_cast<int>(call.target)]
                                        [static_cast<int>(call.source)][static_cast<int>(mode)];
    if (loop == nullptr && !scaled) ModeFault(mode, site);
    VectorOperands operands{};
    operands.name = "Cast";
    operands.target = {&dst, BytesOfElement(call.target), params.dstBlkStride,
                       params.dstRepStride};
    operands.sources[0] = {&src, BytesOfElement(call.source), params.srcBlkStride,
                           params.srcRepStride};
    operands.sourceCount = 1;
    const uint32_t widest =
        std::max(operands.target.elementBytes, operands.sources[0].elementBytes);
    const VectorShape shape =
        call.repeats < 0 ? DenseShape(call.count, "Cast", site)
                         : RepeatShape(call.mask, static_cast<uint32_t>(call.repeats), widest,
                                       "Cast", site);
    if (!IssueVector(shape, operands, site)) return;
    ForEachRun(shape, operands, [&](uint64_t n, std::byte* target, std::byte* const* sources) {
        if (scaled) {
            ScaledToHalf(reinterpret_cast<uint16_t*>(target),
                         reinterpret_cast<const int32_t*>(sources[0]), n);
        } else {
            loop(target, sources[0], n);
        }
    });
}

void SetDeqScaleBits(uint16_t bits) { ControlRegister(Register::DEQ_SCALE) = bits; }

}  // namespace emulator
