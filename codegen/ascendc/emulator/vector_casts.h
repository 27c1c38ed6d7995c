// Conversion loops for every pair and mode the Cast page documents for Atlas A2. Included by
// vector_loops.h only. Integers saturate; NaN becomes 0 (the page says nothing about either).
namespace emulator {
namespace {

using AscendC::RoundMode;

template <RoundMode mode>
EMULATOR_INLINE float RoundToInteger(float x) {
    if constexpr (mode == RoundMode::CAST_FLOOR) return __builtin_floorf(x);
    else if constexpr (mode == RoundMode::CAST_CEIL) return __builtin_ceilf(x);
    else if constexpr (mode == RoundMode::CAST_TRUNC) return __builtin_truncf(x);
    else if constexpr (mode == RoundMode::CAST_ROUND) {
        const float whole = __builtin_truncf(x);
        const float step = __builtin_copysignf(1.0f, x);
        return __builtin_fabsf(x - whole) >= 0.5f ? whole + step : whole;
    } else {
        return __builtin_rintf(x);
    }
}

template <typename Integer>
EMULATOR_INLINE Integer Saturate(float x) {
    constexpr int kBits = 8 * sizeof(Integer) - (std::is_signed_v<Integer> ? 1 : 0);
    constexpr double kBound = static_cast<double>(uint64_t{1} << kBits);
    constexpr double kLowest = std::is_signed_v<Integer> ? -kBound : 0.0;
    if constexpr (sizeof(Integer) <= 2) {
        float bounded = x > float(kBound - 1) ? float(kBound - 1) : x;
        bounded = bounded < float(kLowest) ? float(kLowest) : bounded;
        return static_cast<Integer>(static_cast<int32_t>(x != x ? 0.0f : bounded));
    } else {
        constexpr Integer kMost = static_cast<Integer>(~uint64_t{0} >> (65 - 8 * sizeof(Integer)));
        if (x != x) return 0;
        if (x >= float(kBound)) return kMost;
        if (x <= float(kLowest)) return static_cast<Integer>(-kMost - 1);
        return static_cast<Integer>(x);
    }
}

template <RoundMode mode, typename From, typename Integer>
void ToInteger(void* d, const void* a, uint64_t n) {
    auto* out = static_cast<Integer*>(d);
    const auto* x = static_cast<const typename From::Stored*>(a);
    for (uint64_t i = 0; i < n; ++i) {
        out[i] = Saturate<Integer>(RoundToInteger<mode>(From::Load(x[i])));
    }
}

struct B16 {
    using Stored = uint16_t;
    using Value = float;
    static EMULATOR_INLINE float Load(uint16_t v) { return BfloatToFloat(v); }
};

// Exact: every value of From is a float, and every such value a To.
template <typename From, typename To>
void Widen(void* d, const void* a, uint64_t n) {
    auto* out = static_cast<typename To::Stored*>(d);
    const auto* x = static_cast<const typename From::Stored*>(a);
    for (uint64_t i = 0; i < n; ++i) out[i] = To::Store(static_cast<float>(From::Load(x[i])));
}

template <RoundMode mode>
void FloatToHalfLoop(void* d, const void* a, uint64_t n) {
    auto* out = static_cast<uint16_t*>(d);
    const auto* x = static_cast<const float*>(a);
    for (uint64_t i = 0; i < n; ++i) {
        out[i] = mode == RoundMode::CAST_RINT ? FloatToHalf(x[i]) : FloatToHalf(x[i], mode);
    }
}

template <RoundMode mode>
void FloatToBfloatLoop(void* d, const void* a, uint64_t n) {
    auto* out = static_cast<uint16_t*>(d);
    const auto* x = static_cast<const float*>(a);
    for (uint64_t i = 0; i < n; ++i) {
        out[i] = mode == RoundMode::CAST_RINT ? FloatToBfloat(x[i]) : FloatToBfloat(x[i], mode);
    }
}

template <RoundMode mode>
void FloatToFloatLoop(void* d, const void* a, uint64_t n) {
    auto* out = static_cast<float*>(d);
    const auto* x = static_cast<const float*>(a);
    for (uint64_t i = 0; i < n; ++i) out[i] = RoundToInteger<mode>(x[i]);
}

template <RoundMode mode>
void ShortToHalfLoop(void* d, const void* a, uint64_t n) {
    auto* out = static_cast<uint16_t*>(d);
    const auto* x = static_cast<const int16_t*>(a);
    for (uint64_t i = 0; i < n; ++i) out[i] = FloatToHalf(static_cast<float>(x[i]), mode);
}

template <RoundMode mode, typename Integer>
float IntegerToFloat(Integer value) {
    const float nearest = static_cast<float>(value);
    if (mode == RoundMode::CAST_RINT) return nearest;
    const long double error = static_cast<long double>(nearest) - static_cast<long double>(value);
    if (error == 0) return nearest;
    const float other = __builtin_nextafterf(nearest, error > 0 ? -__builtin_inff()
                                                                : __builtin_inff());
    const float below = error > 0 ? other : nearest, above = error > 0 ? nearest : other;
    const float inner = value < 0 ? above : below, outer = value < 0 ? below : above;
    if (mode == RoundMode::CAST_FLOOR) return below;
    if (mode == RoundMode::CAST_CEIL) return above;
    if (mode == RoundMode::CAST_TRUNC) return inner;
    const long double toInner = static_cast<long double>(value) - inner;
    const long double toOuter = static_cast<long double>(outer) - value;
    return (toInner < 0 ? -toInner : toInner) < (toOuter < 0 ? -toOuter : toOuter) ? inner : outer;
}

template <RoundMode mode, typename Integer>
void IntegerToFloatLoop(void* d, const void* a, uint64_t n) {
    auto* out = static_cast<float*>(d);
    const auto* x = static_cast<const Integer*>(a);
    if (mode == RoundMode::CAST_RINT) {
        for (uint64_t i = 0; i < n; ++i) out[i] = static_cast<float>(x[i]);
    } else {
        for (uint64_t i = 0; i < n; ++i) out[i] = IntegerToFloat<mode>(x[i]);
    }
}

template <typename From, typename To>
void CopyInteger(void* d, const void* a, uint64_t n) {  // saturates when To is narrower
    auto* out = static_cast<To*>(d);
    const auto* x = static_cast<const From*>(a);
    constexpr auto kMost = static_cast<int64_t>(~uint64_t{0} >> (65 - 8 * sizeof(To)));
    for (uint64_t i = 0; i < n; ++i) {
        int64_t value = x[i];
        value = value > kMost ? kMost : value;
        value = value < -kMost - 1 ? -kMost - 1 : value;
        out[i] = static_cast<To>(value);
    }
}

template <template <RoundMode> class Maker>
void AddModes(UnaryLoop* loops, bool alsoNone) {
    const auto set = [&](RoundMode mode, UnaryLoop loop) { loops[static_cast<int>(mode)] = loop; };
    set(RoundMode::CAST_RINT, Maker<RoundMode::CAST_RINT>::kLoop);
    set(RoundMode::CAST_FLOOR, Maker<RoundMode::CAST_FLOOR>::kLoop);
    set(RoundMode::CAST_CEIL, Maker<RoundMode::CAST_CEIL>::kLoop);
    set(RoundMode::CAST_ROUND, Maker<RoundMode::CAST_ROUND>::kLoop);
    set(RoundMode::CAST_TRUNC, Maker<RoundMode::CAST_TRUNC>::kLoop);
    if (alsoNone) set(RoundMode::CAST_NONE, Maker<RoundMode::CAST_RINT>::kLoop);
}

#define EMULATOR_MAKER(name, ...)                              \
    template <RoundMode mode>                                  \
    struct name {                                              \
        static constexpr UnaryLoop kLoop = __VA_ARGS__;        \
    };
EMULATOR_MAKER(HalfToI8, ToInteger<mode, F16, int8_t>)
EMULATOR_MAKER(HalfToU8, ToInteger<mode, F16, uint8_t>)
EMULATOR_MAKER(HalfToI16, ToInteger<mode, F16, int16_t>)
EMULATOR_MAKER(HalfToI32, ToInteger<mode, F16, int32_t>)
EMULATOR_MAKER(BfloatToI32, ToInteger<mode, B16, int32_t>)
EMULATOR_MAKER(FloatToI16, ToInteger<mode, F32, int16_t>)
EMULATOR_MAKER(FloatToI32, ToInteger<mode, F32, int32_t>)
EMULATOR_MAKER(FloatToI64, ToInteger<mode, F32, int64_t>)
EMULATOR_MAKER(FloatToF16, FloatToHalfLoop<mode>)
EMULATOR_MAKER(FloatToB16, FloatToBfloatLoop<mode>)
EMULATOR_MAKER(FloatToF32, FloatToFloatLoop<mode>)
EMULATOR_MAKER(I16ToHalf, ShortToHalfLoop<mode>)
EMULATOR_MAKER(I32ToFloat, IntegerToFloatLoop<mode, int32_t>)
EMULATOR_MAKER(I64ToFloat, IntegerToFloatLoop<mode, int64_t>)
#undef EMULATOR_MAKER

void AddCasts(VectorTables* t) {
    const auto at = [&](Element to, Element from) -> UnaryLoop* {
        return t->cast[static_cast<int>(to)][static_cast<int>(from)];
    };
    constexpr int kNone = static_cast<int>(RoundMode::CAST_NONE);
    using I8 = Arithmetic<int8_t, float>;
    using U8 = Arithmetic<uint8_t, float>;
    at(Element::F16, Element::I8)[kNone] = Widen<I8, F16>;
    at(Element::F16, Element::U8)[kNone] = Widen<U8, F16>;
    at(Element::F32, Element::I16)[kNone] = Widen<I16, F32>;
    at(Element::F32, Element::F16)[kNone] = Widen<F16, F32>;
    at(Element::F32, Element::BF16)[kNone] = Widen<B16, F32>;
    at(Element::I16, Element::I32)[kNone] = CopyInteger<int32_t, int16_t>;
    at(Element::I64, Element::I32)[kNone] = CopyInteger<int32_t, int64_t>;
    at(Element::I32, Element::I64)[kNone] = CopyInteger<int64_t, int32_t>;
    AddModes<I16ToHalf>(at(Element::F16, Element::I16), true);
    AddModes<HalfToI8>(at(Element::I8, Element::F16), true);
    AddModes<HalfToU8>(at(Element::U8, Element::F16), true);
    AddModes<HalfToI16>(at(Element::I16, Element::F16), false);
    AddModes<HalfToI32>(at(Element::I32, Element::F16), false);
    AddModes<BfloatToI32>(at(Element::I32, Element::BF16), false);
    AddModes<I32ToFloat>(at(Element::F32, Element::I32), true);
    AddModes<FloatToI16>(at(Element::I16, Element::F32), false);
    AddModes<FloatToF16>(at(Element::F16, Element::F32), true);
    at(Element::F16, Element::F32)[static_cast<int>(RoundMode::CAST_ODD)] =
        FloatToHalfLoop<RoundMode::CAST_ODD>;
    AddModes<FloatToB16>(at(Element::BF16, Element::F32), false);
    AddModes<FloatToI32>(at(Element::I32, Element::F32), false);
    AddModes<FloatToF32>(at(Element::F32, Element::F32), false);
    AddModes<FloatToI64>(at(Element::I64, Element::F32), false);
    AddModes<I64ToFloat>(at(Element::F32, Element::I64), false);
}

}  // namespace
}  // namespace emulator
