"""The file of a transfer record: safetensors whose metadata names version, model and hash."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import OPTION_COLUMNS, STATE_COLUMNS, STOP_COLUMNS
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.checkpoint.safetensors_file import read_header, read_metadata
from ascendfx.runtime.package.write_tensors import TensorEntry, write_tensors

FORMAT = "ascendfx-transfer"
VERSION = "3"
"""Raised whenever a tensor or field is added, removed, or changes its meaning."""

_FIELDS = ("model",)
_ROWS = {"options": OPTION_COLUMNS, "state": STATE_COLUMNS, "stop_ids": STOP_COLUMNS}
_FORMATS = {each.numpy: each for each in DType}


def write_record(
    path: Path, fields: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]
) -> None:
    """Write fields and tensors; the file exists completely or not at all.

    Raises:
        GraphError: The disk is full or not writable.
    """
    metadata = {"format": FORMAT, "version": VERSION, **fields}
    metadata["sha256"] = _digest(metadata, tensors)
    entries = [
        TensorEntry(name, _FORMATS[each.dtype], each.shape) for name, each in tensors.items()
    ]
    write_tensors(path, entries, tensors.__getitem__, metadata=metadata)


def read_record(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Return fields and tensors of a file.

    Raises:
        GraphError: It is missing, damaged or no record, or has another version.
    """
    try:
        stored, metadata = read_header(path), read_metadata(path)
    except GraphError as error:
        raise _damaged(error.reason) from error
    if metadata.get("format") != FORMAT:
        raise _damaged(f"{path} is a safetensors file, but no transfer record")
    if metadata.get("version") != VERSION:
        raise GraphError(
            "record-version",
            f"{path} has version {metadata.get('version')}, this version reads {VERSION}",
            hint="run the same version of ascendfx for prefill and decode",
        )
    tensors = {name: each.load() for name, each in stored.items()}
    if metadata.pop("sha256", "") != _digest(metadata, tensors):
        raise _damaged(f"{path} is not what was written")
    _check(path, metadata, tensors)
    return metadata, tensors


def _check(path: Path, metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> None:
    missing = [each for each in _FIELDS if each not in metadata]
    missing += [each for each in ("tokens", "first", *_ROWS) if each not in tensors]
    if missing:
        raise _damaged(f"{path} has no `{missing[0]}`")
    for name in ("tokens", "first", *_ROWS):
        each = tensors[name]
        kind = np.dtype(np.float32 if name == "options" else np.int32)
        fits = each.size == _ROWS[name] if name in _ROWS else each.size > 0
        if each.dtype != kind or each.ndim != 1 or not fits:
            raise _damaged(f"{path}: `{name}` is {each.dtype}{list(each.shape)}")


def _digest(metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> str:
    found = hashlib.sha256(json.dumps(dict(sorted(metadata.items()))).encode())
    for name, each in sorted(tensors.items()):
        found.update(f"\n{name} {each.dtype} {list(each.shape)}\n".encode())
        found.update(np.ascontiguousarray(each).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _damaged(reason: str) -> GraphError:
    return GraphError(
        "record-damaged", reason, hint="write the record again: `engine.prefill(...).save(path)`"
    )
