"""Emit the C++ text that launches a plan, step after step, without its caller in between."""

from collections.abc import Iterable, Iterator

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, Place

HEADER = "ascendfx_runner.h"
"""The header beside this file that every runner includes."""
VERSION = 2
"""``ASCENDFX_RUNNER_VERSION`` of that header."""

_COLUMNS = 96  # of a line inside one brace


def entry_name(plan: LaunchPlan) -> str:
    """Return the ``extern "C"`` symbol of a plan's runner."""
    return f"ascendfx_run_{plan.name}"


def bind_name(plan: LaunchPlan) -> str:
    """Return the ``extern "C"`` symbol that finds the addresses for it."""
    return f"ascendfx_bind_{plan.name}"


def runner_file(plan: LaunchPlan) -> str:
    """Return the file name of a plan's runner."""
    return f"run_{plan.name}.cpp"


def emit_runner(plan: LaunchPlan) -> str:
    """Return the text: two tables and a loop over each.

    It refers to kernels and buffers by their places in the plan, so it fits no other plan.
    """
    out = CppWriter()
    out.line(
        f"// {entry_name(plan)}: launches plan `{plan.name}`, {len(plan.launches)} launches of "
        f"{len(plan.kernels)} kernels over {len(plan.buffers)} buffers, as often as it is told."
    )
    out.line("// Between two launches there is no allocation, lock, output, copy or wait.")
    out.line(f'#include "{HEADER}"')
    out.line()
    same = f"ASCENDFX_RUNNER_VERSION == {VERSION}"
    out.line(f'static_assert({same}, "emitted for another version of {HEADER}");')
    out.line()
    out.line("namespace {")
    out.line()
    _write_tables(out, plan)
    out.lines(_STEP.split("\n"))
    out.line("}  // namespace")
    out.line()
    head = f'extern "C" void {bind_name(plan)}('
    with out.block(f"{head}void* const* buffers, void** arguments)"):
        out.lines(_BIND.strip().split("\n"))
    out.line()
    head = f'extern "C" int32_t {entry_name(plan)}('
    parameters = "const AscendfxLauncher* launcher, void* const* arguments, "
    with out.block(f"{head}{parameters}uint32_t steps, AscendfxRun* run)"):
        out.lines(_BODY.strip().split("\n"))
    return out.text()


def _write_tables(out: CppWriter, plan: LaunchPlan) -> None:
    arguments = sum(len(launch.arguments) for launch in plan.launches)
    out.line(f"constexpr uint32_t kLaunchCount = {len(plan.launches)};")
    out.line(f"constexpr uint32_t kArgumentCount = {arguments};")
    out.line()
    with out.block("struct Launch", close="};"):
        out.line("uint32_t kernel;     // index into the kernels of the plan")
        out.line("uint32_t arguments;  // how many")
    out.line()
    with out.block("struct Argument", close="};"):
        out.line("uint32_t buffer;  // index into the buffers of the plan")
        out.line("uint64_t offset;  // bytes from its start")
    out.line()
    kernels = {kernel.name: i for i, kernel in enumerate(plan.kernels)}
    buffers = {buffer.name: i for i, buffer in enumerate(plan.buffers)}
    with out.block("constexpr Launch kLaunches[kLaunchCount + 1] =", close="};"):
        out.lines(_filled((kernels[each.kernel], len(each.arguments)) for each in plan.launches))
        out.line("{0, 0},  // the end")
    out.line()
    out.line("// Of all launches, one after the other. Buffers shared with the host:")
    shared = plan.of_place(Place.CONTROL)
    out.line("// " + ", ".join(f"{buffers[each.name]} {each.name}" for each in shared))
    with out.block("constexpr Argument kArguments[kArgumentCount + 1] =", close="};"):
        for i, launch in enumerate(plan.launches):
            out.line(f"// {i} {_comment(f'{launch.kernel}: {launch.label}')}")
            out.lines(_filled((buffers[a.buffer], a.byte_offset) for a in launch.arguments))
        out.line("{0, 0},  // the end")


def _comment(text: str) -> str:
    """Return ``text`` as one line that does not join the next one to the comment."""
    return " ".join(text.split()).rstrip("\\")


def _filled(pairs: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Yield lines of initialisers, as many on each as fit."""
    line = ""
    for first, second in pairs:
        item = f"{{{first}, {second}}},"
        if line and len(line) + 1 + len(item) > _COLUMNS:
            yield line
            line = ""
        line = f"{line} {item}" if line else item
    if line:
        yield line


_STEP = """
// Launches every kernel once. Returns 0, or the status of the launch that failed and its index.
int32_t RunStep(const AscendfxLauncher* launcher, void* const* arguments, uint32_t* failed) {
    for (uint32_t launch = 0; launch < kLaunchCount; ++launch) {
        const uint32_t count = kLaunches[launch].arguments;
        const int32_t status =
            launcher->launch(launcher, kLaunches[launch].kernel, arguments, count);
        if (status != 0) {
            *failed = launch;
            return status;
        }
        arguments += count;
    }
    return 0;
}
"""

_BIND = """
for (uint32_t i = 0; i < kArgumentCount; ++i) {
    arguments[i] = static_cast<char*>(buffers[kArguments[i].buffer]) + kArguments[i].offset;
}
"""

_BODY = """
const AscendfxCounts before = *launcher->counts;
*run = AscendfxRun{};
int32_t status = 0;
while (run->steps < steps) {
    status = RunStep(launcher, arguments, &run->launch);
    if (status != 0) break;
    ++run->steps;
}
run->counts.launches = launcher->counts->launches - before.launches;
run->counts.copies = launcher->counts->copies - before.copies;
run->counts.syncs = launcher->counts->syncs - before.syncs;
return status;
"""
