"""Write a compiled model to a folder that `load_package` reads."""

import hashlib
import json
import os
import shutil
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.file_stamp import FileStamp, changed_file
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.disk_error import disk_error, named_as
from ascendfx.runtime.materialise_weight import materialise_weight
from ascendfx.runtime.model_hash import model_hash
from ascendfx.runtime.package.hashes import HASHES, hash_lines
from ascendfx.runtime.package.write_plans import write_plans
from ascendfx.runtime.package.write_tensors import TensorEntry, write_tensors
from ascendfx.runtime.progress import Progress, silent

MANIFEST = "package.json"
WEIGHTS = "weights.safetensors"
TOKENIZER = "tokenizer.json"
FORMAT = 5


def save_package(compiled: CompiledModel, directory: Path, *, progress: Progress = silent) -> None:
    """Write kernels, plans, weights and tokenizer; the folder appears when it is complete.

    An older package at the same place is replaced; any other folder or file is left alone.

    Raises:
        GraphError: The place is taken by something else, the disk is full or not writable, or a
            weight is not finite; weights or tokenizer are not those that were compiled any more.
    """
    directory = check_place(directory)
    temporary = directory.with_name(f".{directory.name}.{os.getpid()}")
    try:
        temporary.mkdir(parents=True)
        with named_as(temporary, directory):
            _write(compiled, temporary, progress)
        if directory.exists():
            old = directory.with_name(f".{directory.name}.{os.getpid()}.old")
            directory.rename(old)
            try:
                temporary.rename(directory)
            except BaseException:  # also an interruption: the older package stays
                old.rename(directory)
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            temporary.rename(directory)
    except OSError as error:
        raise disk_error(directory, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_place(directory: Path) -> Path:
    """Check that a package may be written here, before the work that leads to one.

    Returns:
        The real place, links followed.

    Raises:
        GraphError: The place is taken by something else, or no folder can have this name.
    """
    try:
        place = directory.resolve()
        empty = place.is_dir() and not any(place.iterdir())
        taken = place.exists() and not empty and not (place / MANIFEST).is_file()
    except OSError as error:
        raise disk_error(directory, error) from error
    except (ValueError, RuntimeError) as error:  # a zero byte, a circle of links
        raise GraphError(
            "not-writable", f"{directory} cannot be written: {error}", hint="choose another name"
        ) from error
    if taken:
        raise GraphError(
            code="not-a-package",
            reason=f"{directory} exists and is not a package",
            hint="choose a folder that does not exist yet",
        )
    return place


def _write(compiled: CompiledModel, directory: Path, progress: Progress) -> None:
    write_plans(directory, tuple(compiled.plans.values()))
    digests: dict[str, str] = {}
    by_name = {spec.name: spec for spec in compiled.weights}
    digests[WEIGHTS] = write_tensors(
        directory / WEIGHTS,
        [TensorEntry(spec.name, spec.dtype, spec.packed_shape) for spec in compiled.weights],
        lambda name: materialise_weight(by_name[name], compiled.source),
        progress=progress,
    )
    if compiled.tokenizer:
        text = _tokenizer(compiled.tokenizer, compiled.tokenizer_stamp)
        (directory / TOKENIZER).write_bytes(text)
        digests[TOKENIZER] = hashlib.sha256(text).hexdigest()
    manifest = {
        "format": FORMAT,
        "target": compiled.target.name,
        "plans": list(compiled.plans),
        "vocabulary": compiled.config.vocabulary,
        "end_tokens": sorted(compiled.config.end_tokens),
        "block_tokens": compiled.config.block_tokens,
        "model": compiled.config.model or model_hash(compiled),
        "tokenizer": compiled.tokenizer is not None,
    }
    text = (json.dumps(manifest, indent=1) + "\n").encode()
    (directory / MANIFEST).write_bytes(text)
    digests[MANIFEST] = hashlib.sha256(text).hexdigest()
    with (directory / HASHES).open("a", encoding="utf-8") as file:
        file.write(hash_lines(digests))


def _tokenizer(file: Path, stamp: FileStamp | None) -> bytes:
    """Return the tokenizer that the model was compiled with."""
    try:
        if stamp:
            stamp.check(file, file.stat())
        return file.read_bytes()
    except OSError as error:
        raise changed_file(file, f"cannot be read any more: {error.strerror}") from error
