// Vector instructions. Source: asc-devkit 9.1, API/Memory矢量计算, one page per call.
#ifndef ASCENDFX_EMULATOR_VECTOR_H
#define ASCENDFX_EMULATOR_VECTOR_H

#include "vector_arithmetic.h"
#include "vector_cast.h"
#include "vector_compare.h"
#include "vector_fill.h"
#include "vector_gather.h"
#include "vector_reduce.h"
#include "vector_sort.h"

#endif
