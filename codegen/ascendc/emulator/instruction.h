// The one place every instruction passes through.
//
// HOW TO ADD AN INSTRUCTION
//
//   1. In a header: a thin template in namespace AscendC with exactly the documented parameter
//      types, `emulator::Site site = emulator::Site::Here()` as the last parameter, and
//      `static_assert(emulator::IsOneOf<T, half, float>, "...")` for the documented types. It only
//      turns tensors into untyped operands (`LocalTensor<T>` converts to `const LocalOperand&`,
//      `GlobalTensor<T>` to `const GlobalOperand&`) and calls a non-template function of a .cpp,
//      which is compiled once per machine, so that kernels compile fast.
//   2. In the .cpp: say what the instruction touches, then do it:
//
//        void LoadSomething(const LocalOperand& dst, const LocalOperand& src, ..., Site site) {
//            Issue("LoadData", PIPE_MTE1, site,
//                  {Piece(src, 0, bytes)},                       // what it reads
//                  {Piece(dst, 0, 512).Times(repeat, dstStride)},  // what it writes
//                  Cost{.bytes = bytes});
//            if (!kValues) return;
//            std::byte* d = LocalBytes(dst);    // pointers are valid after Issue has checked
//            const std::byte* s = LocalBytes(src);
//            ... copy ...
//        }
//
// `Issue` checks (in this order) that the core has the pipe and the memory, alignment, that every
// byte lies in its tensor and memory, that the tensor's buffer is still allocated, that all bytes
// read were written before (poison), that every conflicting earlier access is ordered before this
// one (race); then it records the access and is where cycles will be booked: it knows pipe, cost,
// operands and, through the vector clocks, what the instruction had to wait for. It throws (a
// fault ends the launch) and never returns half done: values are touched only after it returned.
//
// Arguments that break a documented rule: `Fault(site, pipe, "arguments", "text %d", ...)`.
#ifndef ASCENDFX_EMULATOR_INSTRUCTION_H
#define ASCENDFX_EMULATOR_INSTRUCTION_H

#include "core_types.h"

namespace emulator {

#ifndef EMULATOR_VALUES
#define EMULATOR_VALUES 1  // see runtime/emulator/checks.py
#endif

constexpr bool kValues = EMULATOR_VALUES != 0;  // false: timing and checks only, no arithmetic

// A LocalTensor without its element type.
struct LocalOperand {
    uint32_t address = 0;     // first byte, offset in its memory
    uint32_t bytes = 0;       // extent of the tensor from `address`
    uint16_t buffer = 0;      // 1 + index of the TPipe buffer it lies in; 0 = static tensor
    uint16_t generation = 0;  // of that buffer when the tensor was made; detects use after free
    AscendC::TPosition position = AscendC::TPosition::VECCALC;

    Space space() const { return SpaceOf(position); }
};

// A GlobalTensor without its element type.
struct GlobalOperand {
    uint8_t* address = nullptr;
    uint64_t bytes = 0;  // extent from `address`; kUnbounded if SetGlobalBuffer gave no size
    uint8_t* origin = nullptr;  // what SetGlobalBuffer was given: says which argument this is of

    static constexpr uint64_t kUnbounded = kMostBytes;
};

// Bytes an instruction touches: `length` bytes, repeated `count` times every `stride` bytes, all
// of that repeated `outerCount` times every `outerStride` bytes.
struct Range {
    Space space;
    uint8_t alignment;          // of `address`, in units of 32 bytes in local memories; 0 = none
    uint16_t buffer = 0;        // as in LocalOperand
    uint16_t generation = 0;
    uint64_t address;           // byte offset in a local memory, host address in GM
    uint64_t length;            // bytes; 0 = touches nothing
    uint64_t tensorBegin;       // extent of the tensor, for bounds and messages
    uint64_t tensorEnd;
    uint64_t origin = 0;        // in GM: an address in the argument it belongs to
    uint32_t count = 1;
    uint32_t outerCount = 1;
    int64_t stride = 0;
    int64_t outerStride = 0;

    Range Times(uint32_t pieces, int64_t everyBytes) const {
        Range range = *this;
        range.count = pieces;
        range.stride = everyBytes;
        return range;
    }
    Range TimesOuter(uint32_t pieces, int64_t everyBytes) const {
        Range range = *this;
        range.outerCount = pieces;
        range.outerStride = everyBytes;
        return range;
    }
    // Requires `address` to be a multiple of `bytes` (a multiple of 32), or nothing for 0.
    Range Aligned(uint32_t bytes) const {
        Range range = *this;
        range.alignment = static_cast<uint8_t>(bytes / 32);
        return range;
    }
};

// Alignment of a memory in bytes; Mmad's dst asks for 1,024 itself. For the Fixpipe buffer pages
// say 64 or 128: the stricter one.
// Source: asc-devkit 9.1, SIMD-API, 通用说明和约束 (general notes and constraints).
constexpr uint32_t AlignmentOf(Space space) {
    switch (space) {
        case Space::L0A:
        case Space::L0B: return 512;
        case Space::L0C:
        case Space::BIAS_TABLE: return 64;
        case Space::FIXPIPE_BUFFER: return 128;
        case Space::GLOBAL: return 0;
        default: return 32;
    }
}

inline Range Piece(const LocalOperand& tensor, uint64_t offsetBytes, uint64_t lengthBytes) {
    Range range{};
    range.space = tensor.space();
    range.alignment = static_cast<uint8_t>(AlignmentOf(range.space) / 32);
    range.buffer = tensor.buffer;
    range.generation = tensor.generation;
    range.address = tensor.address + offsetBytes;
    range.length = lengthBytes;
    range.tensorBegin = tensor.address;
    range.tensorEnd = uint64_t{tensor.address} + tensor.bytes;
    return range;
}

inline Range Piece(const GlobalOperand& tensor, uint64_t offsetBytes, uint64_t lengthBytes) {
    Range range{};
    range.space = Space::GLOBAL;
    const auto begin = reinterpret_cast<uint64_t>(tensor.address);
    range.address = begin + offsetBytes;
    range.length = lengthBytes;
    range.tensorBegin = begin;
    range.tensorEnd = begin + tensor.bytes;
    range.origin = reinterpret_cast<uint64_t>(tensor.origin);
    return range;
}

// What the cycle model will need beside the ranges.
struct Cost {
    uint64_t bytes = 0;     // moved by a copy, on its narrow side
    uint64_t elements = 0;  // lanes computed by a vector instruction
    uint32_t repeats = 0;   // repeats of a vector instruction, fractals of a load, K steps of Mmad
};

// How an instruction relates to earlier ones of the same pipe.
enum class InPipe : uint8_t {
    PIPELINED,  // overlapping accesses need a PipeBarrier (copies, small Mmad)
    ORDERED,    // hardware or compiler orders it behind its predecessors (vector, large Mmad)
};

struct Options {
    InPipe inPipe = InPipe::PIPELINED;  // V on a vector core is ORDERED whatever is given
    bool atomic = false;                // writes to GM are atomic updates: unordered among themselves
    bool carriesPoison = false;         // moves whole fractals: reading unwritten bytes is no fault
};

using Ranges = std::initializer_list<Range>;

void Issue(const char* name, pipe_t pipe, Site site, Ranges reads, Ranges writes, Cost cost,
           Options options = {});

// The same with arrays, for instructions that touch a computed number of ranges.
struct RangeList {
    const Range* first;
    uint32_t count;
};
void IssueLists(const char* name, pipe_t pipe, Site site, RangeList reads, RangeList writes,
                Cost cost, Options options = {});

// First byte of a tensor in the memory of the running core. Only after Issue.
std::byte* LocalBytes(const LocalOperand& tensor);

// Whether any byte of a local memory was never written, and making bytes so again: for copies with
// `carriesPoison`, which pass the state of what they read on, after Issue.
bool IsPoisoned(Space space, uint64_t address, uint64_t bytes);
void SetPoison(Space space, uint64_t address, uint64_t bytes);

// Ends the launch with EmulatorError(kernel, block, core, pipe, line, address, text). `kind` is a
// kebab-case word: capacity alignment bounds queue event flag leak poison race deadlock arguments.
[[noreturn]] __attribute__((format(printf, 5, 6))) void Fault(Site site, pipe_t pipe,
                                                              const char* kind, uint64_t address,
                                                              const char* format, ...);

// Control registers of the running core, zero when a kernel starts.
enum class Register : uint8_t {
    DEQ_SCALE,     // SetDeqScale(half): bits of the half
    ATOMIC,        // 0 = none, else 1 + AtomicType (see copy.h)
    MASK_LOW,      // SetVectorMask
    MASK_HIGH,
    MASK_MODE,     // 0 normal, 1 counter
    CMP_MASK_LOW,  // compare-mask register of Select mode 0
    CMP_MASK_HIGH,
    HF32_MODE,
    MM_ROW_MAJOR,
    FIXPIPE_QUANT,  // free for the cube files
    CUBE_A,         // free for the cube files
    CUBE_B,
    MRG_SORT_RESULT,  // four 16-bit counts
    COUNT,
};
uint64_t& ControlRegister(Register which);

// Kind of the running core.
bool OnCubeCore();
bool OnVectorCore();

}  // namespace emulator

#endif
