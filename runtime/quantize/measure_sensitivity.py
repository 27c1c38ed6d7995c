"""How sensitive the weights of a directory are, and what their choices cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.quant_passes.calibration.mixture import Mixture
from ascendfx.quant_passes.checkpoint.ascend_limits import loaded_with
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.mixed_precision.best_choices import Limit, Table, total
from ascendfx.quant_passes.mixed_precision.measure_units import JudgedUnit, measure_units
from ascendfx.quant_passes.mixed_precision.measures import (
    Divergence,
    IqrOfInputs,
    IqrOfWeights,
    Measure,
    OutputError,
)
from ascendfx.quant_passes.mixed_precision.reference_run import ReferenceRun
from ascendfx.quant_passes.mixed_precision.unit_costs import (
    PieceCost,
    bytes_per_token,
    costs_of,
    is_storable,
    stored_bytes,
)
from ascendfx.quant_passes.mixed_precision.units_of import alone, units_of
from ascendfx.quant_passes.policy.recipe import Calibration, Recipe, draft_layers, is_draft
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from ascendfx.runtime.checkpoint.read_directory import read_config
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.quantize.calibrated_model import program_over_texts
from ascendfx.runtime.quantize.forms import dtype_of, form_named
from ascendfx.runtime.quantize.modelled_seconds import modelled_seconds
from ascendfx.runtime.quantize.pieces_of import pieces_of
from ascendfx.runtime.quantize.read_mixture import read_mixture

MEASURES = (OutputError.name, Divergence.name, IqrOfWeights.name, IqrOfInputs.name)
"""Measures by the names that users have for them."""
BYTES, TOKEN_BYTES, SECONDS = "bytes", "bytes per token", "seconds"
"""Costs by name."""
_LOADED_AS_ONE: Mapping[str, Callable[[str], str]] = {
    "ascend": loaded_with,
    "compressed-tensors": loaded_with,  # vLLM and vllm-ascend fuse the same
    "hf": alone,
}


@dataclass(frozen=True, slots=True)
class SensitivityOptions:
    """What is measured, and what a step is.

    Attributes:
        measure: One of `MEASURES`.
        form: Of the checkpoint to be: its limits hold, its sizes count.
        by_expert: Whether experts of a layer may differ; loaders of `ascend` and
            `compressed-tensors` want one type for all.
        places: Tokens on which `kl` compares predictions.
        rows: Tokens of a decode step, for bytes and time per step.
        target: The chip, for time.
    """

    measure: str = OutputError.name
    form: str = "ascend"
    by_expert: bool = False
    places: int = 2048
    rows: int = 32
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What there is to choose in a directory.

    Attributes:
        judged: Units with a score for each choice.
        base: What becomes of all other weights.
        costs: By name, of each choice of each unit.
        fixed: By name, what all other weights cost.
        measure: Name of the scores.
        mixture: What calibration read; None: nothing.
    """

    judged: tuple[JudgedUnit, ...]
    base: Recipe
    costs: Mapping[str, Table]
    fixed: Mapping[str, float]
    measure: str
    mixture: Mixture | None = None

    @property
    def scores(self) -> Table:
        """Of each choice of each unit."""
        return tuple(each.scores for each in self.judged)

    def limit(self, name: str, most: float) -> Limit:
        """Return a limit on what the whole checkpoint, or a whole step, costs.

        Args:
            name: Of the cost.
            most: The limit.
        """
        return Limit(name, self.costs[name], most, self.fixed[name])

    def uniform(self, cost: str) -> Mapping[str, tuple[float, float]]:
        """Return cost and score of following one recipe everywhere, by its name.

        Args:
            cost: Its name.
        """
        choices = [each.unit.choices for each in self.judged]
        names = dict.fromkeys(name for each in choices for c in each for name in c.recipes)
        found: dict[str, tuple[float, float]] = {}
        for name in names:
            at = [
                next((i for i, c in enumerate(each) if name in c.recipes), -1) for each in choices
            ]
            if min(at) >= 0:
                found[name] = total(self.costs[cost], at) + self.fixed[cost], total(self.scores, at)
        return found


def measure_sensitivity(
    directory: Path,
    recipes: Sequence[Recipe],
    options: SensitivityOptions | None = None,
    *,
    calibration: Calibration | None = None,
    trace_folder: Path | None = None,
    progress: Progress = silent,
) -> Sensitivity:
    """Return how sensitive the weights of a directory are to what recipes make of them.

    Weights and statistics of one layer are in memory; for ``kl`` the whole model in float32.

    Args:
        directory: In the Hugging Face layout.
        recipes: What may become of weights. The first one decides about those that the main model
            does not multiply by, such as draft layers; all of them about what is kept.
        options: What is measured.
        calibration: Texts; None: those of the first recipe that names some.
        trace_folder: As of `capture_model`.
        progress: Told about ``measure`` in units.

    Raises:
        GraphError: `nothing-to-choose`: the recipes agree everywhere; `texts-missing`: no
            texts are named; `bad-texts`; what capturing, algorithms and measures raise.
    """
    chosen = options or SensitivityOptions()
    job = _Job(directory, recipes, chosen, trace_folder)
    mixture = job.mixture(calibration)
    windows = None if mixture is None else mixture.windows
    measure = job.measure(windows)
    judged: list[JudgedUnit] = []
    for each in measure_units(job.units, measure, job.program, job.source, windows):
        judged.append(each)
        progress("measure", len(judged), len(job.units))
    order = {unit.name: place for place, unit in enumerate(job.units)}
    judged.sort(key=lambda each: order[each.unit.name])
    costs = {
        name: tuple(costs_of(unit, cost) for unit in job.units) for name, cost in job.costs.items()
    }
    fixed = dict.fromkeys(costs, 0.0) | {BYTES: float(job.fixed_bytes())}
    return Sensitivity(tuple(judged), recipes[0], costs, fixed, chosen.measure, mixture)


class _Job:
    """A directory, what there is to choose in it, and what that costs."""

    def __init__(
        self,
        directory: Path,
        recipes: Sequence[Recipe],
        options: SensitivityOptions,
        trace_folder: Path | None,
    ) -> None:
        self._directory, self._recipes, self._options = directory, recipes, options
        self._config: dict[str, Any] = read_config(directory)
        self._dtype = dtype_of(self._config)
        self._form = form_named(options.form, self._dtype)
        self._stored = open_checkpoint(directory, delivered=self._dtype)
        self.program: Program
        self.source: TensorSource
        self.program, self.source = program_over_texts(directory, trace_folder)
        self.units = units_of(
            pieces_of(self.program, set(self._stored.keys())),
            recipes,
            together=_LOADED_AS_ONE[options.form],
            by_expert=options.by_expert,
            storable=is_storable(self._form, self._dtype),
        )

    @property
    def costs(self) -> Mapping[str, PieceCost]:
        """What is counted, by name."""
        rows, chosen = self._options.rows, self._config.get("num_experts_per_tok", 1)
        found: dict[str, PieceCost] = {
            BYTES: stored_bytes(self._form, self._dtype),
            TOKEN_BYTES: bytes_per_token(self._form, self._dtype, chosen=chosen, rows=rows),
        }
        if self._options.target is not None:
            target = self._options.target
            found[SECONDS] = modelled_seconds(target, self._dtype, chosen=chosen, rows=rows)
        return found

    def mixture(self, calibration: Calibration | None) -> Mixture | None:
        """Return what is read for calibration and comparison, if anything needs it."""
        offered = [policy for unit in self.units for c in unit.choices for policy in c.policies]
        data_free = self._options.measure == IqrOfWeights.name
        if data_free and not any(policy.needs for policy in offered if policy):
            return None
        found = calibration or next(
            (each.calibration for each in self._recipes if each.calibration.texts), None
        )
        if found is None or not found.texts:
            reason = f"measuring `{self._options.measure}` needs texts, and no recipe names any"
            hint = f"pass texts, or measure `{IqrOfWeights.name}` with recipes that need no data"
            raise GraphError("texts-missing", reason, hint=hint)
        return read_mixture(self._directory, self._config, found)

    def measure(self, windows: NDArray[np.int64] | None) -> Measure:
        """Return the measure; of `kl`, the model has been run as it is."""
        if self._options.measure != Divergence.name:
            return {each.name: each for each in (OutputError(), IqrOfWeights(), IqrOfInputs())}[
                self._options.measure
            ]
        if windows is None:
            raise AssertionError("texts are needed to compare predictions")
        count = max(1, self._options.places // windows.shape[1])
        return Divergence(ReferenceRun(self.program, self.source, windows[:count]))

    def fixed_bytes(self) -> int:
        """Return the size of all tensors about which nothing is chosen."""
        return sum(part.bytes for planned in self._others() for part in self._form.parts(planned))

    def _others(self) -> Iterator[PlannedTensor]:
        chosen = {name for unit in self.units for name in unit.names}
        drafts, base = draft_layers(self._config), self._recipes[0]
        for key in self._stored.keys():  # noqa: SIM118  # not a mapping
            if key in chosen:
                continue
            policy = base.policy_of(key, draft=is_draft(key, drafts))
            scheme = policy.scheme if policy else None
            shape, dtype = self._stored.shape(key), self._stored.dtype(key)
            yield PlannedTensor(key, shape, dtype, scheme, _not_made)


def _not_made() -> SavedWeight:
    raise AssertionError("only sizes are asked for")
