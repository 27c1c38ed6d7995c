"""Read a dump directory, made by another process and perhaps on another day."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.located import parse_located
from ascendfx.passes.close_step import CloseStep
from ascendfx.passes.describe_pass import PassForm
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.verification.stage_name import StageName, parse_stage
from ascendfx.runtime.dumps.dump_header import (
    HASHES,
    HEADER,
    INDEX,
    INPUT_PROGRAM,
    PLAN,
    DumpHeader,
    damaged_dump,
    pass_file,
    read_header,
)
from ascendfx.runtime.dumps.json_file import read_json_file
from ascendfx.runtime.shown_error import shown_error


@dataclass(frozen=True, slots=True)
class DumpedPass:
    """One pass of a stage.

    Attributes:
        number: Its place in the stage, from 1.
        file: Name of the file of the program after it.
        form: How to make the pass again.
        fidelity: What the pass promises.
        statistics: Counts by name.
        remarks: Near misses.
        changed: Whether it did anything.
        broken: What the compilation found to break the fidelity; empty if nothing.
        measured: Whether the compilation compared the program after it.
    """

    number: int
    file: str
    form: PassForm
    fidelity: Fidelity
    statistics: Mapping[str, int]
    remarks: tuple[str, ...]
    changed: bool
    broken: str = ""
    measured: bool = False

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.form.name


@dataclass(frozen=True)
class DumpedStage:
    """A folder of programs.

    Attributes:
        name: ``serving``, ``decode`` or ``prefill``, and those of draft layers.
        directory: The folder.
        passes: In order.
    """

    name: str
    directory: Path
    passes: tuple[DumpedPass, ...]

    @property
    def at(self) -> StageName:
        """Whose programs they are, and for which plan."""
        return parse_stage(self.name)

    @property
    def on_tokens(self) -> tuple[DumpedPass, ...]:
        """The passes whose programs can be run on texts: those before the step is closed.

        A closed step chooses its tokens itself, and a draft layer reads hidden states.
        """
        if self.at.layer is not None:
            return ()
        names = [each.name for each in self.passes]
        return self.passes[: names.index(CloseStep.name) if CloseStep.name in names else None]

    def program(self, number: int) -> Program:
        """Return the program after so many passes; 0 is what the stage was given.

        It is read, not verified: a dump may hold what a broken pass made.

        Raises:
            GraphError: The file is missing, cut off, or no program.
        """
        name = self.passes[number - 1].file if number else INPUT_PROGRAM
        file = self.directory / name
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise damaged_dump(file, f"it cannot be read: {error}") from error
        return parse_located(text, file=str(file))


@dataclass(frozen=True)
class Dump:
    """A dump directory.

    Attributes:
        directory: The folder.
        header: What it says of the compilation.
    """

    directory: Path
    header: DumpHeader

    @cached_property
    def stages(self) -> tuple[DumpedStage, ...]:
        """The stages that the compilation reached, in order.

        Raises:
            GraphError: An index is missing or says nonsense.
        """
        return tuple(
            _read_stage(self.directory / name)
            for name in self.header.stages
            if (self.directory / name).is_dir()
        )

    @property
    def unfinished(self) -> GraphError | None:
        """What is missing at the end if the compilation was stopped; None if it came to its end.

        What such a dump has may be looked at; that nothing is wrong with the whole it cannot show.
        """
        for name in self.header.stages:
            folder = self.directory / name
            if not folder.is_dir():
                return self._ended(f"it has no stage `{name}`, which {HEADER} names")
            at = parse_stage(name)
            lowered = at.layer is None and at.plan
            if lowered and not all((folder / each).is_file() for each in (PLAN, HASHES)):
                return self._ended(f"its stage `{name}` has no plan with kernels")
        return None

    def _ended(self, what: str) -> GraphError:
        return GraphError(
            "damaged-dump",
            f"{self.directory} is not whole: {what}",
            hint="the compilation ended before: with an error that names the pass, or on a full "
            "disk; compile again",
        )


def read_dump(directory: Path) -> Dump:
    """Return what a directory holds; programs are read when they are asked for.

    Raises:
        GraphError: It is no dump, of another version, or damaged.
    """
    header, _ = read_header(directory)
    return Dump(directory, header)


def _read_stage(folder: Path) -> DumpedStage:
    file = folder / INDEX
    data = read_json_file(file, "what each pass did")
    try:
        passes = tuple(_entry(number, each) for number, each in enumerate(data, start=1))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged_dump(
            file, f"it was edited or is of another version: {shown_error(error)}"
        ) from error
    return DumpedStage(folder.name, folder, passes)


def _entry(number: int, entry: Mapping[str, Any]) -> DumpedPass:
    file, name, changed = entry["file"], entry["pass"], entry["changed"]
    if file != pass_file(number, name) or "/" in file or not isinstance(changed, bool):
        raise ValueError(f"entry {number} names the file {file!r}")
    return DumpedPass(
        number=number,
        file=file,
        form=PassForm(name, str(entry["code"]), dict(entry["parameters"])),
        fidelity=Fidelity(entry["fidelity"]),
        statistics=dict(entry["statistics"]),
        remarks=tuple(map(str, entry["remarks"])),
        changed=changed,
        broken=str(entry.get("broken") or ""),
        measured=entry.get("error") is not None,
    )
