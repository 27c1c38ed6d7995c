// The element loops for any host.
#define EMULATOR_TABLES PlainTables
#include "vector_loops.h"
