"""What the weights of a directory see of texts, found layer by layer as they are asked for."""

from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import RAISE
from ascendfx.passes.share_common import ShareCommon
from ascendfx.quant_passes.algorithms.weight_algorithm import QuantizedWeight
from ascendfx.quant_passes.calibration.expert_tokens import ExpertTokens, expert_tokens
from ascendfx.quant_passes.calibration.gathered_rows import Collected
from ascendfx.quant_passes.calibration.row_store import RowFileError
from ascendfx.quant_passes.calibration.statistics_by_layer import (
    LayerStatistics,
    statistics_by_layer,
)
from ascendfx.quant_passes.insertion.sites import sites_of
from ascendfx.quant_passes.policy.recipe import Recipe
from ascendfx.quant_passes.quantize_weights import quantized_weight
from ascendfx.quant_passes.statistics import InputStatistics
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.packed_parameters import parts_of
from ascendfx.runtime.disk_error import disk_error
from ascendfx.runtime.progress import Progress, silent

_KEPT = 64
_LATENT_READER = ".kv_b_proj.weight"


@dataclass(frozen=True, slots=True, eq=False)
class MadeWeight:
    """A weight that was made while the model ran.

    Attributes:
        weight: Its codes.
        inputs: What it saw, without moments and rows.
    """

    weight: QuantizedWeight
    inputs: InputStatistics


class CalibratedModel:
    """Runs the model over windows of tokens; one layer of statistics is in memory.

    Weights are asked for in the order of the layers. One that no text reaches, such as that of a
    draft layer, has none.

    If the recipe calibrates with inputs as quantized weights make them, all weights of a layer are
    made, in the order in which they are multiplied, when the first of them is asked for.
    """

    def __init__(
        self,
        program: Program,
        source: TensorSource,
        windows: NDArray[np.int64],
        recipe: Recipe,
        progress: Progress = silent,
    ) -> None:
        """Prepare; nothing is computed yet.

        Args:
            program: The captured program, in the operations of the field.
            source: Its weights.
            windows: Token ids ``[windows, length]``.
            recipe: Says what is to be known of which weight.
            progress: Told about ``calibrate`` in weights whose inputs are known.
        """
        found = sites_of(program)
        self._parts = {
            site.key: parts_of(site.key, site.experts) or ((site.key,),) for site in found
        }
        self._names = {key: tuple(chain(*parts)) for key, parts in self._parts.items()}
        self._places = {
            name: (key, expert)
            for key, parts in self._parts.items()
            for expert, names in enumerate(parts)
            for name in names
        }
        self._recipe, self._progress = recipe, progress
        self._source = source
        follows = recipe.calibration.inputs == "quantized"
        self._made: dict[str, MadeWeight] | None = {} if follows else None
        replaced = self._replaced if follows else None
        self._run = statistics_by_layer(program, source, windows, self._wanted, replaced=replaced)
        self._layer: LayerStatistics | None = None
        self._passed: set[str] = set()
        self._kept: set[str] = set()
        self._total = sum(self._wanted(key) is not None for key in self._parts)
        self.experts: list[ExpertTokens] = []

    def statistics(self, name: str) -> InputStatistics | None:
        """Return what a weight saw, by its name in the checkpoint.

        Without moments if `made` has the weight: it is made then.

        Raises:
            GraphError: A weight is missing; an activation overflowed; `disk-full`, `not-writable`:
                there is no place for rows that are too many for memory.
        """
        if not self._is_wanted(name):
            return None
        if self._made is not None:
            made = self._reached(self._made, name)
            return made.inputs if made else None
        key, expert = self._places[name]
        while self._layer is None or key not in self._layer.rows:
            if key in self._passed:
                raise AssertionError(f"{name} was asked for after its layer had passed")
            if not self._advance():
                return None
        return self._layer.of(key, expert)

    def made(self, name: str) -> QuantizedWeight | None:
        """Return a weight that calibration made; None: it makes none, or not this one.

        Raises:
            GraphError: As `statistics`; what the algorithm raises.
        """
        if self._made is None or not self._is_wanted(name):
            return None
        made = self._reached(self._made, name)
        return made.weight if made else None

    def _is_wanted(self, name: str) -> bool:
        return name in self._places and self._wanted(self._places[name][0]) is not None

    def _reached(self, made: dict[str, MadeWeight], name: str) -> MadeWeight | None:
        key, _ = self._places[name]
        if key in self._passed and key not in self._kept:
            raise AssertionError(f"{name} was asked for after its layer had passed")
        while key not in self._passed:
            if not self._advance():
                return None
        return made.get(name)

    def _advance(self) -> bool:
        """Go on to what is known next; whether there is such."""
        try:
            layer = next(self._run, None)
        except RowFileError as error:
            raise disk_error(Path(gettempdir()), error) from error
        if layer is None:
            return False
        if self._made is not None:
            if self._layer is not None and self._layer.layer != layer.layer:
                self._made.clear()
                self._kept.clear()
            self._kept |= set(layer.rows)
            for key in layer.rows:
                self._made |= self._made_of(layer, key)
        self._layer = layer
        self._passed |= set(layer.rows)
        self.experts += expert_tokens([layer])
        self._progress("calibrate", len(self._passed), self._total)
        return True

    def _made_of(self, layer: LayerStatistics, key: str) -> dict[str, MadeWeight]:
        """Return the weights that a key stands for, made of what they saw."""
        found: dict[str, MadeWeight] = {}
        if not any(map(self._recipe.policy_of, self._names[key])):
            return found
        whole = np.asarray(self._source.load(key))
        for expert, names in enumerate(self._parts[key]):
            for name, part in zip(names, _split(whole, expert, len(names)), strict=True):
                policy = self._recipe.policy_of(name)
                if policy is not None:
                    inputs = layer.of(key, expert)
                    made = quantized_weight(name, part, policy, inputs)
                    small = replace(inputs, moments=None, inputs=None)
                    found[name] = MadeWeight(made, small)
        return found

    def _replaced(self, key: str, expert: int) -> NDArray[Any] | None:
        """Return what a weight has become, in float32; None: it is as it was."""
        names = self._parts[key][expert]
        made = [self._made.get(name) if self._made else None for name in names]
        if not any(made):
            return None
        if None in made:
            parts = _split(np.asarray(self._source.load(key)), expert, len(names))
        else:
            parts = [np.empty(0)] * len(names)
        return np.concatenate(
            [
                part.astype(np.float32) if each is None else each.weight.tensor.decode()
                for each, part in zip(made, parts, strict=True)
            ]
        )

    def _wanted(self, key: str) -> Collected | None:
        names = self._names[key]
        policies = (self._recipe.policy_of(name) for name in names)
        needs = frozenset[str]().union(*(policy.needs for policy in policies if policy))
        cache = self._recipe.cache is not None and key.endswith(_LATENT_READER)
        made = self._made is not None and any(map(self._recipe.policy_of, names))
        if not needs and not cache and not made and len(names) == 1:
            return None
        return Collected("moments" in needs, _KEPT if "inputs" in needs else 0)


def calibrated_model(
    directory: Path,
    windows: NDArray[np.int64],
    recipe: Recipe,
    *,
    trace_folder: Path | None = None,
    progress: Progress = silent,
) -> CalibratedModel:
    """Return the calibration of a directory.

    Raises:
        GraphError: The model cannot be captured.
    """
    program, source = program_over_texts(directory, trace_folder)
    return CalibratedModel(program, source, windows, recipe, progress)


def program_over_texts(
    directory: Path, trace_folder: Path | None = None
) -> tuple[Program, TensorSource]:
    """Return the captured program in the operations of the field, and its weights.

    Raises:
        GraphError: The model cannot be captured.
    """
    captured = capture_model(directory, trace_folder=trace_folder)
    program, _ = run_pipeline(captured.program, (*RAISE, ShareCommon()))
    return program, captured.source


def _split(whole: NDArray[Any], expert: int, parts: int) -> list[NDArray[Any]]:
    """Return the matrices of an expert, which are stacked by rows."""
    return np.split(whole if whole.ndim == 2 else whole[expert], parts)  # axes
