"""Module or directory to program and weights: the front door of the compiler."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.capture.config_fields import block_in, count_in, end_ids_in
from ascendfx.ir.capture.embedding_rows import check_vocabulary
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import ArraySource, LayeredSource
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.checkpoint.checkpoint_source import (
    CheckpointSource,
    source_of_checkpoint,
)
from ascendfx.runtime.checkpoint.codes_source import codes_of
from ascendfx.runtime.checkpoint.decoded_tensor import tensors_of_model
from ascendfx.runtime.checkpoint.extra_tensors import refuse_extra
from ascendfx.runtime.checkpoint.layer_numbers import check_layers
from ascendfx.runtime.checkpoint.present_file import is_present
from ascendfx.runtime.checkpoint.read_directory import (
    CONFIG,
    read_config,
    read_json,
)
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor
from ascendfx.runtime.checkpoint.tied_tensors import TiedTensors
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
    check_vocabulary(captured.program)
    if isinstance(drafts, bool):
        return captured
    _check_packages("torch")
    from ascendfx.ir.capture.capture_draft import capture_draft  # noqa: PLC0415  # imports torch

    return capture_draft(drafts, main, captured, dtype=dtype)


def _capture_directory(
    directory: Path, dtype: DType | None, trace_folder: Path | None, *, drafts: bool
) -> CapturedModel:
    files = _files_of(directory, drafts=drafts)
    file = trace_file(trace_folder, directory, dtype, drafts=drafts) if trace_folder else None
    traced = read_trace(file) if file else None
    if traced and files.apart(traced.tensors) == traced.tensors.apart:
        source, remarks = files.check(traced.tensors)
    else:
        traced, (source, remarks) = _trace(files, dtype)
        if file:
            write_trace(file, traced)
    facts = replace(
        traced.facts,
        directory=directory,
        end_ids=files.end_ids or traced.facts.end_ids,
        config=files.config,
    )
    sources = (ArraySource(traced.constants), ArraySource(traced.tensors.buffers), source)
    codes = codes_of(source)
    if codes.keys():
        sources = (*sources, codes)
    remarks = (*traced.remarks, *remarks)
    return CapturedModel(traced.program, LayeredSource(sources), facts, remarks, traced.drafts)


@dataclass(frozen=True)
class _Files:
    """What the files of a directory say, before any code of its model runs.

    Attributes:
        directory: In the Hugging Face layout.
        config: The content of ``config.json``.
        stored: Where each tensor is.
        block: Rows and columns of a float8 block.
        layers: Numbers of the draft layers.
        drafts: Whether these are captured, too.
        end_ids: Token ids that end a generation, as ``generation_config.json`` has them.
    """

    directory: Path
    config: dict[str, Any]
    stored: Mapping[str, StoredTensor]
    block: tuple[int, int]
    layers: frozenset[str]
    drafts: bool
    end_ids: tuple[int, ...]

    def apart(self, parts: TensorsOfModel) -> frozenset[str]:
        """Return the other names under which the files hold a tensor of its own."""
        return TiedTensors(self.stored, self.block).different(parts.aliases, parts.wanted)

    def check(self, parts: TensorsOfModel) -> tuple[CheckpointSource, tuple[str, ...]]:
        """Return the weights, and remarks on them.

        Raises:
            GraphError: The tensors of the files are not those of the model.
        """
        _check_drafts(self.stored, parts, self.directory)
        tied = {name: key for name, key in parts.aliases.items() if name not in parts.apart}
        source = source_of_checkpoint(self.stored, parts.wanted, aliases=tied, block=self.block)
        computed = {f".{key.rsplit('.', 1)[-1]}" for key in parts.buffers}
        allowed = {*parts.wanted, *parts.aliases, *parts.copies, *computed}
        left_out = frozenset[str]() if self.drafts else self.layers
        left = refuse_extra(source, self.stored, allowed, left_out)
        unlike = TiedTensors(self.stored, self.block).different(parts.copies, parts.wanted)
        own = (
            f"`{name}` differs from `{parts.copies[name]}`, which the draft layer uses in its "
            "place: fewer drafts may be right"
            for name in sorted(unlike)
        )
        untied = (
            f"`{name}` differs from `{parts.aliases[name]}`: they are not tied, whatever "
            "config.json says"
            for name in sorted(parts.apart)
        )
        return source, (*left, *untied, *own)


def _files_of(directory: Path, *, drafts: bool) -> _Files:
    """Return what files say of a model; every field that we read ourselves is checked here."""
    config = read_config(directory)
    where = str(directory / CONFIG)
    layers = _draft_layers(config, where)
    count_in(config, "max_position_embeddings", where)
    vocabulary = count_in(config, "vocab_size", where)
    end_ids_in(config, where, vocabulary)
    generation = directory / "generation_config.json"
    given = read_json(generation) if is_present(generation) else {}
    end_ids = end_ids_in(given, str(generation), vocabulary)
    block = block_in(config, where)
    stored = tensors_of_model(directory, config)
    check_layers(stored, count_in(config, "num_hidden_layers", where), where)
    if drafts and not layers:
        raise _no_draft(where, "names no `num_nextn_predict_layers`")
    return _Files(directory, config, stored, block, layers, drafts, end_ids)


def _trace(
    files: _Files, dtype: DType | None
) -> tuple[TracedDirectory, tuple[CheckpointSource, tuple[str, ...]]]:
    """Trace the model and its draft layers; what does not fit its files is refused before that."""
    _check_packages("torch", "transformers")
    from ascendfx.ir.capture.build_model import build_model  # noqa: PLC0415  # imports torch
    from ascendfx.ir.capture.capture_module import capture_module  # noqa: PLC0415
    from ascendfx.ir.capture.mtp_layers import mtp_layers, trace_mtp_layer  # noqa: PLC0415
    from ascendfx.ir.capture.untie import untie  # noqa: PLC0415
    from ascendfx.ir.capture.weights_of_module import computed_buffers, weight_types  # noqa: PLC0415

    module = build_model(files.directory, dtype)
    wanted, aliases = weight_types(module)
    apart = files.apart(TensorsOfModel(wanted, aliases, buffers={}))
    untie(module, apart)
    wanted, _ = weight_types(module)
    layers = mtp_layers(module, len(files.layers), dtype) if files.drafts else ()
    tensors = TensorsOfModel(
        wanted=wanted | {key: kind for layer in layers for key, kind in layer.wanted.items()},
        aliases=aliases,
        buffers=computed_buffers(module).tensors,
        copies={name: key for layer in layers for name, key in layer.copies.items()},
        drafts=tuple(layer.path for layer in layers),
        apart=apart,
    )
    checked = files.check(tensors)
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
    ), checked


def _check_drafts(
    stored: Mapping[str, StoredTensor], parts: TensorsOfModel, directory: Path
) -> None:
    """Check that the draft layers are there, and that their copies could be the main tensors."""
    for path in parts.drafts:
        if not any(key.startswith(f"{path}.") for key in stored):
            raise _no_draft(str(directory), f"announces a draft layer, but has no `{path}.*`")
    for key, first in parts.copies.items():
        kind = parts.wanted[first]
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


def draft_layer_count(directory: Path) -> int:
    """Return how many draft layers the configuration of a directory names.

    Raises:
        GraphError: The directory has no configuration, or one whose numbers are none.
    """
    return len(_draft_layers(read_config(directory), str(directory / CONFIG)))


def _check_packages(*names: str) -> None:
    for name in names:
        if find_spec(name) is None:
            raise GraphError(
                code="missing-package",
                reason=f"reading the layout of a model needs the package `{name}`, which is not "
                "installed",
                hint="pip install 'ascendfx[capture]'; to run a package it is not needed",
            )


def _draft_layers(config: Mapping[str, Any], where: str) -> frozenset[str]:
    """Return the numbers of the layers behind the last one, which draft tokens ahead."""
    layers = count_in(config, "num_hidden_layers", where)
    drafts = count_in(config, "num_nextn_predict_layers", where)
    return frozenset(str(layers + i) for i in range(drafts))
