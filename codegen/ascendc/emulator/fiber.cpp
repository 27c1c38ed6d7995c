#include "fiber.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

// Callee-saved registers of the System V and AAPCS64 calling conventions; nothing else survives a
// call, and the switch is a call.
extern "C" void ascendfx_switch_stack(void** save, void* next);

#if defined(__x86_64__)
asm(R"(
    .text
    .type ascendfx_switch_stack, @function
    .hidden ascendfx_switch_stack
    .globl ascendfx_switch_stack
ascendfx_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size ascendfx_switch_stack, .-ascendfx_switch_stack
)");
static constexpr size_t kSavedWords = 6;
static constexpr size_t kEntryWord = 6;  // the return address
static constexpr size_t kFrameWords = 8;
#elif defined(__aarch64__)
asm(R"(
    .text
    .type ascendfx_switch_stack, %function
    .hidden ascendfx_switch_stack
    .globl ascendfx_switch_stack
ascendfx_switch_stack:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size ascendfx_switch_stack, .-ascendfx_switch_stack
)");
static constexpr size_t kSavedWords = 20;
static constexpr size_t kEntryWord = 11;  // x30
static constexpr size_t kFrameWords = 20;
#else
#error "the emulator's stack switch is written for x86-64 and aarch64"
#endif

namespace emulator {

// Whole pages of any size in use; kernels are compiled to touch every page of a large frame.
static constexpr size_t kGuardBytes = size_t{64} << 10;

void* AllocateStack() {
    void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, kGuardBytes, PROT_NONE);
    return static_cast<std::byte*>(memory) + kGuardBytes + kStackBytes;
}

bool IsGuard(const void* top, uint64_t address) {
    const uint64_t bottom = reinterpret_cast<uint64_t>(top) - kStackBytes;
    return address < bottom && address >= bottom - kGuardBytes;
}

void* PrepareStack(void* top, void (*entry)()) {
    // The entry must find the stack as after a call: 16-byte aligned before its return address.
    auto* frame = static_cast<uint64_t*>(top) - kFrameWords;
    std::memset(frame, 0, kFrameWords * sizeof(uint64_t));
    static_assert(kSavedWords <= kFrameWords);
    frame[kEntryWord] = reinterpret_cast<uint64_t>(entry);
    return frame;
}

void SwitchStack(void** save, void* next) { ascendfx_switch_stack(save, next); }

}  // namespace emulator
