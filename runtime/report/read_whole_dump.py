"""All of a dump directory at once, as the values that the page shows; checked while it is read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, read_plan
from ascendfx.runtime.dumps.dump_header import (
    COST,
    HASHES,
    INDEX,
    INPUT_PROGRAM,
    KERNELS,
    PLAN,
    TIMING,
    damaged_dump,
    read_header,
    text_hash,
)
from ascendfx.runtime.dumps.json_file import read_json_file
from ascendfx.runtime.report.read_program_text import TextGraph, read_program_text

_PLAIN_NAME = re.compile(r"[\w-][\w.-]*")

Record = Mapping[str, Any]
"""A JSON object of the dump; its values are shown, not computed with."""


@dataclass(frozen=True, slots=True)
class Version:
    """The program before the first pass or after one.

    Attributes:
        file: Name of its ``.ir`` file.
        record: What ``index.json`` says of the pass; empty for the input.
        graphs: The graphs and recipes of the program, in order.
    """

    file: str
    record: Record
    graphs: tuple[TextGraph, ...]

    @property
    def name(self) -> str:
        """The pass, or ``input``."""
        return str(self.record.get("pass", "input"))


@dataclass(frozen=True, slots=True)
class Stage:
    """A pipeline, and what was made of its result.

    Attributes:
        name: ``serving``, ``decode`` or ``prefill``.
        versions: The input first, then one per pass.
        plan: ``plan.json``; None for a stage that is not lowered.
        cost: ``cost.json``, modelled figures; None if the dump has none.
        kernels: Text of each kernel by its name.
    """

    name: str
    versions: tuple[Version, ...]
    plan: LaunchPlan | None
    cost: Record | None
    kernels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WholeDump:
    """A whole dump.

    Attributes:
        facts: ``dump.json``.
        timing: ``timing.json``; empty if the dump has none.
        stages: In the order of the compile.
        missing: Stages that the compile did not come to: it was stopped before.
    """

    facts: Record
    timing: Record
    stages: tuple[Stage, ...]
    missing: tuple[str, ...] = ()


def read_whole_dump(directory: Path) -> WholeDump:
    """Return the dump in ``directory``.

    Raises:
        GraphError: There is no dump, a file of it is missing or cut off, or it is of another
            version.
    """
    header, facts = read_header(directory)
    begun = [name for name in header.stages if (directory / name).is_dir()]
    if not begun:
        raise damaged_dump(directory, "it has the folder of no stage")
    timing = directory / TIMING
    return WholeDump(
        facts=facts,
        timing=_object(timing) if timing.is_file() else {},
        stages=tuple(_stage(directory / name) for name in begun),
        missing=tuple(name for name in header.stages if name not in begun),
    )


def _stage(folder: Path) -> Stage:
    plan, cost = folder / PLAN, folder / COST
    index = read_json_file(folder / INDEX, "the passes of a stage")
    if not isinstance(index, list):
        raise damaged_dump(folder / INDEX, "it is no list of passes")
    records: Sequence[Any] = index
    for record in records:
        _check_record(folder / INDEX, record)
    files = [INPUT_PROGRAM, *(str(record["file"]) for record in records)]
    read: dict[str, tuple[TextGraph, ...]] = {}  # a pass that does nothing repeats its input
    versions: list[Version] = []
    for file, record in zip(files, [{}, *records], strict=True):
        text = _text(folder / file)
        if text not in read:
            read[text] = read_program_text(text, file=folder / file)
        versions.append(Version(file, record, read[text]))
    kernels = _kernels(folder)
    return Stage(
        name=folder.name,
        versions=tuple(versions),
        plan=_plan(plan, kernels) if plan.is_file() else None,
        cost=_cost(cost) if cost.is_file() else None,
        kernels=kernels,
    )


def _kernels(folder: Path) -> dict[str, str]:
    """Return the texts of the kernels by name; only a hash tells C++ that is cut off."""
    texts = {file.stem: _text(file) for file in sorted((folder / KERNELS).glob("*.cpp"))}
    hashes = _object(folder / HASHES) if texts else {}
    for name, text in texts.items():
        if text_hash(text) != hashes.get(name):
            file = folder / KERNELS / f"{name}.cpp"
            raise damaged_dump(file, "it is cut off, was edited or is of another compilation")
    return texts


def _is_plain_name(name: object) -> bool:
    """Return whether a name means a file beside the one that holds it."""
    return isinstance(name, str) and bool(_PLAIN_NAME.fullmatch(name))


def _check_record(file: Path, record: object) -> None:
    if not isinstance(record, dict):
        raise damaged_dump(file, "an entry is no object")
    kinds = {"file": str, "pass": str, "statistics": dict, "remarks": list}
    for key, kind in kinds.items():
        if not isinstance(record.get(key), kind):
            raise damaged_dump(file, f"an entry has no `{key}`, or one of another type")
    if not isinstance(record.get("error"), dict | None):
        raise damaged_dump(file, "the `error` of an entry is no object")
    if not isinstance(record.get("broken"), str | None):
        raise damaged_dump(file, "the `broken` of an entry is no text")
    if not _is_plain_name(record["file"]):
        raise damaged_dump(file, f"`{record['file']}` is no name of a file beside it")


def _plan(file: Path, kernels: Mapping[str, str]) -> LaunchPlan:
    try:
        plan = read_plan(_text(file), kernels)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged_dump(file, "it is cut off or no plan") from error
    for launch in plan.launches:
        if launch.kernel not in plan.kernel_by_name:
            raise damaged_dump(file, f"kernel `{launch.kernel}` is not in its list")
        for argument in launch.arguments:
            if argument.buffer not in plan.buffer_by_name:
                raise damaged_dump(file, f"buffer `{argument.buffer}` is not in its list")
    return plan


def _cost(file: Path) -> Record:
    data = _object(file)
    kernels, total = data.get("kernels"), data.get("total")
    if not isinstance(kernels, list) or not isinstance(total, dict):
        raise damaged_dump(file, "it has no `kernels` and `total`")
    for entry in [total, *kernels]:
        figures = entry if isinstance(entry, dict) else {}
        for key in ("microseconds", "bytes", "operations"):
            if not isinstance(figures.get(key), int | float):
                raise damaged_dump(file, f"an entry has no number `{key}`")
    return data


def _object(file: Path) -> Record:
    data = read_json_file(file, "a JSON object")
    if not isinstance(data, dict):
        raise damaged_dump(file, "it is no JSON object")
    return data


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise damaged_dump(file, "it is missing") from error
    except UnicodeDecodeError as error:
        raise damaged_dump(file, f"it is no text in UTF-8: {error.reason}") from error
    except OSError as error:
        raise damaged_dump(file, f"it cannot be read: {error.strerror}") from error
