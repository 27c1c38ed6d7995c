"""All values of one run, by operation, module path and line of the model, in one file."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.location import Location
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, Constant, Input, Param
from ascendfx.ir.program import Program
from ascendfx.passes.verification.follow_truth import Truth, follow_truth
from ascendfx.passes.verification.run_with_noise import Noisy, NoisyObserver, tolerance
from ascendfx.runtime.disk_error import wrapped_os_error, writing
from ascendfx.runtime.replaced_file import replacing
from ascendfx.runtime.shown_error import shown_error

_FIELD = "ascendfx tensor dump"


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One value.

    Attributes:
        key: Name of its array in the file: call, function, node, result.
        op: Mnemonic of the operation.
        module: Path of the module of the layer that was called.
        location: The line of the model.
        rounding: How far the rounding of float64 can have moved any element.
    """

    key: str
    op: str
    module: str
    location: str
    rounding: float


@dataclass(frozen=True)
class TensorDump:
    """The values of a run, in order.

    Attributes:
        name: What was run, for people.
        entries: One per value.
        arrays: Float64 values by `TensorEntry.key`.
        tokens: The ids of the text.
    """

    name: str
    entries: tuple[TensorEntry, ...]
    arrays: Mapping[str, Array]
    tokens: tuple[int, ...] = ()

    def module_results(self) -> dict[str, TensorEntry]:
        """Return the last value of each module and of those inside it, in order of completion."""
        last: dict[str, TensorEntry] = {}
        for entry in self.entries:
            for path in _outer_paths(entry.module):
                last.pop(path, None)
                last[path] = entry
        return last


def dump_tensors(
    program: Program, tensors: Mapping[str, Array], tokens: Array, name: str
) -> TensorDump:
    """Return every float value that a program of any form computes from ids ``[1, tokens]``.

    The whole text is one step, so that programs of all forms have values of the same rows.

    Args:
        program: The program.
        tensors: The checkpoint by key.
        tokens: The ids.
        name: What is run, for people.
    """
    recorder = _Recorder(program)
    nothing = np.zeros((*tokens.shape, 1))
    alone = Truth(tokens, (), (nothing, nothing))
    for step in follow_truth(program, tensors, alone, steps=1):
        recorder.arrays.clear()
        recorder.entries.clear()
        step.runner.entry(step.inputs, step.follow, recorder.main, recorder.call)
    ids = tuple(map(int, tokens[0]))
    return TensorDump(name, tuple(recorder.entries), recorder.arrays, ids)


class _Recorder:
    def __init__(self, program: Program) -> None:
        self.entries: list[TensorEntry] = []
        self.arrays: dict[str, Array] = {}
        self._prefixes = list(_prefixes(program))

    def main(self, graph: Graph, position: int, results: tuple[Noisy, ...]) -> None:
        self._keep("entry", graph, position, results, None)

    def call(self, number: int) -> NoisyObserver:
        def keep(graph: Graph, position: int, results: tuple[Noisy, ...]) -> None:
            self._keep(f"call{number}", graph, position, results, self._prefixes[number])

        return keep

    def _keep(
        self,
        where: str,
        graph: Graph,
        position: int,
        results: tuple[Noisy, ...],
        prefix: tuple[str, str] | None,
    ) -> None:
        node = graph.nodes[position]
        if isinstance(node.op, Input | Param | Constant | Call):
            return
        place = _in_layer(node.location, prefix)
        for i, value in enumerate(results):
            if value[0].dtype.kind != "f":
                continue
            key = f"{where}.{graph.name}.{position}.{i}"
            self.arrays[key] = np.ascontiguousarray(value[0], np.float64)
            self.entries.append(
                TensorEntry(key, node.op.mnemonic, place.module, str(place), tolerance(value))
            )


def _prefixes(program: Program) -> Iterator[tuple[str, str]]:
    """Yield for each call the module path of the function, and that of the layer it stands for."""
    first: dict[str, str] = {}
    for node in program.main.nodes:
        if isinstance(node.op, Call):
            formal, key = node.op.keys[0] if node.op.keys else ("", "")
            own = key.removesuffix(formal).removesuffix(".")
            yield first.setdefault(node.op.callee, own), own


def _in_layer(place: Location, prefix: tuple[str, str] | None) -> Location:
    if prefix is None or not place.module.startswith(prefix[0]):
        return place
    return Location(place.file, place.line, prefix[1] + place.module.removeprefix(prefix[0]))


def _outer_paths(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:i]) for i in range(len(parts), 0, -1)] if module else []


def write_tensors_file(file: Path, dump: TensorDump) -> None:
    """Write a dump as safetensors; the metadata says what each array is.

    Raises:
        GraphError: The file cannot be written.
    """
    about = {
        "name": dump.name,
        "tokens": dump.tokens,
        "entries": [asdict(entry) for entry in dump.entries],
    }
    with writing(file), replacing(file) as temporary:
        try:
            save_file(dict(dump.arrays), temporary, metadata={_FIELD: json.dumps(about)})
        except SafetensorError as error:  # it wraps what the system reports
            raise wrapped_os_error(error) from error


def read_tensors_file(file: Path) -> TensorDump:
    """Read a dump.

    Raises:
        GraphError: The file is missing, or holds something else.
    """
    if file.exists() and not file.is_file():
        what = "a directory" if file.is_dir() else "no regular file"
        raise GraphError(
            code="not-a-tensor-dump",
            reason=f"{file} is {what}, not a tensor dump",
            hint="`ascendfx tensors DUMP -o FILE` writes one; a model directory is compared with "
            "PyTorch: `ascendfx compare DIR --eager -p TEXT`",
        )
    try:
        with safe_open(file, framework="numpy") as opened:
            about: dict[str, Any] = json.loads(_about(opened.metadata()))
            arrays = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
        entries = tuple(TensorEntry(**each) for each in about["entries"])
        return TensorDump(about["name"], entries, arrays, tuple(map(int, about["tokens"])))
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise GraphError(
            code="not-a-tensor-dump",
            reason=f"{file} is no tensor dump: {shown_error(error)}",
            hint="`ascendfx tensors DUMP -o FILE` writes one",
        ) from error


def _about(metadata: Mapping[str, str] | None) -> str:
    if not metadata or _FIELD not in metadata:
        raise ValueError("it holds tensors, but does not say of which run")
    return metadata[_FIELD]
