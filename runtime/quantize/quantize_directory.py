"""From a model directory and a recipe to a quantized directory, or to what that would be."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.calibration.expert_tokens import ExpertTokens
from ascendfx.quant_passes.calibration.mixture import Mixture
from ascendfx.quant_passes.policy.recipe import Recipe, RecipeLine, draft_layers
from ascendfx.quant_passes.quantize_weights import MadeBefore, Quantization, StatisticsOf
from ascendfx.quant_passes.statistics import InputStatistics, without_tokens
from ascendfx.runtime.checkpoint.dry_run import DryRun, dry_run
from ascendfx.runtime.checkpoint.open_checkpoint import Checkpoint, open_checkpoint
from ascendfx.runtime.checkpoint.read_directory import read_config
from ascendfx.runtime.checkpoint.write_checkpoint import (
    WriteOptions,
    WrittenCheckpoint,
    write_checkpoint,
)
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.quantize.calibrated_model import CalibratedModel, calibrated_model
from ascendfx.runtime.quantize.forms import dtype_of, form_named
from ascendfx.runtime.quantize.read_mixture import read_mixture


@dataclass(frozen=True, slots=True)
class QuantizedDirectory:
    """What was written, and what is to be known of it.

    Attributes:
        written: Where it is, and how large.
        remarks: What algorithms say of weights, by name; not of those that an earlier run made.
        experts: Tokens of experts, if texts were read.
        mixture: What calibration read; None: nothing.
    """

    written: WrittenCheckpoint
    remarks: Mapping[str, tuple[Remark, ...]]
    experts: tuple[ExpertTokens, ...]
    mixture: Mixture | None


@dataclass(frozen=True, slots=True)
class QuantizationEstimate:
    """What quantizing a directory would do.

    Attributes:
        run: Kinds, sizes, time without calibration.
        idle: Lines of the recipe that decide about no weight.
        mixture: What calibration would read; None: nothing.
    """

    run: DryRun
    idle: tuple[RecipeLine, ...]
    mixture: Mixture | None


def quantize_directory(
    directory: Path,
    recipe: Recipe,
    output: Path,
    *,
    form: str = "ascend",
    trace_folder: Path | None = None,
    progress: Progress = silent,
) -> QuantizedDirectory:
    """Write the weights of a directory as a recipe says; a run that was stopped is gone on with.

    Texts are read if the recipe needs them. One weight is in memory at a time, and, with texts,
    one layer of weights and statistics.

    Args:
        directory: In the Hugging Face layout, its weights in any form that is read.
        recipe: What becomes of which weight.
        output: The directory to be.
        form: ``ascend``, ``compressed-tensors`` or ``hf``.
        trace_folder: As of `capture_model`; used if texts are read.
        progress: Told about ``calibrate`` and ``write weights``.

    Raises:
        GraphError: What the recipe asks for cannot be made of the weights or stored in the form;
            `bad-texts`; what reading and writing raise.
    """
    job = _Job(directory, recipe, form)
    mixture = job.mixture()
    model: CalibratedModel | None = None
    if mixture is not None:
        model = calibrated_model(
            directory, mixture.windows, recipe, trace_folder=trace_folder, progress=progress
        )
    task = job.quantization(
        _statistics_of(job.source, model) if model else None, model.made if model else None
    )
    origin = f"{recipe!r}\n{directory.resolve()}\n{_digest(mixture)}"
    options = WriteOptions(job.config, beside=directory, origin=origin, progress=progress)
    written = write_checkpoint(output, task.plan(), job.form, options)
    experts = tuple(model.experts) if model else ()
    return QuantizedDirectory(written, task.remarks, experts, mixture)


def estimate_quantization(
    directory: Path, recipe: Recipe, *, form: str = "ascend"
) -> QuantizationEstimate:
    """Return what `quantize_directory` would do: nothing is written, one weight of a kind is made.

    No model is run: algorithms that need data are tried as if no token had come.

    Raises:
        GraphError: As `quantize_directory`.
    """
    job = _Job(directory, recipe, form)
    mixture = job.mixture()
    task = job.quantization(lambda key: _one_token(job.source, key))
    run = dry_run(task.plan(), job.form, WriteOptions(job.config))
    return QuantizationEstimate(run, task.idle_lines(), mixture)


class _Job:
    """What both have in common."""

    def __init__(self, directory: Path, recipe: Recipe, form: str) -> None:
        self.directory, self.recipe = directory, recipe
        self.config: dict[str, Any] = read_config(directory)
        dtype = dtype_of(self.config)
        self.source = open_checkpoint(directory, delivered=dtype)
        self.form = form_named(form, dtype)
        if recipe.cache is not None and form != "ascend":
            reason = f"{form} has no place for the scales of an int8 latent cache"
            hint = "take `ascend`, or a recipe without `kv_cache`"
            raise GraphError("cache-not-storable", reason, hint=hint)

    def mixture(self) -> Mixture | None:
        """Return the texts, if the recipe needs them.

        Raises:
            GraphError: `texts-missing`: it names none; `bad-texts`.
        """
        if not self.recipe.needs:
            return None
        if not self.recipe.calibration.texts:
            needs = ", ".join(sorted(self.recipe.needs))
            reason = f"recipe `{self.recipe.name}` needs {needs} of inputs, and names no texts"
            hint = "add `calibration:` with `texts:`, or pass texts"
            raise GraphError("texts-missing", reason, hint=hint)
        return read_mixture(self.directory, self.config, self.recipe.calibration)

    def quantization(
        self, statistics: StatisticsOf | None, made: MadeBefore | None = None
    ) -> Quantization:
        """Return what is to be made of the weights."""
        drafts = draft_layers(self.config)
        if statistics is None:
            return Quantization(self.recipe, self.source, drafts)
        before: MadeBefore = made or (lambda _key: None)
        return Quantization(self.recipe, self.source, drafts, statistics, before)


def _statistics_of(
    source: Checkpoint, model: CalibratedModel
) -> Callable[[str], InputStatistics | None]:
    """Return what weights saw; those that no text can reach saw no tokens."""

    def statistics(key: str) -> InputStatistics | None:
        return model.statistics(key) or without_tokens(source.shape(key)[-1])

    return statistics


def _one_token(source: Checkpoint, key: str) -> InputStatistics:
    """Return statistics of one token of zeros: enough to try a weight."""
    empty = without_tokens(source.shape(key)[-1])
    return InputStatistics(
        1, empty.minimum, empty.maximum, empty.mean_abs, empty.moments, empty.inputs
    )


def _digest(mixture: Mixture | None) -> str:
    return "" if mixture is None else hashlib.sha256(mixture.windows.tobytes()).hexdigest()
