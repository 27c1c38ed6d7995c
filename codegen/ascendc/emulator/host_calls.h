// Calls of the C library that would end Python with the kernel. A kernel has no host to end, so
// they do not compile.
#ifndef ASCENDFX_EMULATOR_HOST_CALLS_H
#define ASCENDFX_EMULATOR_HOST_CALLS_H

#define EMULATOR_NO_HOST_CALL \
    __attribute__((noreturn, error("a kernel ends by returning; the chip has no such call")))

extern "C" {
void abort() noexcept EMULATOR_NO_HOST_CALL;
void exit(int) noexcept EMULATOR_NO_HOST_CALL;
void quick_exit(int) noexcept EMULATOR_NO_HOST_CALL;
void _Exit(int) noexcept EMULATOR_NO_HOST_CALL;
void _exit(int) EMULATOR_NO_HOST_CALL;
}

#endif
