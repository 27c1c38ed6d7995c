"""Record a golden directory."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.disk_error import named_as
from ascendfx.runtime.golden.golden_directory import beside, put_in_place
from ascendfx.runtime.golden.make_golden import Made, Subject, make_golden
from ascendfx.runtime.golden.moved_outputs import untrue_outputs
from ascendfx.runtime.progress import Progress, silent


def record_golden(subject: Subject, directory: Path, *, progress: Progress = silent) -> Made:
    """Compile a model and freeze what comes out.

    Args:
        subject: What is compiled.
        directory: Must not exist, or be empty; it appears when it is complete.
        progress: Told about each stage.

    Returns:
        What was made; its files are in ``directory`` by now.

    Raises:
        GraphError: The place is taken, the model cannot be compiled, or its outputs break the
            fidelity that its passes declare.
    """
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise GraphError(
            code="golden-exists",
            reason=f"{directory} has contents",
            hint="`ascendfx golden check --update` rewrites a golden directory; else choose another"
            " name",
        )
    with made_beside(subject, directory, progress) as made:
        keep(made, directory)
    return made


def keep(made: Made, directory: Path) -> None:
    """Put what was made into place, unless it is known to be wrong.

    Raises:
        GraphError: The outputs break the fidelity of the passes, or the place cannot be written.
    """
    if untrue := untrue_outputs(made.golden):
        raise GraphError(
            code="golden-not-true",
            reason=f"the outputs break the fidelity of the passes: {untrue[0]}",
            notes=tuple(untrue[1:]),
            hint="nothing was written; compile with --verify each-pass to see which pass it is",
        )
    put_in_place(made.golden.directory, directory)


@contextmanager
def made_beside(subject: Subject, directory: Path, progress: Progress) -> Generator[Made]:
    """Yield a golden directory beside another; it is deleted afterwards, unless it was moved."""
    folder = beside(directory)
    try:
        with named_as(folder, directory):
            made = make_golden(subject, folder, directory, progress=progress)
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)
