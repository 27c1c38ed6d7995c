// Names every part of the emulator shares: memories, pipes, positions, events, source places.
//
// The spelling of everything in namespace AscendC and of the global names is documented API
// (asc-devkit 9.1, docs/zh/api/SIMD-API); everything in namespace emulator is ours.
#ifndef ASCENDFX_EMULATOR_CORE_TYPES_H
#define ASCENDFX_EMULATOR_CORE_TYPES_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#define __global__
#define __aicore__
#define __vector__
#define __cube__
#define __mix__(cube, vector)
#define __gm__
#define __ubuf__
#define GM_ADDR ::GmAddress

using GmAddress = uint8_t*;

// Engines of one core (ARCH, "NPU architecture 2201"); the order is ours.
enum pipe_t : uint8_t {
    PIPE_S,
    PIPE_V,
    PIPE_M,
    PIPE_MTE1,
    PIPE_MTE2,
    PIPE_MTE3,
    PIPE_FIX,
    PIPE_ALL,
};

namespace AscendC {

enum class TPosition : uint8_t {
    GM,
    A1,
    A2,
    B1,
    B2,
    C1,
    C2,
    CO1,
    CO2,
    VECIN,
    VECOUT,
    VECCALC,
    LCM = VECCALC,
    SPM,
    SHM = SPM,
    TSCM,
    C2PIPE2GM,
    MAX,
};
using QuePosition = TPosition;

// Event types of 2201: source pipe in the high nibble, destination pipe in the low one.
#define EMULATOR_EVENT(source, destination) \
    source##_##destination = (::PIPE_##source << 4) | ::PIPE_##destination
enum class HardEvent : uint8_t {
    EMULATOR_EVENT(MTE2, MTE1),
    EMULATOR_EVENT(MTE1, MTE2),
    EMULATOR_EVENT(MTE1, M),
    EMULATOR_EVENT(M, MTE1),
    EMULATOR_EVENT(MTE2, V),
    EMULATOR_EVENT(V, MTE2),
    EMULATOR_EVENT(MTE3, V),
    EMULATOR_EVENT(V, MTE3),
    EMULATOR_EVENT(M, V),
    EMULATOR_EVENT(V, M),
    EMULATOR_EVENT(V, V),
    EMULATOR_EVENT(MTE3, MTE1),
    EMULATOR_EVENT(MTE1, MTE3),
    EMULATOR_EVENT(MTE1, V),
    EMULATOR_EVENT(V, MTE1),
    EMULATOR_EVENT(MTE2, M),
    EMULATOR_EVENT(M, MTE2),
    EMULATOR_EVENT(MTE3, MTE2),
    EMULATOR_EVENT(MTE2, MTE3),
    EMULATOR_EVENT(S, V),
    EMULATOR_EVENT(V, S),
    EMULATOR_EVENT(S, MTE2),
    EMULATOR_EVENT(MTE2, S),
    EMULATOR_EVENT(S, MTE3),
    EMULATOR_EVENT(MTE3, S),
    EMULATOR_EVENT(M, S),
    EMULATOR_EVENT(M, FIX),
    EMULATOR_EVENT(FIX, M),
    EMULATOR_EVENT(MTE1, FIX),
    EMULATOR_EVENT(FIX, MTE1),
    EMULATOR_EVENT(MTE2, FIX),
    EMULATOR_EVENT(FIX, MTE2),
    EMULATOR_EVENT(FIX, MTE3),
    EMULATOR_EVENT(FIX, S),
    EMULATOR_EVENT(FIX, FIX),
};
#undef EMULATOR_EVENT

}  // namespace AscendC

namespace emulator {

// A physical memory. Addresses in local memories are byte offsets from their start.
enum class Space : uint8_t { GLOBAL, UB, L1, L0A, L0B, L0C, BIAS_TABLE, FIXPIPE_BUFFER, COUNT };

// The memory behind a logical position on 2201 (general notes, table of positions).
constexpr Space SpaceOf(AscendC::TPosition position) {
    using AscendC::TPosition;
    switch (position) {
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
        case TPosition::TSCM: return Space::L1;
        case TPosition::A2: return Space::L0A;
        case TPosition::B2: return Space::L0B;
        case TPosition::CO1: return Space::L0C;
        case TPosition::C2: return Space::BIAS_TABLE;
        case TPosition::C2PIPE2GM: return Space::FIXPIPE_BUFFER;
        case TPosition::VECIN:
        case TPosition::VECOUT:
        case TPosition::VECCALC: return Space::UB;
        default: return Space::GLOBAL;
    }
}

// A place in the emitted text. Every API function takes one as its last, defaulted parameter.
struct Site {
    const char* file;
    uint32_t line;

    static constexpr Site Here(const char* file = __builtin_FILE(),
                               uint32_t line = __builtin_LINE()) {
        return Site{file, line};
    }
};

// More bytes than any memory has: what absurd counts and offsets become, so that none wraps around
// to a small one.
constexpr uint64_t kMostBytes = ~uint64_t{0} >> 1;

// Whether T is one of the listed types, for `static_assert` on documented argument types.
template <typename T, typename... List>
constexpr bool IsOneOf = (std::is_same_v<T, List> || ...);

}  // namespace emulator

#endif
