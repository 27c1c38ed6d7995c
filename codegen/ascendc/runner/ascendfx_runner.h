/* What an emitted plan runner (run_<plan>.cpp) asks of the machine below it. C11 and C++17.
 *
 * A runner holds the launches of one step as constant tables and knows no device. Whoever calls it
 * brings a launcher: three entries and what they need. Runner and launcher meet only here, so the
 * same run_<plan>.cpp runs over the emulator, over nothing (host time alone) and over a card.
 *
 * On a card
 *   launch  Kernels are asynchronous: the entry enqueues on one stream and returns. Either it is a
 *           switch over `kernel` whose cases are
 *               k<<<numBlocks, 0, stream>>>(pointers[0], pointers[1], ...);
 *           or, with kernels loaded by aclrtBinaryLoadFromData and found by aclrtBinaryGetFunction,
 *               aclrtLaunchKernelWithArgsArray(function, numBlocks, stream, nullptr, args).
 *           Pointers are of device memory (aclrtMalloc); numBlocks of each kernel is in the plan.
 *   copy    aclrtMemcpyAsync on the same stream.
 *   sync    aclrtSynchronizeStream. A fault of a kernel shows here, after the run, not in `launch`.
 * The caller copies control tensors before a run, and synchronises and copies after it.
 */
#ifndef ASCENDFX_RUNNER_H
#define ASCENDFX_RUNNER_H

#include <stdint.h>

/* Raised when a struct or an entry below changes; a runner says which one it was emitted for. */
#define ASCENDFX_RUNNER_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif

/* What went through the entries of a launcher. They count; a runner cannot go past them. */
typedef struct AscendfxCounts {
    uint64_t launches;
    uint64_t copies; /* between host and device, either way */
    uint64_t syncs;  /* of the host with the device */
} AscendfxCounts;

/* Every entry adds one to its count and returns 0, or a status of its own that ends the run. */
typedef struct AscendfxLauncher AscendfxLauncher;
struct AscendfxLauncher {
    void* context; /* the launcher's own */
    AscendfxCounts* counts;
    /* `kernel` is an index into the kernels of the plan. `pointers` holds `count` device addresses
       in the order of the kernel's signature and is not valid after the call. */
    int32_t (*launch)(const AscendfxLauncher* self, uint32_t kernel, void* const* pointers,
                      uint32_t count);
    int32_t (*copy)(const AscendfxLauncher* self, void* to, const void* from, uint64_t bytes);
    int32_t (*sync)(const AscendfxLauncher* self);
};

/* What a run did. */
typedef struct AscendfxRun {
    AscendfxCounts counts; /* of this run alone */
    uint32_t steps;        /* complete steps; where a launch failed, the index of its step */
    uint32_t launch;       /* index of the launch that failed, else 0 */
} AscendfxRun;

/* The signature of ascendfx_bind_<plan>, called once. `buffers` holds the device address of each
   buffer of the plan, in the plan's order; of a buffer in the arena, of the buffer and not of the
   arena. Writes the addresses that the launches are given: as many as these have arguments. */
typedef void AscendfxBindPlan(void* const* buffers, void** arguments);

/* The signature of ascendfx_run_<plan>. `arguments` is what the plan was bound to. Returns 0, or
   what the launch returned that failed: nothing is launched after it. */
typedef int32_t AscendfxRunPlan(const AscendfxLauncher* launcher, void* const* arguments,
                                uint32_t steps, AscendfxRun* run);

#ifdef __cplusplus
}
#endif

#endif
