"""Compile plan runners and launchers against ``ascendfx_runner.h``, through the cache."""

import ctypes
import functools
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import ascendfx.codegen.ascendc.runner as runner_folder
from ascendfx.codegen.ascendc.runner.emit_runner import HEADER
from ascendfx.runtime.emulator.kernel_cache import content_key
from ascendfx.runtime.emulator.library import EmulatorLibrary
from ascendfx.runtime.emulator.shared_object import build_object
from ascendfx.runtime.emulator.toolchain import (
    COMMON_FLAGS,
    KERNEL_LINK_FLAGS,
    compiler_version,
    find_compiler,
)

_FLAGS = (*COMMON_FLAGS, "-O2", "-Wall", "-Wextra")


@functools.cache
def runner_sources() -> Mapping[str, str]:
    """Return the header and the launchers by file name; read once, like the emulator's files."""
    folder = Path(runner_folder.__file__).parent
    paths = sorted([*folder.glob("*.h"), *folder.glob("*.cpp")])
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


@dataclass(frozen=True, slots=True)
class RunnerTools:
    """How runners and launchers are compiled.

    Attributes:
        compiler: Path of ``g++``.
        key: Hash of the compiler, and of the emulator's headers if there is an emulator.
        folder: Where compiled files are kept.
        library: The emulator that launchers may call.
    """

    compiler: str
    key: str
    folder: Path
    library: EmulatorLibrary | None = None

    def build(self, name: str, text: str) -> ctypes.CDLL:
        """Compile and load one file.

        Raises:
            GraphError: It does not compile, or the cache cannot be written.
        """
        files = {HEADER: runner_sources()[HEADER], name: text}
        arguments = [*_FLAGS, name, *KERNEL_LINK_FLAGS]
        if self.library:
            arguments += [f"-I{self.library.headers.resolve()}", str(self.library.path.resolve())]
        key = content_key(self.key, *_FLAGS, *KERNEL_LINK_FLAGS, *files.values())
        entry = self.folder / f"{Path(name).stem[:80]}-{key}.so"
        return ctypes.CDLL(str(build_object(entry, files, arguments, self.compiler, f"`{name}`")))


def tools_beside(library: EmulatorLibrary) -> RunnerTools:
    """Return the tools for runners over the emulator."""
    return RunnerTools(library.compiler, library.key, library.headers.parent / "runners", library)


def tools_of_host(cache_dir: Path) -> RunnerTools:
    """Return the tools for runners that launch nothing.

    Raises:
        GraphError: There is no compiler.
    """
    compiler = find_compiler()
    key = content_key(compiler_version(compiler), platform.machine())
    return RunnerTools(compiler, key, cache_dir / "emulator" / "runners")
