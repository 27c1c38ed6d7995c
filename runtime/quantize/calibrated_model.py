"""What the weights of a directory see of texts, found layer by layer as they are asked for."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import RAISE
from ascendfx.passes.share_common import ShareCommon
from ascendfx.quant_passes.calibration.expert_tokens import ExpertTokens, expert_tokens
from ascendfx.quant_passes.calibration.statistics_by_layer import (
    Collected,
    LayerStatistics,
    statistics_by_layer,
)
from ascendfx.quant_passes.insertion.sites import Site, sites_of
from ascendfx.quant_passes.policy.recipe import Recipe
from ascendfx.quant_passes.statistics import InputStatistics
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.packed_parameters import parts_of
from ascendfx.runtime.progress import Progress, silent

_KEPT = 64
_LATENT_READER = ".kv_b_proj.weight"


class CalibratedModel:
    """Runs the model over windows of tokens; one layer of statistics is in memory.

    Weights are asked for in the order of the layers. One that no text reaches, such as that of a
    draft layer, has none.
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
        sites = {site.key: site for site in sites_of(program)}
        self._places = dict(_places(sites))
        self._names: dict[str, list[str]] = {}
        for name, (key, _) in self._places.items():
            self._names.setdefault(key, []).append(name)
        self._recipe, self._progress = recipe, progress
        self._run = statistics_by_layer(program, source, windows, self._wanted)
        self._layer: LayerStatistics | None = None
        self._passed: set[str] = set()
        self._total = sum(self._wanted(key) is not None for key in sites)
        self.experts: list[ExpertTokens] = []

    def statistics(self, name: str) -> InputStatistics | None:
        """Return what a weight saw, by its name in the checkpoint.

        Raises:
            GraphError: A weight is missing; an activation overflowed.
        """
        if name not in self._places:
            return None
        key, expert = self._places[name]
        while self._layer is None or key not in self._layer.rows:
            if key in self._passed:
                raise AssertionError(f"{name} was asked for after its layer had passed")
            layer = next(self._run, None)
            if layer is None:
                return None
            self._layer = layer
            self._passed |= set(layer.rows)
            self.experts += expert_tokens([layer])
            self._progress("calibrate", len(self._passed), self._total)
        return self._layer.of(key, expert)

    def _wanted(self, key: str) -> Collected | None:
        names = self._names[key]
        policies = (self._recipe.policy_of(name) for name in names)
        needs = frozenset[str]().union(*(policy.needs for policy in policies if policy))
        cache = self._recipe.cache is not None and key.endswith(_LATENT_READER)
        if not needs and not cache and len(names) == 1:
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


def _places(sites: Mapping[str, Site]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield each name of a checkpoint with the weight of the program that it is a part of."""
    for key, site in sites.items():
        parts = parts_of(key, site.experts) or ((key,),)
        for expert, names in enumerate(parts):
            for name in names:
                yield name, (key, expert)
