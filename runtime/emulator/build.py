"""Turn emitted kernels into shared objects: one emulator library, then one object per kernel."""

import os
import platform
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import ascendfx.codegen.ascendc.emulator as header_set
from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.codegen.ascendc.target import Target
from ascendfx.runtime.emulator.checks import Checks
from ascendfx.runtime.emulator.kernel_cache import (
    content_key,
    default_cache_dir,
    exclusive,
    is_intact,
    publish,
    scratch_directory,
)
from ascendfx.runtime.emulator.launch import BuiltKernel
from ascendfx.runtime.emulator.toolchain import (
    KERNEL_FLAGS,
    RUNTIME_FLAGS,
    cache_not_writable,
    compiler_version,
    find_compiler,
    run_compiler,
)

Progress = Callable[[str, int, int], None]
"""Called with a kernel's name, how many are ready, and how many there are."""

_HEADER = "kernel_operator.h"
_ENTRY = "ascendfx_entry"


@dataclass(frozen=True, slots=True)
class EmulatorLibrary:
    """The compiled emulator and everything kernels are compiled against.

    Attributes:
        directory: Folder with the library, the headers and the precompiled header.
        path: The shared object.
        compiler: Path of ``g++``.
        key: Content hash; part of the key of every kernel.
        flags: Definitions of the checks.
    """

    directory: Path
    path: Path
    compiler: str
    key: str
    flags: tuple[str, ...]


def build_kernels(
    kernels: Sequence[Kernel],
    target: Target,
    *,
    cache_dir: Path | None = None,
    checks: Checks | None = None,
    progress: Progress | None = None,
) -> dict[str, BuiltKernel]:
    """Compile ``kernels`` in parallel, taking from the cache what it has.

    Args:
        kernels: With distinct names.
        target: Chip whose capacities the launches check.
        cache_dir: Folder of compiled files; default: the user's cache folder.
        checks: What the emulator checks; default: everything.
        progress: Called after each kernel, from the calling thread.

    Returns:
        The launchable kernels by name.

    Raises:
        GraphError: No compiler, a kernel does not compile, or the cache cannot be written.
    """
    library = build_library(cache_dir or default_cache_dir(), checks or Checks())
    entries: dict[str, Path] = {}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        futures = [pool.submit(_build_kernel, kernel, library) for kernel in kernels]
        try:
            for done, (kernel, future) in enumerate(zip(kernels, futures, strict=True), start=1):
                entries[kernel.name] = future.result()
                if progress is not None:
                    progress(kernel.name, done, len(kernels))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return {
        kernel.name: BuiltKernel(kernel, target, entries[kernel.name], library.path)
        for kernel in kernels
    }


def build_library(cache_dir: Path, checks: Checks) -> EmulatorLibrary:
    """Compile the emulator itself, unless the cache has it.

    Raises:
        GraphError: No compiler, or the cache cannot be written.
    """
    compiler = find_compiler()
    sources = _emulator_sources()
    flags = checks.flags()
    texts = [text for name in sorted(sources) for text in (name, sources[name])]
    key = content_key(
        compiler_version(compiler), platform.machine(), *KERNEL_FLAGS, *RUNTIME_FLAGS, *flags, *texts
    )
    directory = cache_dir / "emulator" / key
    library = EmulatorLibrary(directory, directory / _library_name(key), compiler, key, flags)
    if not is_intact(library.path):
        with exclusive(cache_dir / "emulator" / "lock"):
            if not is_intact(library.path):
                _compile_library(library, sources)
    return library


def _emulator_sources() -> dict[str, str]:
    folder = Path(header_set.__file__).parent
    paths = [*folder.glob("*.h"), *folder.glob("*.cpp")]
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def _library_name(key: str) -> str:
    return f"libascendfx_emulator_{key}.so"


def _compile_library(library: EmulatorLibrary, sources: dict[str, str]) -> None:
    with scratch_directory(library.directory.parent) as scratch:
        try:
            for name, text in sources.items():
                (scratch / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise cache_not_writable(scratch, error.strerror or str(error)) from error
        units = sorted(name for name in sources if name.endswith(".cpp"))
        jobs = [
            [*RUNTIME_FLAGS, *library.flags, "-c", unit, "-o", f"{unit}.o"] for unit in units
        ]
        jobs.append([*KERNEL_FLAGS, *library.flags, "-x", "c++-header", _HEADER, "-o", f"{_HEADER}.gch"])
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            for future in [
                pool.submit(run_compiler, library.compiler, job, scratch, "the emulator")
                for job in jobs
            ]:
                future.result()
        objects = [f"{unit}.o" for unit in units]
        name = library.path.name
        link = ["-shared", f"-Wl,-soname,{name}", "-Wl,--no-undefined", "-o", name, *objects]
        run_compiler(library.compiler, link, scratch, "the emulator")
        _install(scratch, library, [*sources, f"{_HEADER}.gch"])


def _install(scratch: Path, library: EmulatorLibrary, names: Sequence[str]) -> None:
    try:
        library.directory.mkdir(parents=True, exist_ok=True)
        for name in names:
            if not name.endswith(".cpp"):
                (scratch / name).replace(library.directory / name)
    except OSError as error:
        raise cache_not_writable(library.directory, error.strerror or str(error)) from error
    publish(scratch / library.path.name, library.path)  # last: it marks the folder as complete


def _build_kernel(kernel: Kernel, library: EmulatorLibrary) -> Path:
    key = content_key(library.key, kernel.name, str(len(kernel.arguments)), kernel.source)
    entry = library.directory / f"{kernel.name[:80]}-{key}.so"
    if is_intact(entry):
        return entry
    arguments = ", ".join(f"(GM_ADDR)pointers[{i}]" for i in range(len(kernel.arguments)))
    text = (
        f'#include "{_HEADER}"\n#include "{kernel.name}.cpp"\n'
        f'extern "C" void {_ENTRY}(void** pointers) {{ (void)pointers; {kernel.name}({arguments}); }}\n'
    )
    with scratch_directory(library.directory) as scratch:
        try:
            (scratch / f"{kernel.name}.cpp").write_text(kernel.source, encoding="utf-8")
            (scratch / "entry.cpp").write_text(text, encoding="utf-8")
        except OSError as error:
            raise cache_not_writable(scratch, error.strerror or str(error)) from error
        command = [*KERNEL_FLAGS, *library.flags, f"-I{library.directory.resolve()}", "-shared"]
        command += ["-Wl,--no-undefined", "-o", "kernel.so", "entry.cpp", str(library.path.resolve())]
        run_compiler(library.compiler, command, scratch, f"kernel `{kernel.name}`")
        publish(scratch / "kernel.so", entry)
    return entry
