"""A golden directory: what is in it, and how it is read and replaced."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.passes.verification.stage_name import parse_stage
from ascendfx.runtime.disk_error import wrapped_os_error, writing
from ascendfx.runtime.dumps.json_file import write_json
from ascendfx.runtime.dumps.read_dump import Dump, read_dump
from ascendfx.runtime.replaced_file import refused_place
from ascendfx.runtime.shown_error import shown_error
from ascendfx.version import VERSION

FORMAT = 1
"""Version of the directory; see README.md of this folder."""
HEADER, DUMP, OUTPUTS = "golden.json", "dump", "outputs.safetensors"
TRUTH = "truth"
"""Name of the output that is the float64 truth; the others have the names of the plans."""
_ROUNDING = "rounding"


@dataclass(frozen=True, slots=True)
class GoldenHeader:
    """How a golden directory was made.

    Attributes:
        model: Directory of the model, relative to the golden directory; None for a module.
        options: Of the compilation.
        tokens: Ids of the texts, all of one length.
        new_tokens: How many tokens the emitted kernels generated from each; 0: they did not run.
        generated: Those tokens.
        weights: A hash of every tensor that the model reads, by key.
    """

    model: str | None
    options: Mapping[str, Any]
    tokens: Sequence[Sequence[int]]
    new_tokens: int
    generated: Sequence[Sequence[int]]
    weights: Mapping[str, str]


@dataclass(frozen=True)
class Output:
    """Logits of some rows.

    Attributes:
        logits: Float64 ``[steps, texts, vocab]``.
        rounding: How far the rounding of float64 can have moved any of them.
    """

    logits: Array
    rounding: float


@dataclass(frozen=True)
class Golden:
    """A golden directory that was read.

    Attributes:
        directory: The folder.
        header: How it was made.
        outputs: The truth, and what each plan computes.
    """

    directory: Path
    header: GoldenHeader
    outputs: Mapping[str, Output]

    @cached_property
    def dump(self) -> Dump:
        """Programs after each pass, plans and kernels."""
        return read_dump(self.directory / DUMP)


def read_golden(directory: Path) -> Golden:
    """Return what a directory holds; programs are read when they are asked for.

    Raises:
        GraphError: It is no golden directory, of another version, or damaged.
    """
    file = directory / HEADER
    if not directory.exists():
        raise GraphError(
            code="not-a-golden",
            reason=f"there is no directory {directory}",
            hint="`ascendfx golden record MODEL -o DIR` writes one",
        )
    if not file.is_file():
        raise GraphError(
            code="not-a-golden",
            reason=f"{directory} is no golden directory: it has no {HEADER}",
            hint="`ascendfx golden record MODEL -o DIR` writes one",
        )
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        version = data["format"]
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as error:
        raise _damaged(file, f"it is no header: {shown_error(error)}") from error
    if version != FORMAT:
        raise GraphError(
            code="golden-version",
            reason=f"{directory} has format {version!r}, this version reads {FORMAT}",
            hint="delete it and record it again with this version",
        )
    golden = Golden(directory, _header(file, data), _read_outputs(directory / OUTPUTS))
    stages = [name for name in golden.dump.header.stages if parse_stage(name).layer is None]
    if missing := {TRUTH, *stages} - {"serving", *golden.outputs}:
        raise _damaged(directory / OUTPUTS, f"it has no {', '.join(sorted(missing))}")
    return golden


def _header(file: Path, data: Mapping[str, Any]) -> GoldenHeader:
    try:
        header = GoldenHeader(**{field.name: data[field.name] for field in fields(GoldenHeader)})
        tokens = np.array(header.tokens)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(file, f"it was edited: {shown_error(error)}") from error
    kinds = (
        (header.options, dict),
        (header.weights, dict),
        (header.generated, list),
        (header.new_tokens, int),
        (header.model, str | None),
    )
    if tokens.ndim != 2 or tokens.dtype.kind != "i" or not tokens.size:
        raise _damaged(file, "`tokens` are no texts of token ids of one length")
    if not all(isinstance(value, kind) for value, kind in kinds):
        raise _damaged(file, "a field is not of its type")
    return header


def _read_outputs(file: Path) -> dict[str, Output]:
    try:
        with safe_open(file, framework="numpy") as opened:
            rounding: dict[str, float] = json.loads((opened.metadata() or {})[_ROUNDING])
            return {
                name: Output(opened.get_tensor(name), float(rounding[name]))
                for name in opened.keys()  # noqa: SIM118  # no mapping
            }
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise _damaged(file, f"it does not hold outputs: {shown_error(error)}") from error


def write_golden(directory: Path, header: GoldenHeader, outputs: Mapping[str, Output]) -> None:
    """Write header and outputs beside a dump.

    Raises:
        GraphError: The place cannot be written.
    """
    rounding = {name: each.rounding for name, each in outputs.items()}
    with writing(directory):
        try:
            save_file(
                {name: np.ascontiguousarray(each.logits) for name, each in outputs.items()},
                directory / OUTPUTS,
                metadata={_ROUNDING: json.dumps(rounding)},
            )
        except SafetensorError as error:
            raise wrapped_os_error(error) from error
        write_json(directory / HEADER, {"format": FORMAT, "ascendfx": VERSION, **asdict(header)})


def beside(directory: Path) -> Path:
    """Return a name for a temporary folder on the same disk.

    Raises:
        GraphError: No folder can have the name.
    """
    try:
        place = directory.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, a circle of links
        raise refused_place(directory, str(error)) from error
    return place.with_name(f".{place.name}.{os.getpid()}")


def put_in_place(made: Path, directory: Path) -> None:
    """Give a finished folder its name; what had it before is deleted only then.

    A link to a folder stays a link: what it points to is replaced.

    Raises:
        GraphError: The place cannot be written.
    """
    old = made.with_name(f"{made.name}.old")
    with writing(directory):
        place = directory.resolve()
        if place.exists():
            place.rename(old)
        try:
            made.rename(place)
        except BaseException:  # also an interruption: the older folder stays
            if old.exists():
                old.rename(place)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _damaged(file: Path, what: str) -> GraphError:
    return GraphError(
        "damaged-golden", f"{file}: {what}", hint="get it from version control, or record it again"
    )
