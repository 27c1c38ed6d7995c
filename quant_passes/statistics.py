"""What calibration knows of the inputs of a linear layer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import as_numbers
from ascendfx.quant_passes.formats.format import Float64s, Floats

PARTS = ("absmax", "mean_abs", "moments", "inputs")
"""What an algorithm can need."""
_TOKENS = 1024
"""Widened at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class InputStatistics:
    """Sums over the tokens that a layer has seen, float64.

    Attributes:
        tokens: How many there were; 0 for an expert that got none.
        minimum: Smallest value per channel, ``[in]``; 0 without tokens, like all others.
        maximum: Largest value per channel, ``[in]``.
        mean_abs: Mean magnitude per channel, ``[in]``.
        moments: ``X^T X``, a sum and no mean, ``[in, in]``; None if it was not collected.
        inputs: Some of the tokens, ``[kept, in]``; None if none are kept.

    Raises:
        GraphError: `bad-statistics`: shapes that do not fit each other, a negative count;
            `values-not-finite`.
    """

    tokens: int
    minimum: Float64s
    maximum: Float64s
    mean_abs: Float64s
    moments: Float64s | None = None
    inputs: Float64s | None = None

    def __post_init__(self) -> None:
        width = self.minimum.shape
        fits = len(width) == 1 and self.maximum.shape == self.mean_abs.shape == width
        if self.moments is not None:
            fits = fits and self.moments.shape == width * 2
        if self.inputs is not None:
            fits = fits and self.inputs.shape[1:] == width
        if not fits or self.tokens < 0:
            reason = f"statistics of {self.tokens} tokens and {list(width)} channels do not fit"
            raise GraphError("bad-statistics", reason, hint="make them with `statistics_of`")
        for each in (self.minimum, self.maximum, self.mean_abs, self.moments, self.inputs):
            if each is not None:
                _require_finite(each)

    @property
    def channels(self) -> int:
        """Inputs of the layer."""
        return len(self.minimum)

    @property
    def absmax(self) -> Float64s:
        """Largest magnitude per channel, ``[in]``."""
        return np.maximum(-self.minimum, self.maximum)

    def has(self, part: str) -> bool:
        """Return whether one of `PARTS` was collected."""
        return getattr(self, part) is not None


def statistics_of(inputs: Floats, *, moments: bool = True, keep: int = 512) -> InputStatistics:
    """Return the statistics of some inputs.

    Args:
        inputs: ``[*leading, tokens, in]``, ``[in]`` for one token, or ``[0, in]`` for none.
        moments: Whether to collect ``X^T X``: ``8 in^2`` bytes.
        keep: How many tokens to keep, evenly spread over all.

    Raises:
        GraphError: `values-not-finite`: an activation overflowed; `bad-statistics`: no last axis;
            `not-numbers`.
    """
    numbers = as_numbers(inputs)
    if numbers.ndim == 0:
        raise GraphError(
            "bad-statistics", "a number alone has no channels", hint="give [tokens, in]"
        )
    channels = numbers.shape[-1]
    rows = numbers.reshape(numbers.size // max(1, channels), channels)
    if not len(rows):
        return without_tokens(channels, moments=moments, keep=keep)
    low, high = rows.min(axis=0), rows.max(axis=0)
    if not (np.isfinite(low) & np.isfinite(high)).all():  # what is no number passes through both
        _require_finite(rows)
    kept = np.unique(np.linspace(0, len(rows) - 1, min(keep, len(rows))).astype(np.int64))
    return InputStatistics(
        len(rows),
        low.astype(np.float64),
        high.astype(np.float64),
        np.abs(rows).mean(axis=0, dtype=np.float64),
        _moments(rows) if moments else None,
        rows[kept].astype(np.float64) if keep else None,
    )


def _moments(rows: NDArray[Any]) -> Float64s:
    """Return ``X^T X``; tokens are widened piece by piece, which costs less than all at once."""
    total = np.zeros((rows.shape[1],) * 2)
    for first in range(0, len(rows), _TOKENS):
        part = rows[first : first + _TOKENS].astype(np.float64, copy=False)
        total += part.T @ part
    return total


def without_tokens(channels: int, *, moments: bool = True, keep: int = 512) -> InputStatistics:
    """Return the statistics of no token at all: the neutral element of `merged`."""
    none = np.zeros(channels)
    square = np.zeros((channels, channels)) if moments else None
    return InputStatistics(0, none, none, none, square, np.zeros((0, channels)) if keep else None)


def merged(first: InputStatistics, second: InputStatistics) -> InputStatistics:
    """Return the statistics of the tokens of both, those of ``first`` before the others.

    A part that one of them lacks is lacking in the result; kept tokens are appended.

    Raises:
        GraphError: `bad-statistics`: other channels.
    """
    if first.channels != second.channels:
        reason = f"statistics of {first.channels} and {second.channels} channels are of two layers"
        raise GraphError("bad-statistics", reason, hint="merge those of one layer")
    tokens = first.tokens + second.tokens
    low, high = (first.minimum, second.minimum), (first.maximum, second.maximum)
    if not first.tokens or not second.tokens:  # the zeros of no tokens are no extrema
        seen = second if second.tokens else first
        low, high = (seen.minimum,) * 2, (seen.maximum,) * 2
    total = first.tokens * first.mean_abs + second.tokens * second.mean_abs
    kept = _both(first.inputs, second.inputs)
    squares = _both(first.moments, second.moments)
    return InputStatistics(
        tokens,
        np.minimum(*low),
        np.maximum(*high),
        total / max(1, tokens),
        None if squares is None else squares[0] + squares[1],
        None if kept is None else np.concatenate(kept),
    )


def _both(first: Float64s | None, second: Float64s | None) -> tuple[Float64s, Float64s] | None:
    return None if first is None or second is None else (first, second)


def _require_finite(values: NDArray[Any]) -> None:
    finite = np.isfinite(values)
    if finite.all():
        return
    channel = int(np.argwhere(~finite)[0][-1])
    reason = (
        f"{int((~finite).sum())} of {finite.size} calibration values are infinite or not "
        f"numbers; the first is in channel {channel}"
    )
    hint = "an activation overflowed: compute calibration in float32, or look at its tokens"
    raise GraphError("values-not-finite", reason, hint=hint)
