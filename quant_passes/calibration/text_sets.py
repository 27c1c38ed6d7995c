"""Sets of texts for calibration: one JSON object per line, plain text, tokens, or columns.

================  ==========================================================================
``.jsonl``        a text per line: ``text`` (or msModelSlim's ``inputs_pretokenized``), or token
                  ids: ``input_ids``; ``language`` and ``kind`` are reported
``.txt``          texts have empty lines between them
``.safetensors``  every tensor of integers holds token ids, a text per row
``.parquet``      columns as the fields of ``.jsonl``; needs pyarrow
================  ==========================================================================
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN, Location

_TEXT = ("text", "inputs_pretokenized")
_IDS = "input_ids"
_INTEGERS = frozenset(f"{kind}{bits}" for kind in "IU" for bits in (8, 16, 32, 64))


@dataclass(frozen=True, slots=True)
class CalibrationText:
    """A text, or the tokens of one.

    Attributes:
        content: Characters, or token ids.
        language: As its set has it; ``?`` if it has none.
        kind: Prose, questions, code; as its set has it.
        location: Where it stands.
    """

    content: str | tuple[int, ...]
    language: str = "?"
    kind: str = "?"
    location: Location = UNKNOWN


def read_texts(file: Path) -> tuple[CalibrationText, ...]:
    """Return the texts of a file, by the ending of its name.

    Raises:
        GraphError: `bad-texts`: it cannot be read, holds no texts, or something else.
    """
    reader = _READERS.get(file.suffix)
    if reader is None:
        raise _wrong(f"{file} is of no known kind", f"known endings: {', '.join(_READERS)}")
    try:
        found = tuple(each for each in reader(file) if each.content)
    except OSError as error:
        raise _wrong(
            f"texts {file} cannot be read: {error.strerror or error}", "look at the name"
        ) from error
    except UnicodeDecodeError as error:
        raise _wrong(f"{file} is no text in UTF-8", "write it as UTF-8") from error
    except ValueError as error:  # a name that no file can have
        raise _wrong(f"texts {str(file)!r} cannot be read: {error}", "look at the name") from error
    if not found:
        raise _wrong(f"{file} holds no text", "give another set, or leave it out")
    return found


def _from_jsonl(file: Path) -> Iterator[CalibrationText]:
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            place = Location(str(file), number)
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise _wrong(
                    f"the line is no JSON: {error}", "write one object per line", place
                ) from error
            if not isinstance(row, dict):
                raise _wrong("the line is no JSON object", 'write {"text": ...}', place)
            yield _text_of(row, place)


def _from_txt(file: Path) -> Iterator[CalibrationText]:
    lines: list[str] = []
    first = 1
    for number, line in enumerate([*file.read_text(encoding="utf-8-sig").splitlines(), ""], 1):
        if line.strip():
            lines.append(line)
            continue
        if lines:
            yield CalibrationText("\n".join(lines), location=Location(str(file), first))
        lines, first = [], number + 1


def _from_safetensors(file: Path) -> Iterator[CalibrationText]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415  # rarely needed

    try:
        with safe_open(file, framework="numpy") as opened:
            for name in opened.keys():  # noqa: SIM118  # not a mapping
                part = opened.get_slice(name)
                shape, kind = part.get_shape(), part.get_dtype()
                if kind not in _INTEGERS or len(shape) not in {1, 2}:
                    reason = f"tensor `{name}` of {file} is {kind}{shape}"
                    raise _wrong(reason, "token ids are integers, a text per row")
            tensors = {name: opened.get_tensor(name) for name in sorted(opened.keys())}
    except SafetensorError as error:
        raise _wrong(f"{file} is no safetensors file: {error}", "write it again") from error
    for name, array in tensors.items():
        for row in np.atleast_2d(array):
            yield CalibrationText(tuple(row.tolist()), location=Location(str(file), 1, name))


def _from_parquet(file: Path) -> Iterator[CalibrationText]:
    if not file.is_file():
        raise _wrong(f"texts {file} cannot be read: there is no such file", "look at the name")
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise _wrong(
            f"reading {file} needs the package `pyarrow`, which is not installed",
            "pip install pyarrow, or write the set as .jsonl",
        ) from error
    try:
        rows: Sequence[Mapping[str, Any]] = parquet.read_table(file).to_pylist()
    except Exception as error:  # the library raises classes of its own
        raise _wrong(f"{file} is no parquet file: {error}", "write it again") from error
    for number, row in enumerate(rows, 1):
        yield _text_of(row, Location(str(file), number))


def _text_of(row: Mapping[str, Any], place: Location) -> CalibrationText:
    language, kind = (str(row.get(name) or "?") for name in ("language", "kind"))
    text = next((row[name] for name in _TEXT if name in row), None)
    if isinstance(text, str):
        return CalibrationText(text, language, kind, place)
    ids = row.get(_IDS)
    if isinstance(ids, list) and all(type(each) is int for each in ids):
        return CalibrationText(tuple(ids), language, kind, place)
    reason = f"there is neither `text` nor `{_IDS}`" if text is None else "`text` is no text"
    known = ", ".join(f"`{name}`" for name in list(row)[:6]) or "nothing"
    raise _wrong(f"{reason}; the row has {known}", "name the field of the text `text`", place)


def _wrong(reason: str, hint: str, place: Location = UNKNOWN) -> GraphError:
    return GraphError("bad-texts", reason, place, hint=hint)


_READERS: Mapping[str, Callable[[Path], Iterator[CalibrationText]]] = {
    ".jsonl": _from_jsonl,
    ".txt": _from_txt,
    ".safetensors": _from_safetensors,
    ".parquet": _from_parquet,
}
