// Bodies of the element loops. Compiled twice, by vector_loops_plain.cpp and vector_loops_avx2.cpp,
// which define EMULATOR_TABLES; plain loops that the compiler vectorises, with identical results.
#include "vector_math.h"
#include "vector_tables.h"

namespace emulator {
namespace {

// How an element type is loaded, computed with, and stored.
template <typename Plain, typename Work>
struct Arithmetic {
    using Stored = Plain;
    using Value = Work;
    static EMULATOR_INLINE Work Load(Plain v) { return static_cast<Work>(v); }
    static EMULATOR_INLINE Plain Store(Work v) { return static_cast<Plain>(v); }
};
using F32 = Arithmetic<float, float>;
using I16 = Arithmetic<int16_t, int32_t>;
using U16 = Arithmetic<uint16_t, uint32_t>;
using U32 = Arithmetic<uint32_t, uint32_t>;
struct I32 {  // wraps around
    using Stored = int32_t;
    using Value = int32_t;
    static EMULATOR_INLINE int32_t Load(int32_t v) { return v; }
    static EMULATOR_INLINE int32_t Store(int32_t v) { return v; }
};
struct F16 {
    using Stored = uint16_t;
    using Value = float;
    static EMULATOR_INLINE float Load(uint16_t v) { return HalfToFloat(v); }
    static EMULATOR_INLINE uint16_t Store(float v) { return FloatToHalf(v); }
};

template <typename V>
EMULATOR_INLINE V WrapAdd(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
        return static_cast<V>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
    } else {
        return a + b;
    }
}
template <typename V>
EMULATOR_INLINE V WrapSub(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
        return static_cast<V>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
    } else {
        return a - b;
    }
}
template <typename V>
EMULATOR_INLINE V WrapMul(V a, V b) {
    if constexpr (std::is_integral_v<V>) {
        return static_cast<V>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
    } else {
        return a * b;
    }
}
// A NaN in either operand gives a NaN.
template <typename V>
EMULATOR_INLINE V Larger(V a, V b) {
    const V larger = a > b ? a : b;
    return a != a ? a : larger;
}
template <typename V>
EMULATOR_INLINE V Smaller(V a, V b) {
    const V smaller = a < b ? a : b;
    return a != a ? a : smaller;
}

template <Binary op, typename V>
EMULATOR_INLINE V Combine(V a, V b, V d) {
    if constexpr (op == Binary::ADD) return WrapAdd(a, b);
    else if constexpr (op == Binary::SUB) return WrapSub(a, b);
    else if constexpr (op == Binary::MUL) return WrapMul(a, b);
    else if constexpr (op == Binary::DIV) return a / b;
    else if constexpr (op == Binary::MAX) return Larger(a, b);
    else if constexpr (op == Binary::MIN) return Smaller(a, b);
    else if constexpr (op == Binary::AND) return a & b;
    else if constexpr (op == Binary::OR) return a | b;
    else if constexpr (op == Binary::ADD_RELU) return Larger(WrapAdd(a, b), V(0));
    else if constexpr (op == Binary::SUB_RELU) return Larger(WrapSub(a, b), V(0));
    else if constexpr (op == Binary::MUL_ADD_DST) return WrapAdd(WrapMul(a, b), d);
    else if constexpr (op == Binary::FUSED_MUL_ADD) return WrapAdd(WrapMul(a, d), b);
    else return Larger(WrapAdd(WrapMul(a, d), b), V(0));
}

template <Binary op>
constexpr bool kReadsTarget = op == Binary::MUL_ADD_DST || op == Binary::FUSED_MUL_ADD ||
                              op == Binary::FUSED_MUL_ADD_RELU;

template <Binary op, typename T>
void RunBinary(void* d, const void* a, const void* b, uint64_t n) {
    auto* out = static_cast<typename T::Stored*>(d);
    const auto* x = static_cast<const typename T::Stored*>(a);
    const auto* y = static_cast<const typename T::Stored*>(b);
    for (uint64_t i = 0; i < n; ++i) {
        const auto old = kReadsTarget<op> ? T::Load(out[i]) : typename T::Value(0);
        out[i] = T::Store(Combine<op>(T::Load(x[i]), T::Load(y[i]), old));
    }
}

template <Unary op, typename V>
EMULATOR_INLINE V Apply(V a) {
    if constexpr (op == Unary::EXP) return static_cast<V>(ExpDouble(a));
    else if constexpr (op == Unary::LN) return static_cast<V>(LnDouble(a));
    else if constexpr (op == Unary::SQRT) return __builtin_sqrtf(a);
    else if constexpr (op == Unary::RSQRT) return static_cast<V>(1.0 / __builtin_sqrt(double(a)));
    else if constexpr (op == Unary::RECIPROCAL) return V(1) / a;
    else if constexpr (op == Unary::ABS) return __builtin_fabsf(a);
    else if constexpr (op == Unary::RELU) return Larger(a, V(0));
    else return static_cast<V>(~a);
}

template <Unary op, typename T>
void RunUnary(void* d, const void* a, uint64_t n) {
    auto* out = static_cast<typename T::Stored*>(d);
    const auto* x = static_cast<const typename T::Stored*>(a);
    for (uint64_t i = 0; i < n; ++i) out[i] = T::Store(Apply<op>(T::Load(x[i])));
}

template <Scalar op, typename V>
EMULATOR_INLINE V ApplyScalar(V a, V s, V d) {
    if constexpr (op == Scalar::ADDS) return WrapAdd(a, s);
    else if constexpr (op == Scalar::MULS) return WrapMul(a, s);
    else if constexpr (op == Scalar::MAXS) return Larger(a, s);
    else if constexpr (op == Scalar::MINS) return Smaller(a, s);
    else if constexpr (op == Scalar::LEAKY_RELU) return a >= V(0) ? a : WrapMul(a, s);
    else if constexpr (op == Scalar::SHIFT_LEFT) return static_cast<V>(uint64_t(a) << s);
    else if constexpr (op == Scalar::SHIFT_RIGHT) return static_cast<V>(int64_t(a) >> s);
    else return WrapAdd(WrapMul(a, s), d);
}

template <Scalar op, typename T>
void RunScalar(void* d, const void* a, uint64_t scalarBits, uint64_t n) {
    auto* out = static_cast<typename T::Stored*>(d);
    const auto* x = static_cast<const typename T::Stored*>(a);
    typename T::Stored stored;
    std::memcpy(&stored, &scalarBits, sizeof stored);
    const auto s = T::Load(stored);
    for (uint64_t i = 0; i < n; ++i) {
        const auto old = op == Scalar::AXPY ? T::Load(out[i]) : typename T::Value(0);
        out[i] = T::Store(ApplyScalar<op>(T::Load(x[i]), s, old));
    }
}

template <Comparison op, typename V>
EMULATOR_INLINE bool Holds(V a, V b) {
    if constexpr (op == Comparison::LT) return a < b;
    else if constexpr (op == Comparison::GT) return a > b;
    else if constexpr (op == Comparison::EQ) return a == b;
    else if constexpr (op == Comparison::LE) return a <= b;
    else if constexpr (op == Comparison::GE) return a >= b;
    else return a != b;
}

template <Comparison op, typename T, bool scalar>
void RunCompare(uint8_t* d, const void* a, const void* b, uint64_t n) {
    const auto* x = static_cast<const typename T::Stored*>(a);
    const auto* y = static_cast<const typename T::Stored*>(b);
    const auto s = scalar ? T::Load(y[0]) : typename T::Value(0);
    for (uint64_t i = 0; i < n; ++i) {
        d[i] = Holds<op>(T::Load(x[i]), scalar ? s : T::Load(y[i])) ? 1 : 0;
    }
}

template <Binary op, typename... Types>
void AddBinary(VectorTables* tables, std::initializer_list<Element> elements) {
    BinaryLoop loops[] = {RunBinary<op, Types>...};
    const BinaryLoop* loop = loops;
    for (Element element : elements) {
        tables->binary[static_cast<int>(op)][static_cast<int>(element)] = *loop++;
    }
}

template <Unary op, typename... Types>
void AddUnary(VectorTables* tables, std::initializer_list<Element> elements) {
    UnaryLoop loops[] = {RunUnary<op, Types>...};
    const UnaryLoop* loop = loops;
    for (Element element : elements) {
        tables->unary[static_cast<int>(op)][static_cast<int>(element)] = *loop++;
    }
}

template <Scalar op, typename... Types>
void AddScalar(VectorTables* tables, std::initializer_list<Element> elements) {
    ScalarLoop loops[] = {RunScalar<op, Types>...};
    const ScalarLoop* loop = loops;
    for (Element element : elements) {
        tables->scalar[static_cast<int>(op)][static_cast<int>(element)] = *loop++;
    }
}

template <Comparison op>
void AddCompare(VectorTables* tables) {
    auto& arrays = tables->compare[static_cast<int>(op)];
    auto& scalars = tables->compareScalar[static_cast<int>(op)];
    arrays[static_cast<int>(Element::F32)] = RunCompare<op, F32, false>;
    arrays[static_cast<int>(Element::F16)] = RunCompare<op, F16, false>;
    arrays[static_cast<int>(Element::I32)] = RunCompare<op, I32, false>;
    scalars[static_cast<int>(Element::F32)] = RunCompare<op, F32, true>;
    scalars[static_cast<int>(Element::F16)] = RunCompare<op, F16, true>;
    scalars[static_cast<int>(Element::I32)] = RunCompare<op, I32, true>;
}

void HalvesToFloats(float* d, const uint16_t* a, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) d[i] = HalfToFloat(a[i]);
}

void FloatsToHalves(uint16_t* d, const float* a, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) d[i] = FloatToHalf(a[i]);
}

void AddArithmetic(VectorTables* t) {
    const auto numbers = {Element::F32, Element::F16, Element::I32, Element::I16};
    const auto floats = {Element::F32, Element::F16};
    const auto words = {Element::I16, Element::U16};
    const auto shifted = {Element::I16, Element::U16, Element::I32, Element::U32};
    const auto relus = {Element::F32, Element::F16, Element::I32};
    AddBinary<Binary::ADD, F32, F16, I32, I16>(t, numbers);
    AddBinary<Binary::SUB, F32, F16, I32, I16>(t, numbers);
    AddBinary<Binary::MUL, F32, F16, I32, I16>(t, numbers);
    AddBinary<Binary::MAX, F32, F16, I32, I16>(t, numbers);
    AddBinary<Binary::MIN, F32, F16, I32, I16>(t, numbers);
    AddBinary<Binary::DIV, F32, F16>(t, floats);
    AddBinary<Binary::AND, I16, U16>(t, words);
    AddBinary<Binary::OR, I16, U16>(t, words);
    AddBinary<Binary::ADD_RELU, F32, F16, I16>(t, {Element::F32, Element::F16, Element::I16});
    AddBinary<Binary::SUB_RELU, F32, F16, I16>(t, {Element::F32, Element::F16, Element::I16});
    AddBinary<Binary::MUL_ADD_DST, F32, F16>(t, floats);
    AddBinary<Binary::FUSED_MUL_ADD, F32, F16>(t, floats);
    AddBinary<Binary::FUSED_MUL_ADD_RELU, F32, F16>(t, floats);
    AddUnary<Unary::EXP, F32, F16>(t, floats);
    AddUnary<Unary::LN, F32, F16>(t, floats);
    AddUnary<Unary::SQRT, F32, F16>(t, floats);
    AddUnary<Unary::RSQRT, F32, F16>(t, floats);
    AddUnary<Unary::RECIPROCAL, F32, F16>(t, floats);
    AddUnary<Unary::ABS, F32, F16>(t, floats);
    AddUnary<Unary::RELU, F32, F16, I32>(t, relus);
    AddUnary<Unary::NOT, I16, U16>(t, words);
    AddScalar<Scalar::ADDS, F32, F16, I32, I16>(t, numbers);
    AddScalar<Scalar::MULS, F32, F16, I32, I16>(t, numbers);
    AddScalar<Scalar::MAXS, F32, F16, I32, I16>(t, numbers);
    AddScalar<Scalar::MINS, F32, F16, I32, I16>(t, numbers);
    AddScalar<Scalar::LEAKY_RELU, F32, F16>(t, floats);
    AddScalar<Scalar::SHIFT_LEFT, I16, U16, I32, U32>(t, shifted);
    AddScalar<Scalar::SHIFT_RIGHT, I16, U16, I32, U32>(t, shifted);
    AddScalar<Scalar::AXPY, F32, F16>(t, floats);
    AddCompare<Comparison::LT>(t);
    AddCompare<Comparison::GT>(t);
    AddCompare<Comparison::EQ>(t);
    AddCompare<Comparison::LE>(t);
    AddCompare<Comparison::GE>(t);
    AddCompare<Comparison::NE>(t);
    t->halfToFloat = HalvesToFloats;
    t->floatToHalf = FloatsToHalves;
}

}  // namespace
}  // namespace emulator

#include "vector_casts.h"

namespace emulator {

static VectorTables MakeTables() {
    VectorTables tables{};
    AddArithmetic(&tables);
    AddCasts(&tables);
    return tables;
}

const VectorTables& EMULATOR_TABLES() {
    static const VectorTables tables = MakeTables();
    return tables;
}

}  // namespace emulator
