// Who am I: kernel type, block numbers, core kind.
// Source: asc-devkit 9.1, API/工具接口/系统资源与变量, API/Kernel-Tiling/设置Kernel类型.
#ifndef ASCENDFX_EMULATOR_SYSTEM_H
#define ASCENDFX_EMULATOR_SYSTEM_H

#include "tensor.h"

// In the order of emulator::KernelType and of runtime/emulator/launch.py.
enum KernelMetaType {
    KERNEL_TYPE_AIV_ONLY,
    KERNEL_TYPE_AIC_ONLY,
    KERNEL_TYPE_MIX_AIV_1_0,
    KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2,
};

#define KERNEL_TASK_TYPE_DEFAULT(type) ::emulator::DeclareKernelType(::type)

// `if ASCEND_IS_AIC { ... }`, without parentheses as on the device: the macro brings its own, and
// `if (ASCEND_IS_AIC)` does not compile.
#define ASCEND_IS_AIC (const bool ascendIsAic = ::emulator::OnCubeCore(); ascendIsAic)
#define ASCEND_IS_AIV (const bool ascendIsAiv = ::emulator::OnVectorCore(); ascendIsAiv)
#define ASCEND_IS_NOT_AIC (const bool ascendIsAic = ::emulator::OnCubeCore(); !ascendIsAic)
#define ASCEND_IS_NOT_AIV (const bool ascendIsAiv = ::emulator::OnVectorCore(); !ascendIsAiv)

namespace emulator {

void DeclareKernelType(KernelMetaType type, Site site = Site::Here());
int64_t BlockIdx();
int64_t BlockNum();
int64_t SubBlockIdx();
int64_t SubBlockNum();

}  // namespace emulator

namespace AscendC {

inline int64_t GetBlockIdx() { return emulator::BlockIdx(); }
inline int64_t GetBlockNum() { return emulator::BlockNum(); }
inline int64_t GetSubBlockIdx() { return emulator::SubBlockIdx(); }
inline int64_t GetSubBlockNum() { return emulator::SubBlockNum(); }

}  // namespace AscendC

#endif
