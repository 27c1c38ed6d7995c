"""Module or directory to program and weights: the front door of the compiler."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendfx.ir.capture.captured_model import CapturedModel, end_ids_of
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import ArraySource, LayeredSource
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.runtime.checkpoint.checkpoint_source import (
    SCALE_SUFFIX,
    CheckpointSource,
    source_of_checkpoint,
)
from ascendfx.runtime.checkpoint.read_directory import read_config, read_json, stored_tensors
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor
from ascendfx.runtime.checkpoint.traced_directory import (
    TracedDirectory,
    read_trace,
    trace_file,
    write_trace,
)

if TYPE_CHECKING:
    from torch import nn


def capture_model(
    model: "nn.Module | str | PathLike[str]",
    *,
    dtype: DType | None = None,
    trace_folder: Path | None = None,
) -> CapturedModel:
    """Return the plain forward of a model as a program, and where its weights are.

    No weight is read. Needs torch, and transformers for a directory.

    Args:
        model: A module that maps ids ``[batch, tokens]`` to logits, or a directory in the Hugging
            Face layout with safetensors.
        dtype: Element format of parameters and hidden states; the model's own by default.
        trace_folder: Keeps what tracing a directory yields, so that the next time needs neither
            torch nor transformers; None: trace each time.

    Raises:
        GraphError: The model cannot be captured, its files do not fit it, or a package that is
            needed for capturing is not installed.
    """
    if isinstance(model, str | PathLike):
        return _capture_directory(Path(model), dtype, trace_folder)
    from ascendfx.ir.capture.capture_module import capture_module  # noqa: PLC0415  # imports torch

    return capture_module(model, dtype=dtype)


def _capture_directory(
    directory: Path, dtype: DType | None, trace_folder: Path | None
) -> CapturedModel:
    config = read_config(directory)
    stored = stored_tensors(directory)
    file = trace_file(trace_folder, directory, dtype) if trace_folder else None
    traced = read_trace(file) if file else None
    block = (config.get("quantization_config") or {}).get("weight_block_size") or (128, 128)

    def check(
        wanted: Mapping[str, TensorType], aliases: Collection[str], buffers: Collection[str]
    ) -> tuple[CheckpointSource, tuple[str, ...]]:
        source = source_of_checkpoint(stored, wanted, block=(block[0], block[1]))
        computed = {f".{key.rsplit('.', 1)[-1]}" for key in buffers}
        return source, _refuse_extra(source, stored, {*wanted, *aliases, *computed}, config)

    if traced is None:
        traced = _trace(directory, dtype, check)
        if file:
            write_trace(file, traced)
    source, drafts = check(traced.wanted, traced.aliases, traced.buffers)
    generation = directory / "generation_config.json"
    ends = end_ids_of(read_json(generation)) if generation.is_file() else ()
    facts = replace(
        traced.facts, directory=directory, end_ids=ends or traced.facts.end_ids, config=config
    )
    sources = (ArraySource(traced.constants), ArraySource(traced.buffers), source)
    remarks = (*traced.remarks, *drafts)
    return CapturedModel(traced.program, LayeredSource(sources), facts, remarks)


def _trace(directory: Path, dtype: DType | None, check: Callable[..., object]) -> TracedDirectory:
    """Trace the model; what does not fit its files is refused before the long work."""
    _check_packages("torch", "transformers")
    from ascendfx.ir.capture.build_model import build_model  # noqa: PLC0415  # imports torch
    from ascendfx.ir.capture.capture_module import capture_module  # noqa: PLC0415
    from ascendfx.ir.capture.weights_of_module import computed_buffers, weight_types  # noqa: PLC0415

    module = build_model(directory, dtype)
    wanted, aliases = weight_types(module)
    buffers = computed_buffers(module)
    check(wanted, aliases, buffers.tensors)
    constants = ArraySource({})
    captured = capture_module(module, weights=constants)
    if isinstance(captured.source, LayeredSource) and isinstance(
        captured.source.sources[0], ArraySource
    ):
        constants = captured.source.sources[0]
    return TracedDirectory(
        program=captured.program,
        facts=captured.facts,
        remarks=captured.remarks,
        wanted=wanted,
        aliases=aliases,
        buffers=buffers.tensors,
        constants=constants.tensors,
    )


def _refuse_extra(
    source: CheckpointSource,
    stored: Mapping[str, StoredTensor],
    allowed: Collection[str],
    config: Mapping[str, Any],
) -> tuple[str, ...]:
    """Return a remark about draft layers; raise for any other tensor nobody reads."""
    used = {
        part
        for key in allowed
        if key in source.recipes
        for keys in source.recipes[key].parts
        for part in keys
    }
    extra = [key for key in stored if key not in used and not _allowed(key, allowed)]
    drafts = _draft_layers(config)
    unknown = [key for key in extra if drafts.isdisjoint(key.split("."))]
    if unknown:
        raise GraphError(
            "extra-tensor",
            f"tensor `{unknown[0]}` of {stored[unknown[0]].file} belongs to no parameter",
            notes=(f"{len(unknown)} tensors are not used",) if len(unknown) > 1 else (),
            hint="config.json and the weights belong to different models",
        )
    return (f"{len(extra)} tensors of draft layers are not captured",) if extra else ()


def _allowed(key: str, allowed: Iterable[str]) -> bool:
    """Whether a tensor is a scale, another name of a parameter, or a buffer that is computed."""
    if key.endswith(SCALE_SUFFIX):
        return True
    return key in allowed or any(e.startswith(".") and key.endswith(e) for e in allowed)


def _check_packages(*names: str) -> None:
    for name in names:
        if find_spec(name) is None:
            raise GraphError(
                code="missing-package",
                reason=f"compiling a model needs the package `{name}`, which is not installed",
                hint="pip install 'ascendfx[capture]'; to run a package it is not needed",
            )


def _draft_layers(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the numbers of the layers behind the last one, which draft tokens ahead."""
    layers = int(config.get("num_hidden_layers") or 0)
    drafts = int(config.get("num_nextn_predict_layers") or 0)
    return frozenset(str(layers + i) for i in range(drafts))
