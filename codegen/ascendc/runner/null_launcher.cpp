// A launcher that launches nothing: what a run over it takes is everything that is not a kernel.
#include "ascendfx_runner.h"

namespace {

int32_t Launch(const AscendfxLauncher* self, uint32_t, void* const*, uint32_t) {
    ++self->counts->launches;
    return 0;
}

int32_t Copy(const AscendfxLauncher* self, void*, const void*, uint64_t) {
    ++self->counts->copies;
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
