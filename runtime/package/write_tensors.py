"""Write a safetensors file tensor by tensor, never holding two of them.

Source of the format: the safetensors README, section "Format": eight bytes of header length
(little endian), a JSON header with dtype, shape and byte range of each tensor, then the data. The
library of that name wants all tensors in memory at once, which a model larger than memory rules
out; files written here are read back with it in the tests.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.replaced_file import replacing

_NAMES = {
    DType.F64: "F64",
    DType.F32: "F32",
    DType.F16: "F16",
    DType.BF16: "BF16",
    DType.I64: "I64",
    DType.I32: "I32",
    DType.I8: "I8",
    DType.I4X2: "U8",
    DType.BOOL: "BOOL",
}
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """What the header says of one tensor."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of the data."""
        size = self.dtype.bytes
        for extent in self.shape:
            size *= extent
        return size


def write_tensors(
    path: Path,
    entries: Sequence[TensorEntry],
    load: Callable[[str], NDArray[Any]],
    *,
    metadata: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> str:
    """Write ``path``; it exists completely or not at all.

    Args:
        path: The file; its folder exists.
        entries: The tensors in file order.
        load: Returns the tensor of a name; called once for each, in order.
        metadata: Texts for the header.
        progress: Told about ``write weights`` before each tensor and at the end.

    Returns:
        SHA-256 of the file.

    Raises:
        GraphError: The disk is full or not writable, or a tensor is not what its entry says.
    """
    header = _header(entries, metadata)
    needed = len(header) + sum(entry.bytes for entry in entries)
    with writing(path), replacing(path) as temporary:
        free = shutil.disk_usage(temporary.parent).free
        if free < needed:
            raise GraphError(
                code="disk-full",
                reason=f"{path} needs {needed:,} bytes, {free:,} are free",
                hint="free some space, or write to another disk",
            )
        with temporary.open("wb") as file:
            digest = hashlib.sha256(header)
            file.write(header)
            for done, entry in enumerate(entries):
                progress("write weights", done, len(entries))
                data = _bytes(entry, load(entry.name))
                digest.update(data)
                file.write(data)
        progress("write weights", len(entries), len(entries))
    return digest.hexdigest()


def _bytes(entry: TensorEntry, array: NDArray[Any]) -> memoryview:
    if array.shape != entry.shape or array.dtype != entry.dtype.numpy:
        raise AssertionError(f"{entry} was announced, {array.dtype}{array.shape} came")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _header(entries: Sequence[TensorEntry], metadata: Mapping[str, str] | None) -> bytes:
    table: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    start = 0
    for entry in entries:
        table[entry.name] = {
            "dtype": _NAMES[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": [start, start + entry.bytes],
        }
        start += entry.bytes
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text
