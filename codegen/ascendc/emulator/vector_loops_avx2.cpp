// The element loops for hosts with AVX2 (build.py compiles *_avx2.cpp with -mavx2 on x86-64).
#if defined(__AVX2__)
#define EMULATOR_TABLES Avx2Tables
#include "vector_loops.h"
#endif
