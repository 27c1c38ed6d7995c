"""Compile the emulator itself: one shared object and one precompiled header per kind of checks.

Three things are kept apart, so that little is built again when a source changes: the objects (by
the text of their unit and of every header it includes), the library (by its objects), and the
header set with its precompiled header, against which kernels are compiled.
"""

import functools
import os
import platform
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import ascendfx.codegen.ascendc.emulator as header_set
from ascendfx.runtime.emulator.checks import Checks
from ascendfx.runtime.emulator.kernel_cache import (
    content_key,
    exclusive,
    is_intact,
    publish,
    remove_left_behind,
    scratch_directory,
)
from ascendfx.runtime.emulator.toolchain import (
    KERNEL_FLAGS,
    RUNTIME_FLAGS,
    cache_not_writable,
    compiler_version,
    find_compiler,
    run_compiler,
)

HEADER = "kernel_operator.h"
_PRECOMPILED = f"{HEADER}.gch"
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_SUBJECT = "the emulator"


@dataclass(frozen=True, slots=True)
class EmulatorLibrary:
    """The compiled emulator and everything kernels are compiled against.

    Attributes:
        path: The shared object.
        headers: Folder with the headers and the precompiled header; compiled kernels go there.
        compiler: Path of ``g++``.
        key: Hash of the headers, the flags and the compiler; part of the key of every kernel.
        flags: Definitions of the checks.
    """

    path: Path
    headers: Path
    compiler: str
    key: str
    flags: tuple[str, ...]

    @property
    def soname(self) -> str:
        """The name by which kernels ask for the library.

        The dynamic loader resolves it to the library that is already loaded, wherever its file is.
        """
        return f"libascendfx_emulator_{self.key}.so"


def build_library(cache_dir: Path, checks: Checks) -> EmulatorLibrary:
    """Compile the emulator, taking from the cache what it has.

    Raises:
        GraphError: No compiler, or the cache cannot be written.
    """
    compiler = find_compiler()
    sources = _emulator_sources()
    flags = checks.flags()
    host = (compiler_version(compiler), platform.machine())
    headers = [
        text for name, text in sources.items() if name.endswith(".h") for text in (name, text)
    ]
    units = [
        text for name, text in sources.items() if name.endswith(".cpp") for text in (name, text)
    ]
    key = content_key(*host, *KERNEL_FLAGS, *flags, *headers)
    root = cache_dir / "emulator"
    remove_left_behind(root)
    library_key = content_key(key, *RUNTIME_FLAGS, *units)
    library = EmulatorLibrary(
        root / "libraries" / f"libascendfx_emulator_{library_key}.so",
        root / key,
        compiler,
        key,
        flags,
    )
    marker = library.headers / "complete"
    if not (is_intact(library.path) and is_intact(marker)):
        with exclusive(root / "lock"):
            if not is_intact(marker):
                _build_headers(library, sources, marker)
            if not is_intact(library.path):
                _link(library, _build_objects(library, sources, host), root)
    return library


@functools.cache
def _emulator_sources() -> Mapping[str, str]:
    """Return the emulator's files by name; read once, so that one process uses one version."""
    folder = Path(header_set.__file__).parent
    paths = sorted([*folder.glob("*.h"), *folder.glob("*.cpp")])
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def _write_sources(scratch: Path, sources: Mapping[str, str]) -> None:
    try:
        for name, text in sources.items():
            (scratch / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise cache_not_writable(scratch, error.strerror or str(error)) from error


def _build_headers(library: EmulatorLibrary, sources: Mapping[str, str], marker: Path) -> None:
    names = [name for name in sources if name.endswith(".h")]
    with scratch_directory(library.headers.parent) as scratch:
        _write_sources(scratch, {name: sources[name] for name in names})
        command = [*KERNEL_FLAGS, *library.flags, "-x", "c++-header", HEADER, "-o", _PRECOMPILED]
        run_compiler(library.compiler, command, scratch, _SUBJECT)
        try:
            library.headers.mkdir(parents=True, exist_ok=True)
            for name in (*names, _PRECOMPILED):
                (scratch / name).replace(library.headers / name)
            (scratch / marker.name).touch()
        except OSError as error:
            raise cache_not_writable(library.headers, error.strerror or str(error)) from error
        publish(scratch / marker.name, marker)  # last: it marks the folder as complete


def _included(name: str, sources: Mapping[str, str], seen: set[str]) -> set[str]:
    """Return ``name`` and every file of the set it includes, directly or not."""
    if name in seen or name not in sources:
        return seen
    seen.add(name)
    for header in _INCLUDE.findall(sources[name]):
        _included(header, sources, seen)
    return seen


def _unit_flags(unit: str) -> tuple[str, ...]:
    """Return the flags of one source file; only ``*_avx2.cpp`` may use AVX2, on hosts of x86."""
    wide = unit.endswith("_avx2.cpp") and platform.machine() == "x86_64"
    return (*RUNTIME_FLAGS, "-mavx2", "-mf16c") if wide else RUNTIME_FLAGS


def _definitions_for(texts: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return the definitions that a unit names: whoever differs in others takes the same object."""
    names = [flag.removeprefix("-D").partition("=")[0] for flag in flags]
    return [
        flag for flag, name in zip(flags, names, strict=True) if any(name in text for text in texts)
    ]


def _build_objects(
    library: EmulatorLibrary, sources: Mapping[str, str], host: tuple[str, ...]
) -> list[Path]:
    folder = library.headers.parent / "objects"

    def build(unit: str) -> Path:
        files = sorted(_included(unit, sources, set()))
        texts = [text for name in files for text in (name, sources[name])]
        flags = (*_unit_flags(unit), *_definitions_for(texts, library.flags))
        entry = folder / f"{content_key(*host, *flags, *texts)}.o"
        if is_intact(entry):
            return entry
        with scratch_directory(folder) as scratch:
            _write_sources(scratch, {name: sources[name] for name in files})
            run_compiler(library.compiler, [*flags, "-c", unit, "-o", "unit.o"], scratch, _SUBJECT)
            publish(scratch / "unit.o", entry)
        return entry

    units = [name for name in sources if name.endswith(".cpp")]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return list(pool.map(build, units))


def _link(library: EmulatorLibrary, objects: list[Path], root: Path) -> None:
    with scratch_directory(root / "libraries") as scratch:
        command = ["-shared", f"-Wl,-soname,{library.soname}", "-Wl,--no-undefined"]
        command += ["-o", "library.so", *(str(path.resolve()) for path in objects)]
        command += ["-pthread", "-lrt"]  # of older C libraries: threads and timers
        run_compiler(library.compiler, command, scratch, _SUBJECT)
        publish(scratch / "library.so", library.path)
