// Compile-time switches (see runtime/emulator/checks.py); everything is on by default. For units
// that ask for them alone: what does not name a switch is compiled once for both its settings.
#ifndef ASCENDFX_EMULATOR_CHECKS_H
#define ASCENDFX_EMULATOR_CHECKS_H

#ifndef EMULATOR_RACES
#define EMULATOR_RACES 1
#endif
#ifndef EMULATOR_POISON
#define EMULATOR_POISON 1
#endif

#endif
