"""The names of the files of a dump, and its header: what every reader checks first."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeGuard

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.dumps.json_file import read_json_file

FORMAT = 2
"""Version of the directory; raised whenever a file or a key is added, removed or renamed."""
HEADER, TIMING, INDEX = "dump.json", "timing.json", "index.json"
INPUT_PROGRAM = "00-input.ir"
"""What a stage was given."""
PLAN, COST, KERNELS, HASHES = "plan.json", "cost.json", "kernels", "kernels.json"
_STAGE = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class DumpHeader:
    """What a dump says of the compilation as a whole.

    Attributes:
        source: The checkpoint directory; None for a module.
        dtype: Element format that was asked for; None for the checkpoint's own.
        target: Name of the chip.
        limits: Sizes the plans are made for.
        strategy: How the forms of the plans were chosen.
        stages: Names of the folders, in order.
        verify: What was verified, and on which tokens; None if nothing was.
    """

    source: str | None
    dtype: str | None
    target: str
    limits: Mapping[str, int | None]
    strategy: str
    stages: Sequence[str]
    verify: Mapping[str, Any] | None = None


def pass_file(number: int, name: str) -> str:
    """Return the name of the file of the program after the pass ``name``, the first is 1."""
    return f"{number:02d}-{name}.ir"


def text_hash(text: str) -> str:
    """Return what `HASHES` holds for the text of a kernel."""
    return hashlib.sha256(text.encode()).hexdigest()


def damaged_dump(file: Path, what: str) -> GraphError:
    """Return the error for a file of a dump that is not as it was written."""
    return GraphError("damaged-dump", f"{file}: {what}", hint="compile again")


def are_stages(names: object) -> TypeGuard[list[str]]:
    """Return whether ``names`` is a list of names of folders in a dump, and leads nowhere else."""
    return isinstance(names, list) and all(
        isinstance(each, str) and _STAGE.fullmatch(each)
        for each in names  # pyright: ignore[reportUnknownVariableType]  # it is what is checked
    )


def read_header(directory: Path) -> tuple[DumpHeader, Mapping[str, Any]]:
    """Return the header of a dump, and all that its file says.

    Raises:
        GraphError: There is no dump, it is of another version, or its header is damaged.
    """
    file = directory / HEADER
    if not directory.exists():
        raise GraphError(
            code="not-a-dump",
            reason=f"there is no directory {directory}",
            hint="`ascendfx compile ... --dump-dir DIR` writes one",
        )
    if not file.is_file():
        raise GraphError(
            code="not-a-dump",
            reason=f"{directory} is no dump directory: it has no {HEADER}",
            hint="`ascendfx compile ... --dump-dir DIR` writes one",
        )
    data = read_json_file(file, "the header of a dump")
    if not isinstance(data, dict):
        raise damaged_dump(file, "it is no JSON object")
    if data.get("format") != FORMAT:
        raise GraphError(
            code="dump-version",
            reason=f"the dump has format {data.get('format')}, this version reads {FORMAT}",
            hint="compile again",
        )
    wanted = [field.name for field in fields(DumpHeader)]
    for name in wanted:
        if name not in data:
            raise damaged_dump(file, f"it does not name `{name}`")
    if not are_stages(data["stages"]):
        raise damaged_dump(file, "`stages` is no list of names of folders")
    return DumpHeader(**{name: data[name] for name in wanted}), data
