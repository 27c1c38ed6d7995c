"""Compile a few texts to one shared object of the cache."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ascendfx.runtime.emulator.kernel_cache import is_intact, publish, scratch_directory
from ascendfx.runtime.emulator.toolchain import cache_not_writable, run_compiler, wrote_nothing


def build_object(
    entry: Path, files: Mapping[str, str], arguments: Sequence[str], compiler: str, subject: str
) -> Path:
    """Return ``entry``, compiling it first if the cache does not have it.

    Args:
        entry: Where it belongs; named by the hash of everything that decides its contents.
        files: Texts by file name, written to an empty folder where the compiler runs.
        arguments: Of the compiler, the names of the units among them, without the output.
        compiler: Path of the compiler.
        subject: What is compiled, for messages.

    Raises:
        GraphError: It does not compile, or the cache cannot be written.
    """
    if is_intact(entry):
        return entry
    with scratch_directory(entry.parent) as scratch:
        try:
            for name, text in files.items():
                (scratch / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise cache_not_writable(scratch, error.strerror or str(error)) from error
        run_compiler(compiler, [*arguments, "-o", "built.so"], scratch, subject)
        if not (scratch / "built.so").is_file():
            raise wrote_nothing(compiler, subject)
        publish(scratch / "built.so", entry)
    return entry
