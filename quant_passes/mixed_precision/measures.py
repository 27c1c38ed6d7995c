"""What a choice costs in quality: four measures, each a number per choice of a unit."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.quant_passes.checkpoint.saved_weight import Activation
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.mixed_precision.iqr_score import iqr_score
from ascendfx.quant_passes.mixed_precision.made_weight import MadeWeight, made_weight
from ascendfx.quant_passes.mixed_precision.projection_error import Energy, projection_error
from ascendfx.quant_passes.mixed_precision.reference_run import Changes, ReferenceRun
from ascendfx.quant_passes.mixed_precision.unit import Choice, Piece, Unit
from ascendfx.quant_passes.policy.recipe import SitePolicy
from ascendfx.quant_passes.statistics import InputStatistics

_LARGEST = 127


@dataclass(frozen=True, slots=True, eq=False)
class SeenUnit:
    """A unit with its weights, and what calibration knows of their inputs.

    Attributes:
        unit: The unit.
        weights: By key of the site, ``[out, in]`` or ``[experts, out, in]``.
        inputs: Of each piece; None: no texts were read.
    """

    unit: Unit
    weights: Mapping[str, Array]
    inputs: Callable[[Piece], InputStatistics | None]

    def weight(self, piece: Piece) -> Array:
        """Return the matrix of a piece."""
        whole = self.weights[piece.site]
        return whole[piece.expert] if whole.ndim == 3 else whole  # axes

    def made(self, choice: Choice) -> Iterator[tuple[Piece, MadeWeight]]:
        """Yield what becomes of each piece.

        Raises:
            GraphError: What algorithms raise.
        """
        for piece in self.unit.pieces:
            policies = self.unit.policies_of(choice, piece)
            yield piece, made_weight(piece, policies, self.weight(piece), self.inputs(piece))


class Measure(Protocol):
    """From a unit to a score for each of its choices: the smaller, the better; 0 if all is kept."""

    @property
    def name(self) -> str:
        """How users call it."""
        ...

    @property
    def reads_inputs(self) -> bool:
        """Whether it needs tokens that calibration kept."""
        ...

    def scores(self, seen: SeenUnit) -> tuple[float, ...]:
        """Return a score for each choice of the unit.

        Raises:
            GraphError: What algorithms raise; `bad-format`: of `IqrOfWeights` and `IqrOfInputs`.
        """
        ...


@dataclass(frozen=True, slots=True)
class IqrOfWeights:
    """`iqr_score` of weights, times how much coarser than int8 the codes are.

    The mean over the experts of a site, added up over sites. A measure that needs no data; which
    algorithm makes the codes, and which of them share a scale, it does not see.
    """

    name = "iqr-weights"
    reads_inputs = False

    def scores(self, seen: SeenUnit) -> tuple[float, ...]:
        """Return a score for each choice.

        Raises:
            GraphError: `bad-format`: codes that are no integers.
        """
        found = {piece: iqr_score(seen.weight(piece)) for piece in seen.unit.pieces}
        return _by_coarseness(seen.unit, found, dict.fromkeys(found, 1))


@dataclass(frozen=True, slots=True)
class IqrOfInputs:
    """As `IqrOfWeights`, of the inputs that calibration kept; experts count as often as read."""

    name = "iqr-inputs"
    reads_inputs = True

    def scores(self, seen: SeenUnit) -> tuple[float, ...]:
        """Return a score for each choice.

        Raises:
            GraphError: `bad-format`: codes that are no integers.
        """
        found: dict[Piece, float] = {}
        tokens: dict[Piece, int] = {}
        for piece in seen.unit.pieces:
            known = seen.inputs(piece)
            rows = None if known is None else known.inputs
            if known is not None and rows is not None and len(rows):
                found[piece], tokens[piece] = iqr_score(rows), known.tokens
        return _by_coarseness(seen.unit, found, tokens)


@dataclass(frozen=True, slots=True)
class OutputError:
    """Squared error of the outputs of each site over their squares, added up over sites.

    Quantized weights meet quantized inputs, all experts of a site together by the tokens they saw.
    """

    name = "output"
    reads_inputs = True

    def scores(self, seen: SeenUnit) -> tuple[float, ...]:
        """Return a score for each choice.

        Raises:
            GraphError: What algorithms raise.
        """
        return tuple(self._score(seen, choice) for choice in seen.unit.choices)

    def _score(self, seen: SeenUnit, choice: Choice) -> float:
        if not any(choice.policies):
            return 0.0
        energies = dict.fromkeys(seen.unit.sites, Energy())
        for piece, made in seen.made(choice):
            known = seen.inputs(piece)
            if known is not None and known.inputs is not None:
                energies[piece.site] += projection_error(
                    seen.weight(piece), made, known.inputs, known.tokens
                )
        return sum(each.share for each in energies.values())


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """KL of the predictions of the whole model while only this unit is quantized.

    Attributes:
        run: The model over texts, as it is.
    """

    run: ReferenceRun
    name = "kl"
    reads_inputs = False

    def scores(self, seen: SeenUnit) -> tuple[float, ...]:
        """Return a score for each choice.

        Raises:
            GraphError: What algorithms raise.
        """
        return tuple(self._score(seen, choice) for choice in seen.unit.choices)

    def _score(self, seen: SeenUnit, choice: Choice) -> float:
        if not any(choice.policies):
            return 0.0
        return max(0.0, self.run.divergence(changes_of([(seen, choice)])))


def changes_of(chosen: Iterable[tuple[SeenUnit, Choice]]) -> Changes:
    """Return what a program computes with if units become what was chosen.

    Raises:
        GraphError: What algorithms raise.
    """
    weights: dict[str, Array] = {}
    forms: dict[str, list[Activation]] = {}
    for seen, choice in chosen:
        for piece, made in seen.made(choice):
            if piece.site not in weights:
                weights[piece.site] = seen.weights[piece.site].astype(np.float32)  # a copy
                forms[piece.site] = [None] * piece.experts
            weights[piece.site][piece.expert if weights[piece.site].ndim == 3 else ...] = (
                made.numbers
            )
            forms[piece.site][piece.expert] = made.activation
    return Changes(weights, {key: tuple(each) for key, each in forms.items()})


def _by_coarseness(
    unit: Unit, scores: Mapping[Piece, float], shares: Mapping[Piece, int]
) -> tuple[float, ...]:
    """Return for each choice the sum over sites of the weighted mean of its pieces."""
    found: list[float] = []
    for choice in unit.choices:
        total = 0.0
        for site in unit.sites:
            pieces = [piece for piece in unit.pieces if piece.site == site and piece in scores]
            sizes = [shares[piece] for piece in pieces]
            coarse = [
                scores[piece] * np.mean([_coarseness(p) for p in unit.policies_of(choice, piece)])
                for piece in pieces
            ]
            total += float(np.average(coarse, weights=sizes)) if sum(sizes) else 0.0
        found.append(total)
    return tuple(found)


def _coarseness(policy: SitePolicy | None) -> float:
    """Return the step of codes over that of int8, for the same numbers; 0 without codes."""
    if policy is None:
        return 0.0
    form = policy.spec.format
    if not isinstance(form, Integer):
        reason = f"quartiles judge the step of integers, and {form.name} has none"
        raise GraphError("bad-format", reason, hint="measure `output` or `kl`")
    return _LARGEST / ((form.high - form.low) // 2)
