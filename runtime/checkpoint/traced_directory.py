"""What tracing a model directory yields, and a file that keeps it for the next time.

Tracing needs torch and transformers and takes most of the time of a compilation, and its result
depends on nothing but ``config.json``, the element format and the versions of the code. The file
is safetensors: the computed buffers as tensors, everything else as JSON in the metadata. Lines of
the model are kept by the portable names of their files, since clones and virtual environments
share the folder and each has these files somewhere else.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import ascendfx.ir
from ascendfx.ir.capture.captured_model import ModelFacts
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.ir.portable_path import local_file, portable_name
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.text.literal import read_types
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.runtime.emulator.kernel_cache import default_cache_dir
from ascendfx.runtime.replaced_file import replacing

_STORED = frozenset(
    np.dtype(each) for each in (np.float32, np.float64, np.int64, np.int32, np.bool_)
)
_FIELD = "traced"


def trace_folder_of(kernel_cache: Path | None) -> Path | None:
    """Return the folder for traced models beside the built kernels; None if there is no place."""
    try:
        return (kernel_cache or default_cache_dir()) / "traces"
    except GraphError:  # no home directory: trace each time
        return None


@dataclass(frozen=True)
class TensorsOfModel:
    """Which tensors a directory must have, and which it may have.

    Attributes:
        wanted: Type of each tensor to load, by key.
        aliases: The first name of each shared tensor, by its other names.
        buffers: Buffers that the module's constructor computed.
        copies: What draft layers repeat of the main model: its name there, by that in the layer.
        drafts: Where draft layers are.
        apart: Which of ``aliases`` are tensors of their own, because the files hold other values
            under them; they are among the wanted ones.
    """

    wanted: Mapping[str, TensorType]
    aliases: Mapping[str, str]
    buffers: Mapping[str, NDArray[Any]]
    copies: Mapping[str, str] = field(default_factory=dict[str, str])
    drafts: tuple[str, ...] = ()
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TracedDirectory:
    """A directory's model without its weights.

    Attributes:
        program: The captured program.
        drafts: The captured draft layers, if they were asked for.
        facts: What else is known of the model; directory, configuration and end ids are set anew
            each time, they are read from the directory.
        remarks: Of the capture.
        tensors: What the directory's files are checked against.
        constants: Tensors that the trace found in the code.
    """

    program: Program
    drafts: tuple[Program, ...]
    facts: ModelFacts
    remarks: tuple[str, ...]
    tensors: TensorsOfModel
    constants: Mapping[str, NDArray[Any]]


def trace_file(
    folder: Path, directory: Path, dtype: DType | None, *, drafts: bool = False
) -> Path | None:
    """Return the file for a directory, or None if code of its own decides what the model is."""
    config = (directory / "config.json").read_bytes()
    if b"auto_map" in config:
        return None
    digest = hashlib.sha256(_code_digest())
    for text in (platform.python_version(), *map(_version, ("torch", "transformers", "numpy"))):
        digest.update(text.encode() + b"\0")
    layers = b"with drafts" if drafts else b""
    digest.update((dtype.value if dtype else "own").encode() + b"\0" + layers + b"\0" + config)
    return folder / f"{digest.hexdigest()[:32]}.safetensors"


def read_trace(file: Path) -> TracedDirectory | None:
    """Return what a file keeps, or None if it is missing or damaged: then trace again."""
    try:
        with safe_open(file, framework="numpy") as opened:
            plain = json.loads(opened.metadata()[_FIELD])
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        tensors = TensorsOfModel(
            wanted=_read_types(plain["wanted"]),
            aliases=dict(plain["aliases"]),
            buffers=_with_prefix(arrays, "buffer:"),
            copies=dict(plain["copies"]),
            drafts=tuple(plain["layers"]),
            apart=frozenset(plain["apart"]),
        )
        return TracedDirectory(
            program=_read_program(plain["program"]),
            drafts=tuple(map(_read_program, plain["drafts"])),
            facts=_facts(plain["facts"]),
            remarks=tuple(plain["remarks"]),
            tensors=tensors,
            constants=_with_prefix(arrays, "constant:"),
        )
    except (OSError, SafetensorError, GraphError, ValueError, KeyError, TypeError):
        return None


def write_trace(file: Path, traced: TracedDirectory) -> None:
    """Keep ``traced``; what cannot be kept is traced again the next time.

    A line of a file that is of no installed package cannot: another installation may have the same
    versions and other lines there.
    """
    tensors = traced.tensors
    arrays = {f"buffer:{name}": array for name, array in tensors.buffers.items()}
    arrays |= {f"constant:{name}": array for name, array in traced.constants.items()}
    recipes = any(each.recipes for each in (traced.program, *traced.drafts))
    if recipes or not all(each.dtype in _STORED for each in arrays.values()):
        return
    programs = list(map(_plain_program, (traced.program, *traced.drafts)))
    if any(name is None for each in programs for name, _, _ in each["places"]):
        return
    facts = traced.facts
    plain = {
        "program": programs[0],
        "drafts": programs[1:],
        "facts": {
            "name": facts.name,
            "dtype": facts.dtype.value,
            "vocabulary": facts.vocabulary,
            "max_positions": facts.max_positions,
            "end_ids": list(facts.end_ids),
        },
        "remarks": list(traced.remarks),
        "wanted": {name: str(kind) for name, kind in tensors.wanted.items()},
        "aliases": dict(tensors.aliases),
        "apart": sorted(tensors.apart),
        "copies": dict(tensors.copies),
        "layers": list(tensors.drafts),
    }
    with suppress(OSError, SafetensorError, GraphError):
        file.parent.mkdir(parents=True, exist_ok=True)
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        with replacing(file) as temporary:
            save_file(contiguous, temporary, metadata={_FIELD: json.dumps(plain)})


def _facts(plain: Mapping[str, Any]) -> ModelFacts:
    return ModelFacts(
        name=plain["name"],
        dtype=DType(plain["dtype"]),
        vocabulary=plain["vocabulary"],
        max_positions=plain["max_positions"],
        end_ids=tuple(plain["end_ids"]),
    )


def _read_types(plain: Mapping[str, str]) -> dict[str, TensorType]:
    return {name: read_types(text, UNKNOWN)[0] for name, text in plain.items()}


def _plain_program(program: Program) -> dict[str, Any]:
    places, locations = _places(program)
    return {"text": print_program(program), "places": places, "locations": locations}


def _read_program(plain: Mapping[str, Any]) -> Program:
    return _located(parse_program(plain["text"]), plain["places"], plain["locations"])


def _places(program: Program) -> tuple[list[list[Any]], list[list[int]]]:
    """Return the distinct locations, and for each graph the number of each node's.

    Files have their portable names, None if they have none.
    """
    numbers: dict[Location, int] = {}
    table = [
        [numbers.setdefault(node.location, len(numbers)) for node in graph.nodes]
        for graph in program.graphs
    ]
    return [[_kept_name(place.file), place.line, place.module] for place in numbers], table


def _located(program: Program, places: list[list[Any]], locations: list[list[int]]) -> Program:
    known = [Location(_file_here(name), line, module) for name, line, module in places]
    graphs = tuple(
        Graph(
            graph.name,
            tuple(
                replace(node, location=known[number])
                for node, number in zip(graph.nodes, numbers, strict=True)
            ),
            graph.outputs,
        )
        for graph, numbers in zip(program.graphs, locations, strict=True)
    )
    return Program(graphs)


def _kept_name(file: str) -> str | None:
    return file if file == UNKNOWN.file else portable_name(file)


def _file_here(name: str) -> str:
    """Return the file of a portable name.

    Raises:
        ValueError: This installation has none.
    """
    file = name if name == UNKNOWN.file else local_file(name)
    if file is None:
        raise ValueError(f"no {name} is installed")
    return file


def _with_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(prefix): each for name, each in arrays.items() if name.startswith(prefix)
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _code_digest() -> bytes:
    """Return a hash of the sources that decide what a capture yields."""
    digest = hashlib.sha256()
    for folder in (Path(ascendfx.ir.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.digest()
