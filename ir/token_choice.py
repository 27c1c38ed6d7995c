"""How a token is chosen by a row of logits: penalties, filters, and the draw."""

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.step_state import Option, State


def allowed_logits(logits: Array, state: Array, stops: Array, position: int) -> Array | None:
    """Return a row of logits without stop tokens that are too early; None: no token follows.

    Args:
        logits: ``[vocab]``.
        state: Of its request.
        stops: Of its request.
        position: Of the row.
    """
    if np.isnan(logits).any() or np.isposinf(logits).any() or not logits.any():
        return None
    allowed = np.array(logits, np.float64)
    if state[State.GENERATED] + position - state[State.LENGTH] < state[State.MINIMUM]:
        allowed[stops[(stops >= 0) & (stops < allowed.size)]] = -np.inf
    return None if np.isneginf(allowed).all() else allowed


def wants_penalties(options: Array) -> Array:
    """Return whether requests look at their text, for each row of ``options [..., 16]``."""
    repetition = options[..., Option.REPETITION]
    others = (options[..., Option.PRESENCE] != 0) | (options[..., Option.FREQUENCY] != 0)
    return others | ((repetition != 0) & (repetition != 1))


def penalised(logits: Array, options: Array, counts: Array) -> Array:
    """Return logits after the penalties of a request.

    First the logits of all tokens of the text are divided by ``REPETITION`` where they are
    positive and multiplied where not (Keskar et al., arXiv 1909.05858, section 4.1, as transformers
    does it); then ``FREQUENCY`` times the number of times that a token was emitted, and
    ``PRESENCE`` if it was, are taken off.

    Args:
        logits: ``[vocab]``.
        options: Of the request.
        counts: ``[vocab]``: twice how often each token was emitted, plus 1 if the prompt has it.
    """
    result = np.array(logits, np.float64)
    repetition = options[Option.REPETITION]
    if repetition not in (0, 1):
        scaled = np.where(result > 0, result / repetition, result * repetition)
        result = np.where(counts > 0, scaled, result)
    emitted = counts >> 1
    return result - (options[Option.FREQUENCY] * emitted + options[Option.PRESENCE] * (emitted > 0))


def draw(weights: Array, u: float) -> int:
    """Return the first id at which the sum of weights exceeds ``u`` times their total."""
    cumulative = np.cumsum(weights)
    return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))


def choice_weights(logits: Array, options: Array) -> Array:
    """Return what each token weighs as its request wants it chosen.

    Args:
        logits: ``[vocab]``, some of them finite.
        options: Of the request.
    """
    if options[Option.TEMPERATURE] > 0:
        return _kept_weights(logits, options)
    chosen = np.zeros(logits.shape)
    chosen[np.argmax(logits)] = 1
    return chosen


def _kept_weights(logits: Array, options: Array) -> Array:
    """Return what each token weighs after all filters, relative to the largest; 0: not kept."""
    weights = np.exp((logits - logits.max()) / options[Option.TEMPERATURE])
    order = np.argsort(-logits, kind="stable")
    ordered = weights[order]
    count = ordered.size
    if options[Option.TOP_K] >= 1:
        count = min(count, int(options[Option.TOP_K]))
    if 0 < options[Option.TOP_P] < 1:
        mass = np.cumsum(ordered[:count])
        count = int(np.searchsorted(mass, options[Option.TOP_P] * mass[-1], side="left")) + 1
    least = options[Option.MIN_P]
    count = min(count, int((ordered >= least).sum())) if least > 0 else count
    kept = np.zeros_like(weights)
    kept[order[: max(count, 1)]] = ordered[: max(count, 1)]
    return kept
