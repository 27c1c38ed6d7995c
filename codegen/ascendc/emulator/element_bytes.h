// Size of an element type by its untyped name.
#ifndef ASCENDFX_EMULATOR_ELEMENT_BYTES_H
#define ASCENDFX_EMULATOR_ELEMENT_BYTES_H

#include "half.h"

namespace emulator {

// Bytes; 1 for int4b_t, whose pairs share a byte.
inline uint32_t BytesOfElement(Element element) {
    switch (element) {
        case Element::I4:
        case Element::I8:
        case Element::U8: return 1;
        case Element::I16:
        case Element::U16:
        case Element::F16:
        case Element::BF16: return 2;
        case Element::I64:
        case Element::U64: return 8;
        default: return 4;
    }
}

}  // namespace emulator

#endif
