// The instructions of cube cores.
#ifndef ASCENDFX_EMULATOR_CUBE_OPERATOR_H
#define ASCENDFX_EMULATOR_CUBE_OPERATOR_H

#include "cube_copy.h"
#include "cube_fixpipe.h"
#include "cube_load.h"
#include "cube_mmad.h"
#include "cube_params.h"

#endif
