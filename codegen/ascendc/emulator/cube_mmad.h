// Mmad: the matrix product of the cube unit.
#ifndef ASCENDFX_EMULATOR_CUBE_MMAD_H
#define ASCENDFX_EMULATOR_CUBE_MMAD_H

#include "cube_params.h"
#include "tensor.h"

namespace emulator {

// `bias` is null for the form without; `element` is that of A and B.
void MultiplyMatrices(const LocalOperand& dst, const LocalOperand& left, const LocalOperand& right,
                      const LocalOperand* bias, Element element, const AscendC::MmadParams& params,
                      Site site);

void SetHf32Mode(bool enabled, Site site);

template <typename T, typename U, typename S>
constexpr bool IsMmadType =
    std::is_same_v<U, S> && (IsOneOf<U, int8_t, AscendC::int4b_t>
                                 ? std::is_same_v<T, int32_t>
                                 : IsOneOf<U, half, bfloat16_t, float> && std::is_same_v<T, float>);

}  // namespace emulator

namespace AscendC {

template <typename T, typename U, typename S>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
          const MmadParams& mmadParams, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsMmadType<T, U, S>,
                  "Mmad: half, bfloat16_t or float to float, int8_t or int4b_t to int32_t");
    emulator::MultiplyMatrices(dst, fm, filter, nullptr, emulator::ElementOf<U>(), mmadParams,
                               site);
}

template <typename T, typename U, typename S, typename V>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
          const LocalTensor<V>& bias, const MmadParams& mmadParams,
          emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsMmadType<T, U, S> && std::is_same_v<T, V>,
                  "Mmad with bias: the bias has the type of the result");
    static_assert(!std::is_same_v<U, int4b_t>, "Mmad of int4b_t has no form with a bias");
    emulator::MultiplyMatrices(dst, fm, filter, &bias, emulator::ElementOf<U>(), mmadParams, site);
}

inline void SetHF32Mode(HF32Mode mode, emulator::Site site = emulator::Site::Here()) {
    emulator::SetHf32Mode(mode == HF32Mode::ENABLE, site);
}
// Spelling up to 8.5.
inline void SetHF32Mode(bool enabled, emulator::Site site = emulator::Site::Here()) {
    emulator::SetHf32Mode(enabled, site);
}

// The order in which the cube unit walks over C; changes no value.
inline void SetMMRowMajor() {
    emulator::ControlRegister(emulator::Register::MM_ROW_MAJOR) = 1;
}
inline void SetMMColumnMajor() {
    emulator::ControlRegister(emulator::Register::MM_ROW_MAJOR) = 0;
}
inline void SetMMLayoutTransform(bool rowMajor) {
    emulator::ControlRegister(emulator::Register::MM_ROW_MAJOR) = rowMajor ? 1 : 0;
}

}  // namespace AscendC

#endif
