"""One safetensors file, mapped into memory; tensors are views of the file until they are converted.

Source of the format: safetensors README, section "Format": eight bytes with the length N of the
header, N bytes of JSON, then the tensors; offsets count from the end of the header. "The byte
buffer needs to be entirely indexed, and cannot contain holes."
"""

import json
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.file_stamp import FileStamp, changed_file, stamp_of

FORMATS: Mapping[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
"""Element formats by the spelling of the file format."""

_METADATA = "__metadata__"
_HEADER_LIMIT = 100_000_000
"""Largest header the format allows, in bytes."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor is.

    Attributes:
        file: The file it is in.
        format: Element format.
        shape: Its shape.
        begin: First byte in the file.
        end: One behind the last byte.
        stamp: Which file it was whose header was read.
    """

    file: Path
    format: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int
    stamp: FileStamp

    def load(self) -> NDArray[Any]:
        """Return the values: a read-only view of the mapped file, nothing is copied.

        Raises:
            GraphError: The file is gone, or not the one whose header was read.
        """
        if self.begin == self.end:
            return np.zeros(self.shape, self.format)
        try:
            with self.file.open("rb") as handle:
                self.stamp.check(self.file, os.fstat(handle.fileno()))
                mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            why = f"cannot be read any more: {error.strerror}"
            raise changed_file(self.file, why) from error
        count = (self.end - self.begin) // self.format.itemsize
        return np.frombuffer(mapped, self.format, count, self.begin).reshape(self.shape)


def read_header(file: Path) -> dict[str, StoredTensor]:
    """Return where each tensor of a file is; only the header is read.

    Raises:
        GraphError: The file is no safetensors file, is longer or shorter than its header says, or
            two tensors share bytes.
    """
    header, start, stamp = _read_json(file)
    tensors = {
        name: _entry(file, name, fields, start, stamp)
        for name, fields in header.items()
        if name != _METADATA
    }
    _check_ranges(file, tensors, start, stamp.size)
    return tensors


def read_metadata(file: Path) -> dict[str, str]:
    """Return the texts that the header holds beside the tensors.

    Raises:
        GraphError: The file is no safetensors file, or they are no texts.
    """
    found = _read_json(file)[0].get(_METADATA, {})
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise _damaged(file, "its metadata are no texts")
    return found


def _read_json(file: Path) -> tuple[dict[str, Any], int, FileStamp]:
    """Return the header, where it ends, and which file it is."""
    if file.exists() and not file.is_file():
        raise _damaged(file, "it is no regular file")
    try:
        with file.open("rb") as handle:
            stamp = stamp_of(os.fstat(handle.fileno()))
            size = stamp.size
            length = int.from_bytes(handle.read(8), "little")
            if size < 8 or length > min(size - 8, _HEADER_LIMIT):
                raise _damaged(file, f"the header should have {length} bytes, the file has {size}")
            text = handle.read(length)
    except OSError as error:
        raise GraphError(
            "damaged-file",
            f"{file} cannot be read: {error.strerror}",
            hint="check the permissions of the file, and that the disk is there",
        ) from error
    try:
        header: Any = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _damaged(file, f"the header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise _damaged(file, "the header is no JSON object")
    return header, 8 + length, stamp


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; of two values with one key nobody says which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{twice}` stands there twice")
    return found


def _check_ranges(file: Path, tensors: Mapping[str, StoredTensor], start: int, size: int) -> None:
    """Check that the tensors cover the bytes behind the header, each byte once."""
    end, before = start, "the header"
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        own = f"tensor `{name}` has bytes {tensor.begin}..{tensor.end}"
        if tensor.begin < end:
            raise _damaged(file, f"{own}, {before} goes on to {end}")
        if tensor.begin > end:
            raise _damaged(file, f"{own}, {before} ends at {end}: nobody owns the bytes between")
        end, before = tensor.end, f"tensor `{name}` at {tensor.begin}"
    if end != size:
        raise _damaged(file, f"{before} ends at byte {end}, the file has {size} bytes")


def _entry(file: Path, name: str, fields: Any, start: int, stamp: FileStamp) -> StoredTensor:
    if not _well_formed(fields):
        raise _damaged(file, f"tensor `{name}` has no dtype, shape and data_offsets")
    spelled = fields["dtype"]
    if spelled not in FORMATS:
        raise GraphError(
            "tensor-format",
            f"tensor `{name}` of {file} is in format {spelled}, which is not known",
            hint="save the weights in float32 or bfloat16",
        )
    begin, end = (start + offset for offset in fields["data_offsets"])
    shape = tuple(fields["shape"])
    needed = prod(shape) * FORMATS[spelled].itemsize
    if end > stamp.size:
        raise _damaged(file, f"tensor `{name}` ends at byte {end}, the file has {stamp.size} bytes")
    if end - begin != needed:
        raise _damaged(file, f"tensor `{name}` has {end - begin} bytes instead of {needed}")
    return StoredTensor(file, FORMATS[spelled], shape, begin, end, stamp)


def _well_formed(fields: Any) -> bool:
    """Whether the description of a tensor has its fields, with sizes that an array can have."""
    if not isinstance(fields, dict) or not isinstance(fields.get("dtype"), str):
        return False
    lists = (fields.get("shape"), fields.get("data_offsets"))
    return all(isinstance(each, list) and all(map(_is_size, each)) for each in lists) and (
        len(fields["data_offsets"]) == 2 and len(fields["shape"]) <= _MOST_AXES
    )


_MOST_AXES = 64
"""Of an array of NumPy."""


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _damaged(file: Path, what: str) -> GraphError:
    return GraphError(
        "damaged-file",
        f"{file} is not a complete safetensors file: {what}",
        hint="download the file again",
    )
