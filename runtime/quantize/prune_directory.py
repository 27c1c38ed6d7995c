"""A model directory with fewer routed experts, as another directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.checkpoint.hf_form import HfForm
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.expert_pruning.expert_evidence import ExpertEvidence, expert_evidence
from ascendfx.quant_passes.expert_pruning.kept_experts import (
    kept_experts,
    routing_of,
    super_experts,
)
from ascendfx.quant_passes.expert_pruning.pruned_source import (
    PrunedSource,
    layers_with_experts,
    norm_scores,
)
from ascendfx.quant_passes.policy.recipe import Calibration
from ascendfx.quant_passes.quantize_weights import layer_of
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from ascendfx.runtime.checkpoint.read_directory import read_config
from ascendfx.runtime.checkpoint.write_checkpoint import (
    WriteOptions,
    WrittenCheckpoint,
    write_checkpoint,
)
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.quantize.calibrated_model import program_over_texts
from ascendfx.runtime.quantize.forms import dtype_of
from ascendfx.runtime.quantize.read_mixture import read_mixture

Worth = Literal["reap", "frequency", "norm"]
WORTHS: tuple[Worth, ...] = ("reap", "frequency", "norm")
"""What experts are judged by."""


@dataclass(frozen=True, slots=True)
class PrunedLayer:
    """What became of the experts of a layer.

    Attributes:
        layer: What the keys of its experts begin with.
        kept: Those that stay.
        protected: Those that stay whatever they score.
        share: The share of the choices of all tokens that went to those that stay; None: no text
            reaches the layer.
    """

    layer: str
    kept: tuple[int, ...]
    protected: tuple[int, ...]
    share: float | None


@dataclass(frozen=True, slots=True)
class PrunedDirectory:
    """What was written.

    Attributes:
        written: Where it is, and how large.
        layers: What became of the experts, layer by layer.
    """

    written: WrittenCheckpoint
    layers: tuple[PrunedLayer, ...]


def prune_directory(
    directory: Path,
    count: int,
    output: Path,
    *,
    worth: Worth = "reap",
    calibration: Calibration | None = None,
    trace_folder: Path | None = None,
    progress: Progress = silent,
) -> PrunedDirectory:
    """Write a model with fewer routed experts, as Hugging Face shards in the model's format.

    As many of each group of a layer stay, the same number in all layers. Layers that no text
    reaches, such as draft layers, are judged by the norms of their weights. A run that was stopped
    is gone on with.

    Args:
        directory: In the Hugging Face layout, its weights in any form that is read.
        count: Experts per layer that stay.
        output: The directory to be.
        worth: ``reap``: what an expert adds to a token that chooses it, and extreme ones stay;
            ``frequency``: how often it is chosen; ``norm``: the norms of its weights, without data.
        calibration: Texts; not needed by ``norm``.
        trace_folder: As of `capture_model`.
        progress: Told about ``write weights``.

    Raises:
        GraphError: `bad-pruning`; `texts-missing`; `bad-texts`; what capturing and writing raise.
    """
    config = dict(read_config(directory))
    routing = routing_of(config)
    routing.check(count)
    known: Mapping[str, ExpertEvidence] = {}
    if worth != "norm":
        if calibration is None or not calibration.texts:
            reason = f"judging experts by `{worth}` needs texts, and none are given"
            hint = "pass texts, or judge by `norm`"
            raise GraphError("texts-missing", reason, hint=hint)
        windows = read_mixture(directory, config, calibration).windows
        program, weights = program_over_texts(directory, trace_folder)
        known = {each.layer: each for each in expert_evidence(program, weights, windows)}
    source = open_checkpoint(directory, delivered=dtype_of(config))
    layers: list[PrunedLayer] = []
    for layer in sorted(layers_with_experts(source), key=layer_of):
        evidence = known.get(layer)
        protected: tuple[int, ...] = ()
        if evidence is None:
            scores = norm_scores(source, layer, routing.experts)
        elif worth == "reap":
            scores, protected = evidence.reap, super_experts(evidence.peaks)
        else:
            scores = evidence.frequency
        kept = kept_experts(scores, count, routing, protected)
        layers.append(PrunedLayer(layer, kept, protected, _share(evidence, kept)))
    pruned = PrunedSource(source, {each.layer: each.kept for each in layers})
    plan = [_planned(pruned, key) for key in sorted(pruned.keys(), key=layer_of)]
    origin = f"{directory.resolve()}\n{layers!r}"
    config["n_routed_experts"] = count
    options = WriteOptions(config, beside=directory, origin=origin, progress=progress)
    return PrunedDirectory(write_checkpoint(output, plan, HfForm(), options), tuple(layers))


def _share(evidence: ExpertEvidence | None, kept: tuple[int, ...]) -> float | None:
    if evidence is None:
        return None
    tokens: NDArray[np.int64] = evidence.tokens
    return float(tokens[list(kept)].sum() / max(1, tokens.sum()))


def _planned(source: PrunedSource, key: str) -> PlannedTensor:
    return PlannedTensor(
        key,
        source.shape(key),
        source.dtype(key),
        None,
        lambda: SavedWeight(source.load(key)),
    )
