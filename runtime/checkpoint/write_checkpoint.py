"""Write a checkpoint tensor by tensor; killed at any moment, it goes on where it stopped.

Everything is written to ``.NAME.partial`` beside the place, which gets its name at the end. Where
each byte goes is known before (`shard_layout`), and a journal says which tensors are written. One
weight is in memory at a time.
"""

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.checkpoint.planned_tensor import CheckpointForm, Plan, PlannedTensor
from ascendfx.runtime.checkpoint.journal import NAME, Journal, opened_journal
from ascendfx.runtime.checkpoint.shard_layout import Layout, lay_out
from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.replaced_file import refused_place

SHARD_BYTES = 4 << 30
"""Usual size of a file."""
_PIECE = 1 << 24
_NOT_COPIED = (".bin", ".gguf", ".h5", ".msgpack", ".pt", ".pth", ".safetensors")
"""Weights in whatever form; everything else beside them belongs to the model."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a checkpoint is written.

    Attributes:
        config: The content of ``config.json`` of the model.
        beside: A folder whose other files, such as the tokenizer, are copied.
        origin: What decides the values of the tensors: recipe, seed, source. An unfinished result
            with another origin is not gone on with.
        shared: Tensors that equal another one and are written once (`equal_tensors`).
        shard_bytes: A file ends before the weight with which it would be larger.
        progress: Told about ``write weights`` in bytes, after each weight.
    """

    config: Mapping[str, Any]
    beside: Path | None = None
    origin: str = ""
    shared: Mapping[str, str] | None = None
    shard_bytes: int = SHARD_BYTES
    progress: Progress = silent


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """What was written.

    Attributes:
        directory: The result.
        bytes: Size of its weight files.
        kept: How many weights an earlier run had written.
    """

    directory: Path
    bytes: int
    kept: int


def write_checkpoint(
    place: Path, plan: Plan, form: CheckpointForm, options: WriteOptions
) -> WrittenCheckpoint:
    """Write the weights of a plan as a directory, or go on with what an earlier run left.

    Args:
        place: The directory to be; there is none yet, or an empty one.
        plan: All tensors; each is made when its turn comes, and not if it is written already.
        form: What they are stored as.
        options: What else the result depends on.

    Raises:
        GraphError: `not-storable`, `bad-plan`; `disk-full`, `not-writable`; `other-job`,
            `writer-busy`; what making a tensor raises. What is written stays: the same call goes
            on with it.
    """
    layout = lay_out(plan, form, shard_bytes=options.shard_bytes, shared=dict(options.shared or {}))
    files = {name: _text(each) for name, each in form.files(plan, dict(options.config)).items()}
    files[layout.index_file] = _text(layout.index)
    job = _job(layout, files, options.origin)
    work = place.with_name(f".{place.name}.partial")
    with writing(place):
        if (place / NAME).exists() and not work.exists():  # killed between both last steps
            with opened_journal(place, job):
                (place / NAME).unlink()
            return WrittenCheckpoint(place, layout.bytes, len(layout.written))
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise refused_place(place, "it exists already")
        work.mkdir(parents=True, exist_ok=True)
        with opened_journal(work, job) as journal:
            kept = _kept(work, layout, form, journal)
            with _staying(work, len(layout.written)), writing(place):
                _make_room(work, layout)
                _write_weights(work, layout, form, (journal, kept, options.progress))
            _write_others(work, files, options.beside)
            work.replace(place)
            _sync(place.parent)
            (place / NAME).unlink()
    return WrittenCheckpoint(place, layout.bytes, len(kept))


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _job(layout: Layout, files: Mapping[str, str], origin: str) -> str:
    digest = hashlib.sha256(origin.encode())
    for header in layout.headers.values():
        digest.update(header)
    for name, text in files.items():
        digest.update(f"\0{name}\0{text}".encode())
    return digest.hexdigest()


@contextmanager
def _staying(work: Path, count: int) -> Generator[None]:
    """Say, of what goes wrong inside, that nothing is lost."""
    try:
        yield
    except GraphError as error:
        kept = len(set((work / NAME).read_bytes().splitlines()[1:]))
        note = f"{kept} of {count} weights are kept in {work}: the same command goes on from there"
        error.notes = (*error.notes, note)
        raise


def _kept(work: Path, layout: Layout, form: CheckpointForm, journal: Journal) -> frozenset[str]:
    """Return the weights of an earlier run that are in the files as the journal says."""
    return frozenset(
        tensor.name
        for tensor in layout.written
        if tensor.name in journal.sums
        and all(
            _sum_in_file(
                work / layout.places[part.name].file, layout.places[part.name].begin, part.bytes
            )
            == journal.sums[tensor.name].get(part.name)
            for part in form.parts(tensor)
        )
    )


def _sum_in_file(file: Path, begin: int, size: int) -> int | None:
    if not file.is_file():
        return None
    total = 0
    with file.open("rb") as opened:
        opened.seek(begin)
        while size and (piece := opened.read(min(size, _PIECE))):
            total = zlib.crc32(piece, total)
            size -= len(piece)
    return None if size else total


def _make_room(work: Path, layout: Layout) -> None:
    """Make the files at their full size, without data, and check that the disk has room for these.

    Raises:
        GraphError: `disk-full`.
    """
    found = (work / file for file in layout.sizes if (work / file).is_file())
    missing = layout.bytes - sum(file.stat().st_blocks * 512 for file in found)
    free = shutil.disk_usage(work).free
    if free < missing:
        raise GraphError(
            "disk-full",
            f"the result needs {missing:,} bytes more, {free:,} are free beside {work}",
            hint="free some space, or write to another disk",
        )
    for file, size in layout.sizes.items():
        with (work / file).open("ab"):
            pass
        with (work / file).open("r+b") as opened:
            opened.write(layout.headers[file])
            opened.truncate(size)


def _write_weights(
    work: Path,
    layout: Layout,
    form: CheckpointForm,
    state: tuple[Journal, frozenset[str], Progress],
) -> None:
    journal, kept, progress = state
    total, done = layout.bytes, sum(map(len, layout.headers.values()))
    for tensor in layout.written:
        if tensor.name not in kept:
            journal.add(tensor.name, _write_weight(work, layout, form, tensor))
        done += sum(part.bytes for part in form.parts(tensor))
        progress("write weights", done, total)
    for file in layout.sizes:
        _sync(work / file)


def _write_weight(
    work: Path, layout: Layout, form: CheckpointForm, tensor: PlannedTensor
) -> dict[str, int]:
    """Make a weight and write it; return the checksums of its parts."""
    arrays = form.encode(tensor, tensor.make())
    sums: dict[str, int] = {}
    for part in form.parts(tensor):
        data = _bytes_of(arrays.pop(part.name), part.format, part.shape)
        where = layout.places[part.name]
        with (work / where.file).open("r+b") as file:
            file.seek(where.begin)
            file.write(data)
        sums[part.name] = zlib.crc32(data)
    if arrays:
        raise AssertionError(f"{tensor.name}: {list(arrays)} were not announced")
    return sums


def _bytes_of(array: NDArray[Any], form: np.dtype[Any], shape: tuple[int, ...]) -> memoryview:
    if array.shape != shape or array.dtype != form:
        raise AssertionError(f"{form}{shape} was announced, {array.dtype}{array.shape} came")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _write_others(work: Path, files: Mapping[str, str], beside: Path | None) -> None:
    """Write the JSON files, and copy what else belongs to the model."""
    for name, text in files.items():
        (work / name).write_text(text, encoding="utf-8")
    for file in sorted(beside.iterdir()) if beside else ():
        known = file.name in files or file.name.endswith(".safetensors.index.json")
        if file.is_file() and not known and file.suffix not in _NOT_COPIED:
            shutil.copyfile(file, work / file.name)


def _sync(path: Path) -> None:
    """Wait until the disk has a file or the names in a folder."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
