// Entry of the emulator's header set: what emitted kernels include.
#ifndef ASCENDFX_EMULATOR_KERNEL_OPERATOR_H
#define ASCENDFX_EMULATOR_KERNEL_OPERATOR_H

#include "copy.h"
#include "host_calls.h"
#include "queue.h"
#include "sync.h"
#include "system.h"
#if __has_include("vector.h")
#include "vector.h"  // vector instructions
#endif
#if __has_include("cube_operator.h")
#include "cube_operator.h"  // cube instructions: ND to NZ copy, LoadData, Mmad, Fixpipe
#endif

#endif
