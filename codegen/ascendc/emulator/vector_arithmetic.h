// Element-wise arithmetic: two tensors, one tensor, one tensor and a scalar.
// Source: asc-devkit 9.1, API/Memory矢量计算/{基础算术,复合计算,逻辑计算}.
#ifndef ASCENDFX_EMULATOR_VECTOR_ARITHMETIC_H
#define ASCENDFX_EMULATOR_VECTOR_ARITHMETIC_H

#include "vector_shape.h"
#include "vector_tables.h"

namespace emulator {

// Untyped forms of the calls below. `repeats` < 0: count form with `count` elements.
struct VectorCall {
    const char* name;
    Element target, source;
    int64_t count;
    int32_t repeats;
    MaskArgument mask;
};

inline VectorCall CountCall(const char* name, Element target, Element source, int64_t count) {
    return VectorCall{name, target, source, count, -1, MaskArgument{nullptr, 0, true}};
}
inline VectorCall RepeatCall(const char* name, Element target, Element source, MaskArgument mask,
                             uint8_t repeats) {
    return VectorCall{name, target, source, 0, repeats, mask};
}

void RunBinary(Binary op, const VectorCall& call, const LocalOperand& dst,
               const LocalOperand& src0, const LocalOperand& src1,
               const AscendC::BinaryRepeatParams& params, Site site);
void RunUnary(Unary op, const VectorCall& call, const LocalOperand& dst, const LocalOperand& src,
              const AscendC::UnaryRepeatParams& params, Site site);
void RunScalar(Scalar op, const VectorCall& call, const LocalOperand& dst, const LocalOperand& src,
               uint64_t scalarBits, const AscendC::UnaryRepeatParams& params, Site site);

}  // namespace emulator

namespace AscendC {

#define EMULATOR_BINARY(Name, op, ...)                                                            \
    template <typename T>                                                                         \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,  \
              const int32_t& count, emulator::Site site = emulator::Site::Here()) {               \
        static_assert(emulator::IsOneOf<T, __VA_ARGS__>, #Name ": T is one of " #__VA_ARGS__);    \
        constexpr auto kElement = emulator::ElementOf<T>();                                       \
        emulator::RunBinary(emulator::Binary::op,                                                 \
                            emulator::CountCall(#Name, kElement, kElement, count), dst, src0,     \
                            src1, BinaryRepeatParams(), site);                                    \
    }                                                                                             \
    template <typename T, bool isSetMask = true>                                                  \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,  \
              uint64_t mask, const uint8_t repeatTime, const BinaryRepeatParams& repeatParams,    \
              emulator::Site site = emulator::Site::Here()) {                                     \
        static_assert(emulator::IsOneOf<T, __VA_ARGS__>, #Name ": T is one of " #__VA_ARGS__);    \
        constexpr auto kElement = emulator::ElementOf<T>();                                       \
        emulator::RunBinary(emulator::Binary::op,                                                 \
                            emulator::RepeatCall(#Name, kElement, kElement,                       \
                                                 {nullptr, mask, isSetMask}, repeatTime),         \
                            dst, src0, src1, repeatParams, site);                                 \
    }                                                                                             \
    template <typename T, bool isSetMask = true>                                                  \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,  \
              uint64_t mask[], const uint8_t repeatTime, const BinaryRepeatParams& repeatParams,  \
              emulator::Site site = emulator::Site::Here()) {                                     \
        static_assert(emulator::IsOneOf<T, __VA_ARGS__>, #Name ": T is one of " #__VA_ARGS__);    \
        constexpr auto kElement = emulator::ElementOf<T>();                                       \
        emulator::RunBinary(emulator::Binary::op,                                                 \
                            emulator::RepeatCall(#Name, kElement, kElement,                       \
                                                 {mask, 0, isSetMask}, repeatTime),               \
                            dst, src0, src1, repeatParams, site);                                 \
    }

EMULATOR_BINARY(Add, ADD, half, float, int16_t, int32_t)
EMULATOR_BINARY(Sub, SUB, half, float, int16_t, int32_t)
EMULATOR_BINARY(Mul, MUL, half, float, int16_t, int32_t)
EMULATOR_BINARY(Div, DIV, half, float)
EMULATOR_BINARY(Max, MAX, half, float, int16_t, int32_t)
EMULATOR_BINARY(Min, MIN, half, float, int16_t, int32_t)
EMULATOR_BINARY(And, AND, int16_t, uint16_t)
EMULATOR_BINARY(Or, OR, int16_t, uint16_t)
EMULATOR_BINARY(AddRelu, ADD_RELU, half, float, int16_t)
EMULATOR_BINARY(SubRelu, SUB_RELU, half, float, int16_t)
EMULATOR_BINARY(MulAddDst, MUL_ADD_DST, half, float)
EMULATOR_BINARY(FusedMulAdd, FUSED_MUL_ADD, half, float)
EMULATOR_BINARY(MulAddRelu, FUSED_MUL_ADD_RELU, half, float)
#undef EMULATOR_BINARY

#define EMULATOR_UNARY(Name, op, ...)                                                             \
    template <typename T>                                                                         \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count,         \
              emulator::Site site = emulator::Site::Here()) {                                     \
        static_assert(emulator::IsOneOf<T, __VA_ARGS__>, #Name ": T is one of " #__VA_ARGS__);    \
        constexpr auto kElement = emulator::ElementOf<T>();                                       \
        emulator::RunUnary(emulator::Unary::op,                                                   \
                           emulator::CountCall(#Name, kElement, kElement, count), dst, src,       \
                           UnaryRepeatParams(), site);                                            \
    }                                                                                             \
    template <typename T, bool isSetMask = true>                                                  \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask,                \
              const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,                    \
              emulator::Site site = emulator::Site::Here()) {                                     \
        static_assert(emulator::IsOneOf<T, __VA_ARGS__>, #Name ": T is one of " #__VA_ARGS__);    \
        constexpr auto kElement = emulator::ElementOf<T>();                                       \
        emulator::RunUnary(emulator::Unary::op,                                                   \
                           emulator::RepeatCall(#Name, kElement, kElement,                        \
                                                {nullptr, mask, isSetMask}, repeatTime),          \
                           dst, src, repeatParams, site);                                         \
    }                                                                                             \
    template <typename T, bool isSetMask = true>                                                  \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[],              \
              const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,                    \
              emulator::Site site = emulator::Site::Here()) {                                     \
        static_assert(emulator::IsOneOf<T, __VA_ARGS__>, #Name ": T is one of " #__VA_ARGS__);    \
        constexpr auto kElement = emulator::ElementOf<T>();                                       \
        emulator::RunUnary(                                                                       \
            emulator::Unary::op,                                                                  \
            emulator::RepeatCall(#Name, kElement, kElement, {mask, 0, isSetMask}, repeatTime),    \
            dst, src, repeatParams, site);                                                        \
    }

EMULATOR_UNARY(Exp, EXP, half, float)
EMULATOR_UNARY(Ln, LN, half, float)
EMULATOR_UNARY(Sqrt, SQRT, half, float)
EMULATOR_UNARY(Rsqrt, RSQRT, half, float)
EMULATOR_UNARY(Reciprocal, RECIPROCAL, half, float)
EMULATOR_UNARY(Abs, ABS, half, float)
EMULATOR_UNARY(Relu, RELU, half, float, int32_t)
EMULATOR_UNARY(Not, NOT, int16_t, uint16_t)
#undef EMULATOR_UNARY

// `Scalar` is the documented parameter type: `const T&`.
#define EMULATOR_SCALAR(Name, op, ...)                                                            \
    template <typename T, bool isSetMask = true>                                                  \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,         \
              const int32_t& count, emulator::Site site = emulator::Site::Here()) {               \
        static_assert(emulator::IsOneOf<T, __VA_ARGS__>, #Name ": T is one of " #__VA_ARGS__);    \
        constexpr auto kElement = emulator::ElementOf<T>();                                       \
        emulator::RunScalar(emulator::Scalar::op,                                                 \
                            emulator::CountCall(#Name, kElement, kElement, count), dst, src,      \
                            emulator::BitsOf(scalarValue), UnaryRepeatParams(), site);            \
    }                                                                                             \
    template <typename T, bool isSetMask = true>                                                  \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,         \
              uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,     \
              emulator::Site site = emulator::Site::Here()) {                                     \
        static_assert(emulator::IsOneOf<T, __VA_ARGS__>, #Name ": T is one of " #__VA_ARGS__);    \
        constexpr auto kElement = emulator::ElementOf<T>();                                       \
        emulator::RunScalar(emulator::Scalar::op,                                                 \
                            emulator::RepeatCall(#Name, kElement, kElement,                       \
                                                 {nullptr, mask, isSetMask}, repeatTime),         \
                            dst, src, emulator::BitsOf(scalarValue), repeatParams, site);         \
    }                                                                                             \
    template <typename T, bool isSetMask = true>                                                  \
    void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,         \
              uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& repeatParams,   \
              emulator::Site site = emulator::Site::Here()) {                                     \
        static_assert(emulator::IsOneOf<T, __VA_ARGS__>, #Name ": T is one of " #__VA_ARGS__);    \
        constexpr auto kElement = emulator::ElementOf<T>();                                       \
        emulator::RunScalar(emulator::Scalar::op,                                                 \
                            emulator::RepeatCall(#Name, kElement, kElement,                       \
                                                 {mask, 0, isSetMask}, repeatTime),               \
                            dst, src, emulator::BitsOf(scalarValue), repeatParams, site);         \
    }

EMULATOR_SCALAR(Adds, ADDS, half, float, int16_t, int32_t)
EMULATOR_SCALAR(Muls, MULS, half, float, int16_t, int32_t)
EMULATOR_SCALAR(Maxs, MAXS, half, float, int16_t, int32_t)
EMULATOR_SCALAR(Mins, MINS, half, float, int16_t, int32_t)
EMULATOR_SCALAR(LeakyRelu, LEAKY_RELU, half, float)
EMULATOR_SCALAR(ShiftLeft, SHIFT_LEFT, int16_t, uint16_t, int32_t, uint32_t)
EMULATOR_SCALAR(ShiftRight, SHIFT_RIGHT, int16_t, uint16_t, int32_t, uint32_t)
// Axpy(dst float, src half) of the page is not supported here: T equals U.
EMULATOR_SCALAR(Axpy, AXPY, half, float)
#undef EMULATOR_SCALAR

}  // namespace AscendC

#endif
