// The atomic update of copies to GM. One core at a time runs, so plain arithmetic is atomic here.
#include "atomic_store.h"

#include <cstring>

#include "copy.h"
#include "machine.h"

namespace emulator {

namespace {

uint64_t& Mode() { return ControlRegister(Register::ATOMIC); }

template <typename Value>
Value Combine(AtomicOperation operation, Value a, Value b) {
    if (operation == AtomicOperation::MAX) return a > b ? a : b;
    if (operation == AtomicOperation::MIN) return a < b ? a : b;
    return static_cast<Value>(a + b);
}

template <typename Stored, typename Value, typename Widen, typename Narrow>
void Update(AtomicOperation operation, void* to, const void* from, uint64_t bytes, Widen widen,
            Narrow narrow) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    for (uint64_t at = 0; at + sizeof(Stored) <= bytes; at += sizeof(Stored)) {
        Stored a, b;
        std::memcpy(&a, target + at, sizeof a);
        std::memcpy(&b, source + at, sizeof b);
        const Stored result = narrow(Combine<Value>(operation, widen(a), widen(b)));
        std::memcpy(target + at, &result, sizeof result);
    }
}

template <typename T>
void UpdatePlain(AtomicOperation operation, void* to, const void* from, uint64_t bytes) {
    const auto same = [](T value) { return value; };
    Update<T, T>(operation, to, from, bytes, same, same);
}

}  // namespace

bool IsAtomic() { return Mode() != 0; }

void StoreGlobal(void* to, const void* from, uint64_t bytes) {
    if (Mode() == 0) {
        std::memcpy(to, from, bytes);
        return;
    }
    const auto operation = static_cast<AtomicOperation>((Mode() - 1) >> 8);
    switch (static_cast<Element>((Mode() - 1) & 255)) {
        case Element::I8: return UpdatePlain<int8_t>(operation, to, from, bytes);
        case Element::I16: return UpdatePlain<int16_t>(operation, to, from, bytes);
        case Element::I32: return UpdatePlain<int32_t>(operation, to, from, bytes);
        case Element::F32: return UpdatePlain<float>(operation, to, from, bytes);
        case Element::F16:
            return Update<uint16_t, float>(
                operation, to, from, bytes, [](uint16_t v) { return HalfToFloat(v); },
                [](float v) { return FloatToHalf(v); });
        default:
            return Update<uint16_t, float>(
                operation, to, from, bytes, [](uint16_t v) { return BfloatToFloat(v); },
                [](float v) { return FloatToBfloat(v); });
    }
}

void SetAtomic(AtomicOperation operation, Element element, Site site) {
    current->site = site;
    Mode() = 1 + (static_cast<uint64_t>(operation) << 8 | static_cast<uint64_t>(element));
}

void ClearAtomic() { Mode() = 0; }

}  // namespace emulator
