"""Write a compiled model to a folder that `load_package` reads."""

import json
import os
import shutil
from pathlib import Path

from ascendfx.codegen.ascendc.emit_package import package_files, write_files
from ascendfx.codegen.ascendc.weight_spec import evaluate_weight
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.disk_error import disk_error
from ascendfx.runtime.package.write_tensors import TensorEntry, write_tensors
from ascendfx.runtime.progress import Progress, silent

MANIFEST = "package.json"
WEIGHTS = "weights.safetensors"
TOKENIZER = "tokenizer.json"
FORMAT = 1


def save_package(compiled: CompiledModel, directory: Path, *, progress: Progress = silent) -> None:
    """Write kernels, plans, weights and tokenizer; the folder appears when it is complete.

    An older package at the same place is replaced; any other folder or file is left alone.

    Raises:
        GraphError: The place is taken by something else, or the disk is full or not writable.
    """
    check_place(directory)
    temporary = directory.with_name(f".{directory.name}.{os.getpid()}")
    try:
        temporary.mkdir(parents=True)
        _write(compiled, temporary, progress)
        if directory.exists():
            old = directory.with_name(f".{directory.name}.{os.getpid()}.old")
            directory.rename(old)
            temporary.rename(directory)
            shutil.rmtree(old)
        else:
            temporary.rename(directory)
    except OSError as error:
        raise disk_error(directory, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_place(directory: Path) -> None:
    """Check that a package may be written here, before the work that leads to one.

    Raises:
        GraphError: The place is taken by something else.
    """
    if directory.is_dir() and (not any(directory.iterdir()) or (directory / MANIFEST).is_file()):
        return
    if directory.exists():
        raise GraphError(
            code="not-a-package",
            reason=f"{directory} exists and is not a package",
            hint="choose a folder that does not exist yet",
        )


def _write(compiled: CompiledModel, directory: Path, progress: Progress) -> None:
    write_files(directory, package_files(tuple(compiled.plans.values()), compiled.target))
    by_name = {spec.name: spec for spec in compiled.weights}
    write_tensors(
        directory / WEIGHTS,
        [TensorEntry(spec.name, spec.dtype, spec.packed_shape) for spec in compiled.weights],
        lambda name: evaluate_weight(by_name[name], TensorsByKey(compiled.source)),
        progress=progress,
    )
    if compiled.tokenizer:
        shutil.copyfile(compiled.tokenizer, directory / TOKENIZER)
    manifest = {
        "format": FORMAT,
        "target": compiled.target.name,
        "plans": list(compiled.plans),
        "vocabulary": compiled.config.vocabulary,
        "end_tokens": sorted(compiled.config.end_tokens),
        "block_tokens": compiled.config.block_tokens,
        "tokenizer": compiled.tokenizer is not None,
    }
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
