"""Write a dump directory while a model is compiled."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, print_plan
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.located import print_located
from ascendfx.passes.describe_pass import describe_pass
from ascendfx.passes.pipeline import PassRun
from ascendfx.passes.verification.verify_pass import PassCheck
from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.dumps.dump_header import (
    COST,
    FORMAT,
    HASHES,
    HEADER,
    INDEX,
    INPUT_PROGRAM,
    KERNELS,
    PLAN,
    TIMING,
    DumpHeader,
    are_stages,
    pass_file,
    text_hash,
)
from ascendfx.runtime.dumps.json_file import read_json_file, write_json, write_text
from ascendfx.version import VERSION


@dataclass
class DumpWriter:
    """Writes each file when its contents are known, so that an ended compilation leaves them.

    Attributes:
        directory: Must not exist, be empty, or hold an older dump.
    """

    directory: Path
    _index: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    _seconds: dict[str, Any] = field(default_factory=dict[str, Any])

    def begin(self, header: DumpHeader) -> None:
        """Make the directory and write its header; an older dump is removed first.

        Raises:
            GraphError: The place holds something else, or cannot be written.
        """
        with writing(self.directory):
            prepare_directory(self.directory)
            data = {"format": FORMAT, "ascendfx": VERSION, **asdict(header)}
            write_json(self.directory / HEADER, data | {"stages": list(header.stages)})

    def stage(self, name: str, program: Program) -> None:
        """Begin the folder of a stage with the program that its passes are given."""
        with writing(self.directory):
            (self.directory / name).mkdir(exist_ok=True)
            write_text(self.directory / name / INPUT_PROGRAM, print_located(program))
            self._index[name] = []
            write_json(self.directory / name / INDEX, [])

    def passed(self, stage: str, run: PassRun, check: PassCheck | None = None) -> None:
        """Add a pass.

        Args:
            stage: Whose pass it was.
            run: What it did.
            check: How far the program is from the truth, if that was measured.
        """
        entries = self._index[stage]
        file = pass_file(len(entries) + 1, run.name)
        form = describe_pass(run.rewrite)
        entries.append(
            {
                "file": file,
                "pass": run.name,
                "code": form.code,
                "fidelity": run.rewrite.fidelity.value,
                "parameters": dict(form.parameters),
                "statistics": dict(run.statistics),
                "remarks": list(map(str, run.remarks)),
                "changed": run.changed,
                "error": asdict(check.error) if check else None,
                "broken": check.broken or None if check else None,
            }
        )
        self._seconds.setdefault("passes", {}).setdefault(stage, []).append(
            {
                "pass": run.name,
                "seconds": round(run.seconds, 6),
                "verification": round(check.seconds if check else 0.0, 6),
            }
        )
        with writing(self.directory):
            write_text(self.directory / stage / file, print_located(run.program))
            write_json(self.directory / stage / INDEX, entries)
            write_json(self.directory / TIMING, self._seconds)

    def plan(self, plan: LaunchPlan, cost: Mapping[str, Any] | None = None) -> None:
        """Add a plan, the texts of its kernels and what it costs."""
        folder = self.directory / plan.name
        with writing(self.directory):
            (folder / KERNELS).mkdir(parents=True, exist_ok=True)
            write_json(folder / PLAN, json.loads(print_plan(plan)))
            for kernel in plan.kernels:
                write_text(folder / KERNELS / f"{kernel.name}.cpp", kernel.source)
            texts = {kernel.name: kernel.source for kernel in plan.kernels}
            write_json(folder / HASHES, {name: text_hash(text) for name, text in texts.items()})
            if cost is not None:
                write_json(folder / COST, cost)

    def timed(self, what: str, seconds: float) -> None:
        """Add a duration that is no pass's; one of the same name is added to."""
        self._seconds[what] = round(self._seconds.get(what, 0.0) + seconds, 6)
        with writing(self.directory):
            write_json(self.directory / TIMING, self._seconds)


def prepare_directory(directory: Path) -> None:
    """Make the directory; files of an older dump are removed, other files are never touched.

    Raises:
        GraphError: It has contents, but no dump.
    """
    if directory.is_dir() and any(directory.iterdir()):
        stages = _older_stages(directory)
        (directory / HEADER).unlink()
        (directory / TIMING).unlink(missing_ok=True)
        for stage in stages:
            if (directory / stage).is_dir() and not (directory / stage).is_symlink():
                shutil.rmtree(directory / stage)
    directory.mkdir(parents=True, exist_ok=True)


def _older_stages(directory: Path) -> list[str]:
    if not (directory / HEADER).is_file():
        raise GraphError(
            code="not-a-dump",
            reason=f"{directory} has contents but is no dump directory",
            hint="choose another name, or delete it",
        )
    header = read_json_file(directory / HEADER, "the header of a dump")
    stages = header.get("stages") if isinstance(header, dict) else None
    if not are_stages(stages):
        raise GraphError(
            "damaged-dump",
            f"{directory / HEADER} does not name the stages",
            hint="choose another name, or delete it",
        )
    return stages
