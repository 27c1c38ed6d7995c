// Block numbers of the running core, as NPU arch 2201 counts them.
#include "system.h"

#include "machine.h"

namespace emulator {

void DeclareKernelType(KernelMetaType type, Site site) {
    current->site = site;
    if (static_cast<uint32_t>(type) == static_cast<uint32_t>(launch->type)) return;
    Fault(site, PIPE_S, "arguments", 0,
          "KERNEL_TASK_TYPE_DEFAULT does not name the type the kernel was launched as");
}

int64_t BlockIdx() {
    const bool pair = launch->type == KernelType::MIX_AIC_1_2 && current->kind == CoreKind::VECTOR;
    return pair ? int64_t{current->block} * 2 + current->subBlock : current->block;
}

int64_t BlockNum() { return launch->blocks; }
int64_t SubBlockIdx() { return current->subBlock; }

int64_t SubBlockNum() {
    return launch->type == KernelType::MIX_AIC_1_2 && current->kind == CoreKind::VECTOR ? 2 : 1;
}

}  // namespace emulator
