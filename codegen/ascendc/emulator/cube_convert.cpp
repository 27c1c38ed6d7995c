// Conversions of Fixpipe. Source: asc-devkit, "quantisation on the way out" and its combination
// with ReLU. Floats round to nearest even and keep inf and NaN (CTRL[48] = 1).
#include "cube_convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace emulator {
namespace {

bool IsByte(Element element) { return element == Element::I8 || element == Element::U8; }

float ScaleOf(uint64_t word) { return FloatFromBits(uint32_t(word) & 0xffffe000u); }

int32_t ShiftedToInt16(int32_t value, uint64_t word) {
    if ((word >> 36 & 1) == 0) return value;
    const int32_t shifted = value >> ((word >> 32 & 15) + 1);
    return std::min(std::max(shifted, -32768), 32767);
}

// Product, rounded to 9 bits, plus offset, saturated to 8 bits.
uint8_t Quantise(float value, uint64_t word, Element to) {
    const float clipped = std::min(std::max(value, -256.0f), 255.0f);
    const int32_t rounded = int32_t(std::nearbyint(clipped)) + int32_t(word >> 37 & 511);
    const int32_t low = to == Element::I8 ? -128 : 0, high = to == Element::I8 ? 127 : 255;
    return uint8_t(std::min(std::max(rounded, low), high));
}

void Scale(const FixpipeConversion& conversion, const std::byte* results, uint32_t count,
           const uint64_t* scales, std::byte* out) {
    for (uint32_t i = 0; i < count; ++i) {
        float value;
        if (conversion.mode == QF322B8_PRE || conversion.mode == VQF322B8_PRE) {
            std::memcpy(&value, results + i * 4, 4);
        } else {
            int32_t integer;
            std::memcpy(&integer, results + i * 4, 4);
            value = float(ShiftedToInt16(integer, scales[i]));
        }
        value = value < 0 && conversion.relu ? 0.0f : value * ScaleOf(scales[i]);
        if (conversion.to == Element::F16) {
            const uint16_t bits = FloatToHalf(value);
            std::memcpy(out + i * 2, &bits, 2);
        } else {
            const uint8_t bits = Quantise(value, scales[i], conversion.to);
            std::memcpy(out + i, &bits, 1);
        }
    }
}

// 16-bit floats; `values` are already behind the ReLU.
void Narrow(Element to, const float* values, uint32_t count, std::byte* out) {
    uint16_t bits[16];
    if (to == Element::F16) {
        for (uint32_t i = 0; i < 16; ++i) bits[i] = FloatToHalf(values[i]);
    } else {
        for (uint32_t i = 0; i < 16; ++i) bits[i] = FloatToBfloat(values[i]);
    }
    std::memcpy(out, bits, count * 2);
}

}  // namespace

bool NeedsScale(QuantMode_t mode) {
    return mode != NoQuant && mode != F322F16 && mode != F322BF16;
}

bool NeedsScaleTensor(QuantMode_t mode) {
    return mode == VDEQF16 || mode == VQF322B8_PRE || mode == VREQ8;
}

bool IsConversion(QuantMode_t mode, Element from, Element to) {
    switch (mode) {
        case NoQuant: return from == to;
        case F322F16: return from == Element::F32 && to == Element::F16;
        case F322BF16: return from == Element::F32 && to == Element::BF16;
        case DEQF16:
        case VDEQF16: return from == Element::I32 && to == Element::F16;
        case QF322B8_PRE:
        case VQF322B8_PRE: return from == Element::F32 && IsByte(to);
        case REQ8:
        case VREQ8: return from == Element::I32 && IsByte(to);
    }
    return false;
}

const char* ScaleDefect(uint64_t word, Element to) {
    if (!std::isnormal(ScaleOf(word))) return "is not a finite normal number";
    if (to != Element::F16 && (word >> 46 & 1) != (to == Element::I8 ? 1u : 0u)) {
        return "has bit 46 (signed result) against the type of the destination";
    }
    return nullptr;
}

void ConvertResults(const FixpipeConversion& conversion, const std::byte* results, uint32_t count,
                    const uint64_t* scales, std::byte* out) {
    if (NeedsScale(conversion.mode)) return Scale(conversion, results, count, scales, out);
    if (conversion.to == Element::I32) {
        int32_t values[16] = {};
        std::memcpy(values, results, count * 4);
        for (int32_t& value : values) value = conversion.relu ? std::max(value, 0) : value;
        std::memcpy(out, values, count * 4);
        return;
    }
    float values[16] = {};
    std::memcpy(values, results, count * 4);
    if (conversion.relu) {
        for (float& value : values) value = value < 0 ? 0.0f : value;
    }
    if (conversion.mode == NoQuant) {
        std::memcpy(out, values, count * 4);
    } else {
        Narrow(conversion.to, values, count, out);
    }
}

}  // namespace emulator
