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
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.checkpoint.checkpoint_source import (
    SCALE_SUFFIX,
    CheckpointSource,
    source_of_checkpoint,
)
from ascendfx.runtime.checkpoint.read_directory import read_config, read_json, stored_tensors
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor
from ascendfx.runtime.checkpoint.traced_directory import (
    TensorsOfModel,
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
    drafts: "bool | nn.Module" = False,
) -> CapturedModel:
    """Return the plain forward of a model as a program, and where its weights are.

    No weight is read. Needs torch, and transformers for a directory.

    Args:
        model: A module that maps ids ``[batch, tokens]`` to logits, or a directory in the Hugging
            Face layout with safetensors.
        dtype: Element format of parameters and hidden states; the model's own by default.
        trace_folder: Keeps what tracing a directory yields, so that the next time needs neither
            torch nor transformers; None: trace each time.
        drafts: Whether to capture the draft layers of a directory, too; or a draft module of the
            caller, see `capture_draft`.

    Raises:
        GraphError: The model or the draft cannot be captured, files do not fit it, or a package
            that is needed for capturing is not installed.
    """
    own = drafts is True
    if isinstance(model, str | PathLike):
        main, captured = None, _capture_directory(Path(model), dtype, trace_folder, drafts=own)
    elif own:
        raise _no_draft(f"the module `{type(model).__name__}`", "brings no draft layer")
    else:
        from ascendfx.ir.capture.capture_module import capture_module  # noqa: PLC0415  # torch

        main, captured = model, capture_module(model, dtype=dtype)
    if isinstance(drafts, bool):
        return captured
    _check_packages("torch")
    from ascendfx.ir.capture.capture_draft import capture_draft  # noqa: PLC0415  # imports torch

    return capture_draft(drafts, main, captured, dtype=dtype)


def _capture_directory(
    directory: Path, dtype: DType | None, trace_folder: Path | None, *, drafts: bool
) -> CapturedModel:
    config = read_config(directory)
    stored = stored_tensors(directory)
    if drafts and not _draft_layers(config):
        raise _no_draft(str(directory / "config.json"), "names no `num_nextn_predict_layers`")
    file = trace_file(trace_folder, directory, dtype, drafts=drafts) if trace_folder else None
    traced = read_trace(file) if file else None
    block = (config.get("quantization_config") or {}).get("weight_block_size") or (128, 128)

    def check(parts: TensorsOfModel) -> tuple[CheckpointSource, tuple[str, ...]]:
        _check_drafts(stored, parts, directory)
        source = source_of_checkpoint(stored, parts.wanted, block=(block[0], block[1]))
        computed = {f".{key.rsplit('.', 1)[-1]}" for key in parts.buffers}
        allowed = {*parts.wanted, *parts.aliases, *parts.copies, *computed}
        left_out = frozenset[str]() if drafts else _draft_layers(config)
        return source, _refuse_extra(source, stored, allowed, left_out)

    if traced is None:
        traced = _trace(directory, dtype, check, drafts=len(_draft_layers(config)) if drafts else 0)
        if file:
            write_trace(file, traced)
    source, remarks = check(traced.tensors)
    generation = directory / "generation_config.json"
    ends = end_ids_of(read_json(generation)) if generation.is_file() else ()
    facts = replace(
        traced.facts, directory=directory, end_ids=ends or traced.facts.end_ids, config=config
    )
    sources = (ArraySource(traced.constants), ArraySource(traced.tensors.buffers), source)
    remarks = (*traced.remarks, *remarks)
    return CapturedModel(traced.program, LayeredSource(sources), facts, remarks, traced.drafts)


def _trace(
    directory: Path, dtype: DType | None, check: Callable[[TensorsOfModel], object], *, drafts: int
) -> TracedDirectory:
    """Trace the model and its draft layers; what does not fit its files is refused before that."""
    _check_packages("torch", "transformers")
    from ascendfx.ir.capture.build_model import build_model  # noqa: PLC0415  # imports torch
    from ascendfx.ir.capture.capture_module import capture_module  # noqa: PLC0415
    from ascendfx.ir.capture.mtp_layers import mtp_layers, trace_mtp_layer  # noqa: PLC0415
    from ascendfx.ir.capture.weights_of_module import computed_buffers, weight_types  # noqa: PLC0415

    module = build_model(directory, dtype)
    wanted, aliases = weight_types(module)
    layers = mtp_layers(module, drafts, dtype) if drafts else ()
    tensors = TensorsOfModel(
        wanted=wanted | {key: kind for layer in layers for key, kind in layer.wanted.items()},
        aliases=aliases,
        buffers=computed_buffers(module).tensors,
        copies={key: kind for layer in layers for key, kind in layer.copies.items()},
        drafts=tuple(layer.path for layer in layers),
    )
    check(tensors)
    constants = ArraySource({})
    captured = capture_module(module, weights=constants)
    if isinstance(captured.source, LayeredSource) and isinstance(
        captured.source.sources[0], ArraySource
    ):
        constants = captured.source.sources[0]
    traced = [trace_mtp_layer(layer) for layer in layers]
    of_drafts = {key: array for each in traced for key, array in each.constants.items()}
    return TracedDirectory(
        program=captured.program,
        drafts=tuple(each.program for each in traced),
        facts=captured.facts,
        remarks=(*captured.remarks, *(remark for each in traced for remark in each.remarks)),
        tensors=tensors,
        constants={**constants.tensors, **of_drafts},
    )


def _check_drafts(
    stored: Mapping[str, StoredTensor], parts: TensorsOfModel, directory: Path
) -> None:
    """Check that the draft layers are there, and that their copies could be the main tensors."""
    for path in parts.drafts:
        if not any(key.startswith(f"{path}.") for key in stored):
            raise _no_draft(str(directory), f"announces a draft layer, but has no `{path}.*`")
    for key, kind in parts.copies.items():
        if key in stored and stored[key].shape != kind.shape:
            raise GraphError(
                "wrong-shape",
                f"tensor `{key}` of {stored[key].file} has shape {list(stored[key].shape)}, the "
                f"main model's has {list(kind.shape)}",
                hint="a draft layer uses embedding and head of the main model; one with its own "
                "vocabulary is not supported",
            )


def _no_draft(what: str, why: str) -> GraphError:
    return GraphError(
        "no-draft-layer",
        f"{what} {why}",
        hint="compile with draft_tokens=0, use a checkpoint with its `num_nextn_predict_layers` "
        "layers, or pass a module as draft",
    )


def _refuse_extra(
    source: CheckpointSource,
    stored: Mapping[str, StoredTensor],
    allowed: Collection[str],
    left_out: Collection[str],
) -> tuple[str, ...]:
    """Return a remark about layers that are left out; raise for any other tensor nobody reads."""
    used = {
        part
        for key in allowed
        if key in source.recipes
        for keys in source.recipes[key].parts
        for part in keys
    }
    extra = [key for key in stored if key not in used and not _allowed(key, allowed)]
    unknown = [key for key in extra if not set(left_out).intersection(key.split("."))]
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


def draft_layer_count(directory: Path) -> int:
    """Return how many draft layers the configuration of a directory names.

    Raises:
        GraphError: The directory has no configuration.
    """
    return len(_draft_layers(read_config(directory)))


def _check_packages(*names: str) -> None:
    for name in names:
        if find_spec(name) is None:
            raise GraphError(
                code="missing-package",
                reason=f"reading the layout of a model needs the package `{name}`, which is not "
                "installed",
                hint="pip install 'ascendfx[capture]'; to run a package it is not needed",
            )


def _draft_layers(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the numbers of the layers behind the last one, which draft tokens ahead."""
    layers = int(config.get("num_hidden_layers") or 0)
    drafts = int(config.get("num_nextn_predict_layers") or 0)
    return frozenset(str(layers + i) for i in range(drafts))
