// Conversions of Fixpipe: rows of float or int32 to the output format, with scale and ReLU.
#ifndef ASCENDFX_EMULATOR_CUBE_CONVERT_H
#define ASCENDFX_EMULATOR_CUBE_CONVERT_H

#include "cube_params.h"
#include "half.h"

namespace emulator {

struct FixpipeConversion {
    QuantMode_t mode;
    bool relu;
    Element to;
};

// Whether `mode` turns `from` into `to` (table of the Fixpipe page, 2201).
bool IsConversion(QuantMode_t mode, Element from, Element to);
bool NeedsScale(QuantMode_t mode);
bool NeedsScaleTensor(QuantMode_t mode);

// Converts `count` <= 16 results. `scales` has one quantisation word per result, or is null.
// A word (page "quantisation on the way out"): bits 0-31 a float of which 1-8-10 bits count, 32-35
// a right shift minus one and 36 its switch, 37-45 an offset, 46 set if the result is signed.
void ConvertResults(const FixpipeConversion& conversion, const std::byte* results, uint32_t count,
                    const uint64_t* scales, std::byte* out);

// Why a quantisation word is refused, or null.
const char* ScaleDefect(uint64_t word, Element to);

}  // namespace emulator

#endif
