"""Turn emitted kernels into shared objects, in parallel and through the cache."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.codegen.ascendc.target import Target
from ascendfx.runtime.emulator.checks import Checks
from ascendfx.runtime.emulator.kernel_cache import content_key, default_cache_dir
from ascendfx.runtime.emulator.launch import BuiltKernel
from ascendfx.runtime.emulator.library import HEADER, EmulatorLibrary, build_library
from ascendfx.runtime.emulator.shared_object import build_object
from ascendfx.runtime.emulator.toolchain import KERNEL_FLAGS, KERNEL_LINK_FLAGS
from ascendfx.runtime.progress import Progress, silent

_ENTRY = "ascendfx_entry"


def build_kernels(
    kernels: Sequence[Kernel],
    target: Target,
    *,
    cache_dir: Path | None = None,
    checks: Checks | None = None,
    progress: Progress = silent,
) -> dict[str, BuiltKernel]:
    """Compile ``kernels`` in parallel, taking from the cache what it has.

    Args:
        kernels: With distinct names.
        target: Chip whose capacities the launches check.
        cache_dir: Folder of compiled files; default: the user's cache folder.
        checks: What the emulator checks; default: everything.
        progress: Told about ``build kernels`` after each one, from the calling thread.

    Returns:
        The launchable kernels by name.

    Raises:
        GraphError: No compiler, a kernel does not compile, or the cache cannot be written.
    """
    progress("build kernels", 0, len(kernels))
    library = build_library(cache_dir or default_cache_dir(), checks or Checks())
    entries: dict[str, Path] = {}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        futures = [pool.submit(_build_kernel, kernel, library) for kernel in kernels]
        try:
            for done, (kernel, future) in enumerate(zip(kernels, futures, strict=True), start=1):
                entries[kernel.name] = future.result()
                progress("build kernels", done, len(kernels))
        finally:
            pool.shutdown(cancel_futures=True)  # after a failure, what waits is not begun
    return {
        kernel.name: BuiltKernel(kernel, target, entries[kernel.name], library)
        for kernel in kernels
    }


def _entry_text(kernel: Kernel) -> str:
    """Return the unit that is compiled: the kernel and a call of it with an array of pointers."""
    arguments = ", ".join(f"(GM_ADDR)pointers[{i}]" for i in range(len(kernel.arguments)))
    return (
        f'#include "{HEADER}"\n'
        f'#include "{kernel.name}.cpp"\n'
        f'extern "C" void {_ENTRY}(void** pointers) {{\n'
        "    (void)pointers;\n"
        f"    {kernel.name}({arguments});\n"
        "}\n"
    )


def _build_kernel(kernel: Kernel, library: EmulatorLibrary) -> Path:
    key = content_key(
        library.key, *KERNEL_LINK_FLAGS, kernel.name, _entry_text(kernel), kernel.source
    )
    entry = library.headers / f"{kernel.name[:80]}-{key}.so"
    unit = f"{_ENTRY}.cpp"
    files = {f"{kernel.name}.cpp": kernel.source, unit: _entry_text(kernel)}
    arguments = [*KERNEL_FLAGS, *library.flags, f"-I{library.headers.resolve()}", unit]
    arguments += [*KERNEL_LINK_FLAGS, str(library.path.resolve())]
    return build_object(entry, files, arguments, library.compiler, f"kernel `{kernel.name}`")
