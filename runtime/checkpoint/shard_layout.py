"""Which tensor goes where in the files of a checkpoint, known before any of them is made.

So files are written tensor by tensor, in any order and over several runs, and never copied.
Source of the format: safetensors README, section "Format".
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.checkpoint.planned_tensor import (
    CheckpointForm,
    Part,
    Plan,
    PlannedTensor,
)
from ascendfx.runtime.checkpoint.read_directory import SHARED, index_name
from ascendfx.runtime.checkpoint.safetensors_file import FORMATS

_SPELLED = {form: spelled for spelled, form in FORMATS.items()}
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where the data of a tensor begin: in which file, and at which byte of it."""

    file: str
    begin: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a checkpoint without their data.

    Attributes:
        headers: The first bytes of each file, by its name.
        sizes: Of each file, in bytes.
        places: Of each tensor of the files.
        written: The tensors that are made, in order.
        index: The content of the index.
        index_file: The name of the index.
    """

    headers: Mapping[str, bytes]
    sizes: Mapping[str, int]
    places: Mapping[str, Place]
    written: tuple[PlannedTensor, ...]
    index: Mapping[str, Any]
    index_file: str

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(self.sizes.values())


def lay_out(
    plan: Plan, form: CheckpointForm, *, shard_bytes: int, shared: Mapping[str, str]
) -> Layout:
    """Return where each tensor of a plan goes.

    Args:
        plan: All tensors.
        form: What they are stored as.
        shard_bytes: A file ends before the weight with which it would be larger.
        shared: Tensors that are not written because they equal another one, which each leads to;
            the index says so.

    Raises:
        GraphError: `not-storable`; `bad-plan`: a name twice, nothing at all, or a tensor that
            equals one which is not written or is of another shape.
    """
    by_name = {tensor.name: tensor for tensor in plan}
    if len(by_name) != len(plan) or not plan:
        names = [tensor.name for tensor in plan]
        twice = next((name for name in names if names.count(name) > 1), None)
        reason = f"`{twice}` is planned twice" if twice else "no tensor is planned"
        raise GraphError("bad-plan", reason, hint="plan each tensor of the result once")
    form.check(plan)
    written = tuple(tensor for tensor in plan if tensor.name not in shared)
    groups = list(_shards(written, form, shard_bytes))
    files = [
        f"{form.stem}-{i:05d}-of-{len(groups):05d}.safetensors" for i in range(1, len(groups) + 1)
    ]
    headers: dict[str, bytes] = {}
    sizes: dict[str, int] = {}
    places: dict[str, Place] = {}
    total = 0
    for file, group in zip(files, groups, strict=True):
        # Wide elements first, as the library does: so all of them are aligned.
        ordered = sorted(group, key=lambda part: -part.format.itemsize)
        headers[file] = _header(ordered)
        begin = len(headers[file])
        for part in ordered:
            if part.name in places:
                raise GraphError(
                    "bad-plan", f"tensor `{part.name}` is planned twice", hint="rename one"
                )
            places[part.name] = Place(file, begin)
            begin += part.bytes
        sizes[file] = begin
        total += begin - len(headers[file])
    metadata: dict[str, Any] = {"total_size": total}
    if shared:
        metadata[SHARED] = dict(_equal_parts(by_name, form, shared))
    weight_map = {name: place.file for name, place in sorted(places.items())}
    index = {"metadata": metadata, "weight_map": weight_map}
    return Layout(headers, sizes, places, written, index, index_name(form.stem))


def _shards(
    written: Sequence[PlannedTensor], form: CheckpointForm, limit: int
) -> Iterator[list[Part]]:
    """Yield the tensors of each file; those of one weight stay together."""
    group: list[Part] = []
    size = 0
    for tensor in written:
        parts = form.parts(tensor)
        needed = sum(part.bytes for part in parts)
        if group and size + needed > limit:
            yield group
            group, size = [], 0
        group += parts
        size += needed
    yield group


def _header(parts: Sequence[Part]) -> bytes:
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for part in parts:
        table[part.name] = {
            "dtype": _SPELLED[part.format],
            "shape": list(part.shape),
            "data_offsets": [start, start + part.bytes],
        }
        start += part.bytes
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _equal_parts(
    by_name: Mapping[str, PlannedTensor], form: CheckpointForm, shared: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for name, first in sorted(shared.items()):
        if name not in by_name or first not in by_name or first in shared:
            reason = f"`{name}` is to equal `{first}`, and one of them is not written"
            raise GraphError("bad-plan", reason, hint="name a tensor that is written")
        own, other = (form.parts(by_name[each]) for each in (name, first))
        if [(a.format, a.shape) for a in own] != [(b.format, b.shape) for b in other]:
            reason = f"`{name}` is to equal `{first}`, and is stored otherwise"
            raise GraphError("bad-plan", reason, hint="give both the same policy")
        yield from ((a.name, b.name) for a, b in zip(own, other, strict=True))
