// The C interface that runtime/emulator/launch.py calls through ctypes; keep both in step.
#ifndef ASCENDFX_EMULATOR_LAUNCH_H
#define ASCENDFX_EMULATOR_LAUNCH_H

#include <cstdint>

struct LaunchArgument {
    void* address;
    uint64_t bytes;
    uint32_t direction;  // emulator::Direction
    uint32_t reserved;
};

struct LaunchRequest {
    void (*entry)(void**);  // calls the kernel with the pointers
    void** pointers;
    const LaunchArgument* arguments;
    const char* const* argumentNames;
    uint32_t argumentCount;
    uint32_t type;  // emulator::KernelType
    uint32_t blocks;
    uint32_t capacity[8];  // usable bytes per emulator::Space
    uint32_t patience;     // milliseconds of computing without a write; 0 = no limit
};

struct LaunchResult {
    uint32_t failed;
    uint32_t block;
    uint32_t line;
    uint32_t reserved;
    uint64_t address;
    uint64_t instructions[7];  // per pipe
    uint64_t bytes[7];
    uint64_t elements[7];
    char kind[32];
    char core[32];
    char pipe[32];
    char file[256];
    char text[1024];
};

extern "C" int32_t ascendfx_launch(const LaunchRequest* request, LaunchResult* result);

#endif
