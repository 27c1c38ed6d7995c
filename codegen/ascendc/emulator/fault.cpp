// Faults: who, where, what; and the names that appear in their texts.
#include <cstdarg>
#include <cstdio>

#include "machine.h"

namespace emulator {

const char* const kPipeNames[8] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};
const char* const kSpaceNames[static_cast<int>(Space::COUNT)] = {
    "GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};

std::string EventName(uint32_t pair) {
    return std::string(kPipeNames[pair >> 4]) + "_" + kPipeNames[pair & 15];
}

static std::string Print(const char* format, va_list arguments) {
    char text[1024];
    std::vsnprintf(text, sizeof text, format, arguments);
    return text;
}

static std::string NameOf(CoreKind kind, uint32_t subBlock) {
    if (kind == CoreKind::CUBE) return "AIC";
    const bool mixed = launch->type == KernelType::MIX_AIC_1_2;
    return mixed ? "AIV" + std::to_string(subBlock) : "AIV";
}

std::string CoreName(const Core& core) { return NameOf(core.kind, core.subBlock); }

std::string PlaceOf(uint32_t logical) {
    const Role role = RoleOf(logical);
    return NameOf(role.kind, role.subBlock) + " of block " + std::to_string(role.block);
}

void Fault(Site site, pipe_t pipe, const char* kind, uint64_t address, const char* format, ...) {
    FaultRecord& fault = launch->fault;
    if (!fault.happened) {
        va_list arguments;
        va_start(arguments, format);
        fault.text = Print(format, arguments);
        va_end(arguments);
        fault.happened = true;
        fault.kind = kind;
        fault.core = current ? CoreName(*current) : "";
        fault.block = current ? current->block : 0;
        fault.pipe = pipe;
        fault.line = site.line;
        fault.file = site.file ? site.file : "";
        fault.address = address;
    }
    throw FaultException{};
}

std::string DescribeInstruction(const Core& core, uint32_t pipe, uint32_t clock) {
    const auto& log = core.log[pipe];
    std::string text = kPipeNames[pipe];
    if (log.empty() || core.clock[pipe] - clock >= kLogged) return text + " (an early instruction)";
    const LogEntry& entry = log[clock % kLogged];
    return text + " " + entry.name + " in line " + std::to_string(entry.site.line);
}

std::string OrderingBetween(uint32_t earlierPipe, uint32_t laterPipe) {
    if (earlierPipe == laterPipe) {
        return std::string("PipeBarrier<PIPE_") + kPipeNames[earlierPipe] + "> or other barrier";
    }
    return EventName(earlierPipe << 4 | laterPipe) + " event, queue hand-over or barrier";
}

uint64_t OffsetInRegion(uint64_t address) {
    const Region* region = FindRegion(address);
    return region == nullptr ? address : address - region->begin;
}

std::string DescribeAddress(const Range& range, uint64_t address) {
    char text[160];
    if (range.space != Space::GLOBAL) {
        std::snprintf(text, sizeof text, "%s byte %llu", kSpaceNames[static_cast<int>(range.space)],
                      static_cast<unsigned long long>(address));
        return text;
    }
    const Region* region = FindRegion(address);
    if (region == nullptr) return "a global address outside every argument";
    std::snprintf(text, sizeof text, "byte %llu of argument `%s`",
                  static_cast<unsigned long long>(address - region->begin),
                  launch->argumentNames[region->argument]);
    return text;
}

}  // namespace emulator
