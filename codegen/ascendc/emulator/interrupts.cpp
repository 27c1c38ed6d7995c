// Signals during a launch. Those of a mistake (a wild pointer, a division by zero) leave the fiber
// for the scheduler at once. A timer finds loops without end and makes Ctrl-C work: it asks the
// next instruction to stop, and leaves the fiber if there is none.
//
// Handlers stay installed and pass on what is not theirs; the timer runs while launches follow each
// other: a launch of 15 microseconds pays for no system call.
#include "interrupts.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstring>

#include "fiber.h"
#include "machine.h"

namespace emulator {

namespace {

constexpr int kMistakes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kTick = SIGURG;  // ignored by whoever does not ask for it
constexpr long kTickNanoseconds = 50'000'000;
// Computing without an instruction that could end the kernel in good order.
constexpr uint64_t kNanosecondsToStop = 200'000'000;
constexpr size_t kHandlerStack = 64 << 10;

struct sigaction before[65];  // by signal, of whoever had it

pthread_t thread;                   // of the running launch
std::atomic<bool> launching{false};
volatile bool inKernel = false;
std::atomic<uint64_t> launches{0};

struct {
    int signal;  // 0 = none; kTick = the kernel would not stop
    uint64_t address;
} volatile departure;

struct {
    timer_t timer;
    bool exists;
    std::atomic<bool> runs;
    uint64_t launches;       // at the last tick that found none running
    // A tick may interrupt another one: what these say is true after each of their assignments.
    volatile bool fresh;         // no tick has found this launch yet
    volatile uint64_t progress;  // at the last tick
    volatile uint64_t since;     // when `progress` was new, nanoseconds of the thread
    uint64_t patience;
    uint64_t stoppingSince;  // 0 = goes on
    bool hooked;  // SIGINT
} watch;

void PassOn(int signal, siginfo_t* info, void* context) {
    const struct sigaction& other = before[signal];
    if (other.sa_flags & SA_SIGINFO) return other.sa_sigaction(signal, info, context);
    if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) return other.sa_handler(signal);
    if (signal == kTick || signal == SIGINT) return;
    struct sigaction usual{};
    usual.sa_handler = SIG_DFL;
    sigaction(signal, &usual, nullptr);  // it happens again on return
}

void Install(int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action{};
    action.sa_sigaction = handler;
    // NODEFER: a handler that leaves for the scheduler must not leave its signal blocked.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
    sigaction(signal, &action, &before[signal]);
}

void Leave(int signal, uint64_t address) {
    departure.signal = signal;
    departure.address = address;
    inKernel = false;
    void* nowhere;
    SwitchStack(&nowhere, machine.schedulerStack);
}

bool IsOurs() { return launching && inKernel && pthread_equal(pthread_self(), thread); }

void OnMistake(int signal, siginfo_t* info, void* context) {
    if (IsOurs()) Leave(signal, reinterpret_cast<uint64_t>(info->si_addr));
    PassOn(signal, info, context);
}

void OnInterrupt(int signal, siginfo_t* info, void* context) {
    if (launching) machine.stop = Stop::INTERRUPTED;
    PassOn(signal, info, context);
}

// Only in long launches, and only above a handler: without one, SIGINT ends the process anyway.
void HookInterrupt() {
    if (watch.hooked) return;
    struct sigaction now;
    sigaction(SIGINT, nullptr, &now);
    if (!(now.sa_flags & SA_SIGINFO) && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) {
        return;
    }
    Install(SIGINT, OnInterrupt);
    watch.hooked = true;
}

void UnhookInterrupt() {
    if (!watch.hooked) return;
    watch.hooked = false;
    struct sigaction now;
    sigaction(SIGINT, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == OnInterrupt) {
        sigaction(SIGINT, &before[SIGINT], nullptr);
    }
}

void SetTimer(bool on) {
    itimerspec period{};
    if (on) period.it_interval.tv_nsec = period.it_value.tv_nsec = kTickNanoseconds;
    timer_settime(watch.timer, 0, &period, nullptr);
}

// Between launches: the timer stops if none has begun since the last tick.
void RestIfIdle() {
    if (!watch.runs) return;
    if (watch.launches != launches) {
        watch.launches = launches;
        return;
    }
    watch.runs = false;
    SetTimer(false);
    if (launching && !watch.runs.exchange(true)) SetTimer(true);
}

uint64_t ThreadTime() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// The other tick that interrupts one which has read the clock already notes a later time.
bool IsOver(uint64_t nanoseconds, uint64_t since, uint64_t now) {
    return now > since && now - since > nanoseconds;
}

void WatchLaunch() {
    HookInterrupt();
    const uint64_t progress = *const_cast<const volatile uint64_t*>(&launch->progress);
    const uint64_t now = ThreadTime();
    if (watch.fresh || watch.progress != progress) {
        watch.since = now;
        watch.progress = progress;
        watch.fresh = false;
    } else if (watch.patience != 0 && IsOver(watch.patience, watch.since, now) &&
               machine.stop == Stop::NO) {
        machine.stop = Stop::STALLED;
    }
    if (machine.stop == Stop::NO && !launch->fault.happened) return;
    if (watch.stoppingSince == 0) watch.stoppingSince = now;
    if (inKernel && IsOver(kNanosecondsToStop, watch.stoppingSince, now)) Leave(kTick, 0);
}

void OnTick(int signal, siginfo_t* info, void* context) {
    if (!launching) {
        RestIfIdle();
    } else if (pthread_equal(pthread_self(), thread)) {
        WatchLaunch();
    } else {
        pthread_kill(thread, kTick);
    }
    PassOn(signal, info, context);
}

void ForgetTimer() {  // a child process has none
    watch.exists = false;
    watch.runs = false;
}

void InstallOnce() {
    static bool installed = false;
    if (installed) return;
    installed = true;
    for (int signal : kMistakes) Install(signal, OnMistake);
    Install(kTick, OnTick);
    pthread_atfork(nullptr, nullptr, ForgetTimer);
}

// A full stack cannot take the handler of its own fault.
struct HandlerStack {
    void* memory = MAP_FAILED;

    HandlerStack() {
        stack_t now;
        if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
        memory = mmap(nullptr, kHandlerStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
        if (memory == MAP_FAILED) return;
        stack_t stack{};
        stack.ss_sp = memory;
        stack.ss_size = kHandlerStack;
        sigaltstack(&stack, nullptr);
    }
    ~HandlerStack() {
        if (memory == MAP_FAILED) return;
        stack_t now;
        if (sigaltstack(nullptr, &now) != 0 || now.ss_sp != memory) return;
        now.ss_flags = SS_DISABLE;
        sigaltstack(&now, nullptr);
        munmap(memory, kHandlerStack);
    }
};

void StartTimer() {
    if (watch.runs.exchange(true)) return;
    if (!watch.exists) {
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = kTick;
        watch.exists = timer_create(CLOCK_MONOTONIC, &event, &watch.timer) == 0;
    }
    if (watch.exists) SetTimer(true);
}

const char* NameOf(int signal) {
    switch (signal) {
        case SIGSEGV: return "SIGSEGV (a pointer outside the memory of the process)";
        case SIGBUS: return "SIGBUS (a pointer to memory that is not there)";
        case SIGFPE: return "SIGFPE (an integer division by zero, or one that overflows)";
        case SIGILL: return "SIGILL (an instruction the host does not have, or a trap)";
        default: return "SIGABRT (the C++ library gave up, or `abort` was called)";
    }
}

[[noreturn]] void SignalFault(int signal, uint64_t address) {
    const Site site = current->site;
    const bool isMemory = signal == SIGSEGV || signal == SIGBUS;
    const std::string after =
        site.line == 0 ? "before its first call"
                       : "its last call is in line " + std::to_string(site.line);
    if (isMemory && IsGuard(current->stack, address)) {
        Fault(site, PIPE_S, "host-signal", 0,
              "the kernel uses more than %zu KiB of stack; %s", kStackBytes >> 10, after.c_str());
    }
    Fault(site, PIPE_S, "host-signal", isMemory ? address : 0, "the kernel raised %s on the host; %s",
          NameOf(signal), after.c_str());
}

}  // namespace

void BeginWatch(uint32_t patience) {
    thread_local const HandlerStack stack;
    (void)stack;
    InstallOnce();
    thread = pthread_self();
    watch.patience = uint64_t{patience} * 1'000'000;
    watch.stoppingSince = 0;
    watch.fresh = true;
    machine.stop = Stop::NO;
    ++launches;
    launching = true;
    StartTimer();
}

void EndWatch() {
    launching = false;
    UnhookInterrupt();
}

void EnterKernel() {
    departure.signal = 0;
    inKernel = true;
}

bool LeaveKernel() {
    inKernel = false;
    if (departure.signal == 0) return false;
    try {
        if (departure.signal == kTick) StopFault();
        SignalFault(departure.signal, departure.address);
    } catch (const FaultException&) {
        return true;
    }
}

void StopFault() {
    if (machine.stop == Stop::INTERRUPTED) {
        Fault(current->site, PIPE_S, "interrupted", 0, "the launch was interrupted");
    }
    Fault(current->site, PIPE_S, "endless", 0,
          "no core has written anything in %llu ms of computing, the patience of this launch; is "
          "there a loop without end?",
          static_cast<unsigned long long>(watch.patience / 1'000'000));
}

}  // namespace emulator
