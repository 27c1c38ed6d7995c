// A launcher over the emulator: a kernel has ended when its launch returns, and its faults show
// there. Compiled against launch.h of the emulator's header set; runtime/emulator/runner.py fills
// the structs, so keep both in step.
#include <cstring>

#include "ascendfx_runner.h"
#include "launch.h"

namespace {

// The context of the launcher.
struct Emulator {
    LaunchRequest* kernels;  // of the plan, in its order; all but the addresses is filled in
    LaunchResult* result;    // of the last launch
};

// Addresses go into the tables of the request: `arguments` is const for the emulator, not for us.
void SetAddresses(LaunchRequest& request, void* const* pointers, uint32_t count) {
    auto* arguments = const_cast<LaunchArgument*>(request.arguments);
    for (uint32_t i = 0; i < count; ++i) {
        request.pointers[i] = pointers[i];
        arguments[i].address = pointers[i];
    }
}

int32_t Launch(const AscendfxLauncher* self, uint32_t kernel, void* const* pointers,
               uint32_t count) {
    ++self->counts->launches;
    const auto& emulator = *static_cast<const Emulator*>(self->context);
    LaunchRequest& request = emulator.kernels[kernel];
    SetAddresses(request, pointers, count);
    return ascendfx_launch(&request, emulator.result);
}

int32_t Copy(const AscendfxLauncher* self, void* to, const void* from, uint64_t bytes) {
    ++self->counts->copies;
    std::memcpy(to, from, bytes);
    return 0;
}

int32_t Sync(const AscendfxLauncher* self) {
    ++self->counts->syncs;
    return 0;
}

}  // namespace

extern "C" void ascendfx_launcher(AscendfxLauncher* launcher) {
    launcher->launch = Launch;
    launcher->copy = Copy;
    launcher->sync = Sync;
}
