// Fixpipe: results of the cube unit from L0C to GM or L1, converted on the way.
#ifndef ASCENDFX_EMULATOR_CUBE_FIXPIPE_H
#define ASCENDFX_EMULATOR_CUBE_FIXPIPE_H

#include "cube_params.h"
#include "tensor.h"

namespace emulator {

// What moves where; exactly one of `global` and `local` is set.
struct FixpipeMove {
    const GlobalOperand* global;
    const LocalOperand* local;
    const LocalOperand* source;
    const LocalOperand* scales;  // one uint64_t per column in L1, for the V modes
    Element from, to;
    bool toNd;
    Site site;
};

void MoveResults(const FixpipeMove& move, const AscendC::FixpipeParamsV220& params);

template <typename T, typename U>
constexpr bool IsFixpipeType =
    std::is_same_v<U, float> ? IsOneOf<T, int8_t, uint8_t, half, bfloat16_t, float>
                             : std::is_same_v<U, int32_t> &&
                                   IsOneOf<T, int8_t, uint8_t, half, int32_t>;

}  // namespace emulator

namespace AscendC {

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
             const FixpipeParamsV220& intriParams, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFixpipeType<T, U>, "Fixpipe: types of the Fixpipe page, 2201");
    emulator::MoveResults({&dst, nullptr, &src, nullptr, emulator::ElementOf<U>(),
                           emulator::ElementOf<T>(), config.format == CO2Layout::ROW_MAJOR, site},
                          intriParams);
}

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
             const LocalTensor<uint64_t>& cbufWorkspace, const FixpipeParamsV220& intriParams,
             emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFixpipeType<T, U>, "Fixpipe: types of the Fixpipe page, 2201");
    emulator::MoveResults({&dst, nullptr, &src, &cbufWorkspace, emulator::ElementOf<U>(),
                           emulator::ElementOf<T>(), config.format == CO2Layout::ROW_MAJOR, site},
                          intriParams);
}

// To L1 the format is NZ whatever `config` says, and every mode but NoQuant is possible (2201).
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src,
             const FixpipeParamsV220& intriParams, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFixpipeType<T, U> && emulator::IsOneOf<T, int8_t, uint8_t, half,
                                                                     bfloat16_t>,
                  "Fixpipe to L1: int8, uint8, half and bfloat16");
    emulator::MoveResults({nullptr, &dst, &src, nullptr, emulator::ElementOf<U>(),
                           emulator::ElementOf<T>(), false, site},
                          intriParams);
}

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src,
             const LocalTensor<uint64_t>& cbufWorkspace, const FixpipeParamsV220& intriParams,
             emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsFixpipeType<T, U> && emulator::IsOneOf<T, int8_t, uint8_t, half,
                                                                     bfloat16_t>,
                  "Fixpipe to L1: int8, uint8, half and bfloat16");
    emulator::MoveResults({nullptr, &dst, &src, &cbufWorkspace, emulator::ElementOf<U>(),
                           emulator::ElementOf<T>(), false, site},
                          intriParams);
}

}  // namespace AscendC

#endif
