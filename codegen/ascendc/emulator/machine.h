// State of the emulated chip, shared by the .cpp files and never seen by kernels.
#ifndef ASCENDFX_EMULATOR_MACHINE_H
#define ASCENDFX_EMULATOR_MACHINE_H

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "instruction.h"

// Hot loops exist once for any x86-64 and once for AVX2; both give identical bits, because no
// multiplication and addition are contracted (-ffp-contract=off).
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EMULATOR_HOT __attribute__((target_clones("avx2", "default")))
#else
#define EMULATOR_HOT
#endif

namespace emulator {

constexpr uint32_t kPipes = 7;
constexpr uint32_t kGranule = 32;
constexpr uint32_t kEventIds = 8;
constexpr uint32_t kUserEventIds = 6;  // 6 and 7 belong to the system (SetFlag page)
constexpr uint32_t kMaxBuffers = 64;   // InitBuffer page
constexpr uint32_t kMaxCrossFlags = 11;
constexpr uint32_t kMaxFlagCount = 15;
// A launch that begins above the first restarts the clock; none may pass the second.
constexpr uint32_t kRestartClock = 0x80000000;
constexpr uint32_t kLastClock = 0xffff0000;
constexpr uint32_t kLogged = 1024;  // instructions per pipe whose line is remembered

// Number of the last instruction of each pipe that is known to be finished.
struct Clocks {
    uint32_t at[8];

    void Join(const Clocks& other) {
        for (int i = 0; i < 8; ++i) at[i] = at[i] < other.at[i] ? other.at[i] : at[i];
    }
};

// Who touched a granule: clock in the high half, thread and properties in the low half.
struct Stamp {
    static constexpr uint64_t kPartial = 1;   // local: see mask; global: see details
    static constexpr uint64_t kAtomic = 2;
    static constexpr uint64_t kShared = 4;    // several accesses: bits 8..31 number a party set
    static uint64_t Make(uint32_t clock, uint32_t core, uint32_t pipe, uint64_t properties) {
        return uint64_t{clock} << 32 | uint64_t{core} << 12 | uint64_t{pipe} << 8 | properties;
    }
    static uint32_t Clock(uint64_t stamp) { return static_cast<uint32_t>(stamp >> 32); }
    static uint32_t Core(uint64_t stamp) { return static_cast<uint32_t>(stamp) >> 12; }
    static uint32_t Pipe(uint64_t stamp) { return static_cast<uint32_t>(stamp) >> 8 & 15; }
};

// One local memory of one core. Old entries need no clearing: their clock is not above `base`.
struct LocalMemory {
    std::byte* bytes = nullptr;
    uint32_t size = 0;      // of the physical memory
    uint32_t capacity = 0;  // usable
    uint64_t* write = nullptr;             // last write of each granule
    uint32_t* mask = nullptr;              // bytes written, where `write` says partial
    uint32_t* read[kPipes] = {};           // clock of the last read by each pipe, on first use
};

struct Event {
    bool set = false;
    Clocks message;
    Site site;
};

enum class BufferState : uint8_t { FREE, ALLOCATED, QUEUED, DEQUEUED, SCRATCH };

struct Buffer {
    uint32_t address, length;
    uint16_t queue, generation;
    AscendC::TPosition position;
    BufferState state;
    bool filled;  // by MTE2, and not yet handed over
    bool stored;  // by the scalar pipe since it was handed over
    int8_t fullEvent, freeEvent;  // event ids in use, -1 = none
    uint8_t fullPair, freePair;   // their pipes, as in HardEvent
    Site site;                    // of the last AllocTensor or InitBuffer
};

struct Queue {
    uint16_t firstBuffer, bufferCount;
    uint16_t depth;
    uint16_t queued;       // entries of `order`
    uint16_t next;         // buffer whose turn is next, counted from firstBuffer
    uint16_t order[kMaxBuffers];
    uint8_t fullPair, freePair;
    AscendC::TPosition position;
};

struct LogEntry {
    const char* name;
    Site site;
    uint32_t clock, core;  // logical; tell apart what came later to the same place
};

struct Totals {
    uint64_t instructions = 0, bytes = 0, elements = 0;
};

// Knowledge about other cores: one Clocks per logical core; empty = only what preceded the launch.
using Knowledge = std::vector<Clocks>;

enum class CoreKind : uint8_t { CUBE, VECTOR };
enum class FiberState : uint8_t { NEW, RUNNABLE, WAITING, POLLING, FINISHED };

// Physical core: memories, clocks and queues; reused by the logical cores of a launch.
struct Core {
    CoreKind kind;
    LocalMemory memory[static_cast<int>(Space::COUNT)];
    uint32_t clock[8];
    Clocks known[kPipes];  // of this core's pipes, per pipe
    uint32_t base;         // clocks up to here belong to earlier users
    uint32_t logical;      // index of the logical core
    uint32_t block, subBlock;
    Knowledge foreign;
    Event events[kPipes * kPipes][kEventIds];
    uint64_t openEvents;   // events that are set
    bool endedWell;        // the last kernel here came to its end, with no event set
    uint8_t allocatedIds[kPipes * kPipes];
    Buffer buffers[kMaxBuffers];
    Queue queues[kMaxBuffers];
    uint16_t bufferCount, queueCount;
    uint16_t nextGeneration;
    uint32_t spaceUsed[static_cast<int>(Space::COUNT)];
    bool hasPipe, isStatic;
    bool needsBarrier;     // something was issued since the last PipeBarrier<PIPE_ALL>
    uint64_t registers[static_cast<int>(Register::COUNT)];
    Site site;             // of the running instruction
    std::vector<LogEntry> log[kPipes];
    Totals totals[kPipes];
    void* stack = nullptr;
};

enum class KernelType : uint8_t { AIV_ONLY, AIC_ONLY, MIX_AIV_1_0, MIX_AIC_1_0, MIX_AIC_1_1, MIX_AIC_1_2 };

enum class Direction : uint8_t { IN, OUT, IN_OUT, WORKSPACE };

// A piece of global memory a kernel may touch; overlapping arguments are one region.
struct Region {
    uint64_t begin, end;
    bool writable;
    bool poisoned;          // not initialised before the launch
    uint64_t firstGranule;  // in the global shadow
    uint32_t argument;      // index of the first argument in it
};

// One access to part of a global granule.
struct PartialAccess {
    uint32_t mask, clock, core;
    uint8_t pipe;
    bool isWrite, isAtomic, isDirty;  // dirty: a scalar write not yet cleaned from the data cache
};

// One of several accesses that a stamp of the global shadow stands for.
struct Party {
    uint32_t clock, core;
    uint8_t pipe;
};

// The last scalar write of a core to a cache line of global memory.
struct LineWrite {
    Party writer;
    bool isDirty;  // not yet cleaned
};

// Cross-core flags of one logical core.
struct CrossFlags {
    std::vector<Knowledge> arrived[kMaxCrossFlags];  // unanswered sets, oldest first
    std::vector<Knowledge> sent[kMaxCrossFlags];     // own sets that still lack a partner's
    uint8_t mode[kMaxCrossFlags];                    // of the sets in `sent`
};

// A logical core: lives as long as the launch, while its physical core serves others after it.
struct Fiber {
    FiberState state = FiberState::NEW;
    Core* core = nullptr;
    void* stackPointer = nullptr;
    uint32_t waitingFlag = 0;
    Site waitingSite{};
    std::unique_ptr<CrossFlags> cross;  // on first use
    uint64_t progressAtPoll = 0;
    uint32_t vainPolls = 0;  // in a row, without any write of any core in between
};

struct FaultRecord {
    bool happened = false;
    std::string kind, text, core, file;
    uint32_t block = 0, line = 0;
    int32_t pipe = -1;
    uint64_t address = 0;
};

struct FaultException {};  // carries nothing: the record is in the launch

struct Launch {
    void (*entry)(void**);
    void** arguments;
    uint32_t argumentCount;
    const char* const* argumentNames;
    KernelType type;
    uint32_t blocks;
    uint32_t cubeCores, vectorCores;  // logical
    uint32_t base;                    // clocks up to here precede the launch
    std::vector<Region> regions;
    std::vector<Fiber> fibers;
    uint32_t running;                 // index of the running fiber
    FaultRecord fault;
    Totals totals[kPipes];
    uint64_t progress = 0;            // writes so far; detects polling without end
};

enum class Stop : uint8_t { NO, INTERRUPTED, STALLED };

struct Machine {
    uint32_t clock = 0;               // highest clock given; tests set these two
    uint32_t lastClock = kLastClock;  // a launch that comes here has no end
    std::atomic<Stop> stop{Stop::NO};  // the next instruction ends the launch
    std::vector<Core*> idle[2];        // by CoreKind
    std::vector<Core*> all;
    uint32_t capacity[static_cast<int>(Space::COUNT)];
    uint64_t* globalWrite = nullptr;
    uint64_t* globalRead = nullptr;
    uint64_t globalGranules = 0;
    std::unordered_map<uint64_t, std::vector<PartialAccess>> details;
    std::unordered_map<uint64_t, std::vector<LineWrite>> cacheLines;  // by address
    std::vector<std::vector<Party>> partySets;
    struct {
        uint64_t old, mine, joined;
    } lastJoin{};  // of a stamp and an access: spares a set per row of a copy
    void* schedulerStack = nullptr;
};

extern Machine machine;
extern Launch* launch;
extern Core* current;

// shadow_local.cpp, shadow_global.cpp. `limit[q]`: last instruction of pipe q ordered before this.
struct Access {
    Core* core;
    const char* name;
    uint32_t pipe;
    uint32_t clock;
    uint32_t limit[8];
    bool atomic, carriesPoison;
};
void ReadLocal(const Access& access, const Range& range, uint64_t begin, uint64_t length);
void WriteLocal(const Access& access, const Range& range, uint64_t begin, uint64_t length);
void ReadGlobal(const Access& access, const Range& range, uint64_t begin, uint64_t length);
void WriteGlobal(const Access& access, const Range& range, uint64_t begin, uint64_t length);
const Region* FindRegion(uint64_t address);
bool IsOrderedBefore(const Party& party, const Access& access);
std::string DescribeParty(const Access& access, const Party& party);
void CleanDataCache(Core& core, uint64_t begin, uint64_t length);
void PrepareGlobalShadow(Launch& run);

// cache_lines.cpp
void WriteCacheLines(const Access& access, const Range& range, uint64_t begin, uint64_t length);
void CleanCacheLines(const Core& core, uint64_t begin, uint64_t length);

// clock.cpp
void RestartClockIfHigh();         // between launches: forgets every stamp, then counts from 0
[[noreturn]] void EndlessFault();  // the clock came to machine.lastClock

// What a logical core is.
struct Role {
    CoreKind kind;
    uint32_t block, subBlock;
};
Role RoleOf(uint32_t logical);

// launch.cpp
Core* AcquireCore(CoreKind kind);
void ReleaseCore(Core* core);
void ResetCore(Core& core, uint32_t logical, uint32_t block, uint32_t subBlock);
void FinishCore(Core& core);  // leaks, left-over events
void Yield(FiberState state);
std::string CoreName(const Core& core);
std::string PlaceOf(uint32_t logical);  // "AIV1 of block 3", also of a core that has finished
std::string DescribeInstruction(const Core& core, uint32_t pipe, uint32_t clock);
std::string DescribeAddress(const Range& range, uint64_t address);
std::string OrderingBetween(uint32_t earlierPipe, uint32_t laterPipe);  // what would order them
uint64_t OffsetInRegion(uint64_t address);  // of a global address, in its argument

// events.cpp
constexpr uint32_t PairIndex(uint32_t pair) { return (pair >> 4) * kPipes + (pair & 15); }
void SetEvent(Core& core, uint32_t pair, uint32_t id, Site site);
void WaitEvent(Core& core, uint32_t pair, uint32_t id, Site site);
int AllocateEventId(Core& core, uint32_t pair, Site site);
void ReleaseEventId(Core& core, uint32_t pair, uint32_t id, Site site);

extern const char* const kPipeNames[8];
extern const char* const kSpaceNames[static_cast<int>(Space::COUNT)];
std::string EventName(uint32_t pair);

}  // namespace emulator

#endif
