"""The exact distribution of what a step emits, by the places where random numbers change it.

A row's token changes with the row's number of `Stream.SAMPLE` at the borders of intervals, one per
token, and with that of `Stream.ACCEPT` at one threshold; both are found by halving. What is left
is a sum over a few cases, each with its exact probability.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ascendfx.ir.draft_acceptance import Rows, coupled_tokens
from ascendfx.ir.op import Array
from ascendfx.ir.step_state import OPTION_COLUMNS, Option, Verification

_LAST = 1 - 2.0**-24
"""The largest random number."""
_HALVINGS = 30

Tokens = tuple[int, ...]
Distribution = Mapping[Tokens, float]
"""Probabilities of sequences of tokens."""


@dataclass(frozen=True, slots=True)
class Model:
    """Distributions that depend on the whole text; from logits, without filters.

    Attributes:
        vocabulary: Number of tokens.
        seed: Of the logits.
        spread: Of the logits.
        impossible: Share of tokens with probability 0.
        ties: Whether logits are whole numbers.
    """

    vocabulary: int
    seed: int
    spread: float = 1.0
    impossible: float = 0.0
    ties: bool = False

    def logits(self, text: Tokens) -> Array:
        """Return those of the token behind a text."""
        random = np.random.default_rng([self.seed, *text])
        logits = random.standard_normal(self.vocabulary) * self.spread
        logits = np.round(logits) if self.ties else logits
        gone = random.random(self.vocabulary) < self.impossible
        gone[random.integers(self.vocabulary)] = False
        return np.where(gone, -np.inf, logits)

    def p(self, text: Tokens) -> Array:
        """Return the probabilities of the token behind a text."""
        weights = np.exp(self.logits(text))
        return weights / weights.sum()


Drafter = Callable[[Tokens], tuple[Array, Array, bool]]
"""Tokens that the draft behind a text is drawn from, their probabilities, whether it keeps them."""


def drawn_by(model: Model, kept: int) -> Drafter:
    """Draft the tokens that another model holds for the most likely ones."""

    def drafter(text: Tokens) -> tuple[Array, Array, bool]:
        p = model.p(text)
        ids = np.argsort(-p, kind="stable")[:kept]
        ids = ids[p[ids] > 0]
        return ids, p[ids] / p[ids].sum(), True

    return drafter


def certain(model: Model, *, recorded: bool) -> Drafter:
    """Draft the most likely token of another model."""
    return lambda text: (np.array([np.argmax(model.p(text))]), np.ones(1), recorded)


def emitted(model: Model, drafter: Drafter, drafts: int, kind: Verification) -> Distribution:
    """Return the distribution of the tokens that a step emits."""
    found: dict[Tokens, float] = defaultdict(float)
    for tokens, share, kept in _drafted(drafter, drafts, ()):
        rows = _rows(model, tokens, kept, kind)
        for sequence, probability in _of_rows(rows).items():
            found[sequence] += share * probability
    return found


def continued(steps: Distribution, model: Model, length: int) -> Array:
    """Return the probabilities of all texts of a length, if later tokens are the model's own."""
    texts = itertools.product(range(model.vocabulary), repeat=length)
    return np.array(
        [
            sum(
                steps.get(text[:count], 0.0) * _probability(model, text, count)
                for count in range(1, length + 1)
            )
            for text in texts
        ]
    )


def wanted(model: Model, length: int) -> Array:
    """Return the probabilities of all texts of a length."""
    texts = itertools.product(range(model.vocabulary), repeat=length)
    return np.array([_probability(model, text, 0) for text in texts])


def accepted(steps: Distribution) -> float:
    """Return how many drafts are accepted on average."""
    return sum(share * (len(tokens) - 1) for tokens, share in steps.items())


def _probability(model: Model, text: Tokens, first: int) -> float:
    return float(np.prod([model.p(text[:i])[text[i]] for i in range(first, len(text))]))


def _drafted(
    drafter: Drafter, drafts: int, text: Tokens
) -> Iterator[tuple[Tokens, float, list[tuple[Array, Array]]]]:
    """Yield drafts, their probability, and what each keeps."""
    if len(text) == drafts:
        yield text, 1.0, []
        return
    ids, shares, recorded = drafter(text)
    kept = (ids, shares) if recorded else (ids[:0], shares[:0])
    for token, share in zip(ids.tolist(), shares.tolist(), strict=True):
        for tokens, rest, behind in _drafted(drafter, drafts, (*text, token)):
            yield tokens, share * rest, [kept, *behind]


def _rows(
    model: Model, drafts: Tokens, kept: Sequence[tuple[Array, Array]], kind: Verification
) -> Rows:
    options = np.zeros(OPTION_COLUMNS)
    options[Option.TEMPERATURE], options[Option.VERIFICATION] = 1, kind
    columns = max((ids.size for ids, _ in kept), default=0) + 1
    ids = np.full((len(drafts), columns), -1)
    probabilities = np.zeros((len(drafts), columns))
    for row, (tokens, shares) in enumerate(kept):
        ids[row, : tokens.size], probabilities[row, : tokens.size] = tokens, shares
    return Rows(
        logits=[model.logits(drafts[:row]) for row in range(len(drafts) + 1)],
        options=options,
        drafts=np.array(drafts, np.int64),
        valid=len(drafts),
        ids=ids,
        probabilities=probabilities,
        sampled=np.zeros(len(drafts) + 1),
        accepted=np.full(len(drafts) + 1, _LAST),
    )


def _of_rows(rows: Rows) -> Distribution:
    """Return the distribution over all random numbers, for given drafts."""
    found: dict[Tokens, float] = defaultdict(float)
    drafts = len(rows.drafts)
    thresholds = [_threshold(rows, row) for row in range(1, drafts + 1)]
    for low in itertools.product((True, False), repeat=drafts):
        pairs = [*zip(thresholds, low, strict=True)]
        share = float(np.prod([t if is_low else 1 - t for t, is_low in pairs]))
        if share == 0:
            continue
        numbers = [t / 2 if is_low else (1 + t) / 2 for t, is_low in pairs]
        case = replace(rows, accepted=np.array([0.0, *numbers]))
        tokens = [_of_row(case, row) for row in range(drafts + 1)]
        for chosen in itertools.product(*(each.items() for each in tokens)):
            probability = share * float(np.prod([each for _, each in chosen]))
            found[_verified(rows.drafts.tolist(), [token for token, _ in chosen])] += probability
    return found


def _verified(drafts: list[int], tokens: list[int]) -> Tokens:
    """Return the drafts that were chosen, up to the first that was not, and the token there."""
    equal = [draft == token for draft, token in zip(drafts, tokens[:-1], strict=True)]
    count = equal.index(False) if False in equal else len(equal)
    return (*drafts[:count], tokens[count])


def _threshold(rows: Rows, row: int) -> float:
    """Return below which number of the token in a row the drafts up to it are taken."""

    def tokens(u: float) -> list[int]:
        numbers = np.full(len(rows.accepted), _LAST)
        numbers[row] = u
        return coupled_tokens(replace(rows, accepted=numbers, sampled=sampled))

    for draw in np.linspace(0, _LAST, 64):
        sampled = np.full(len(rows.sampled), draw)
        if tokens(0.0) != tokens(_LAST):
            return _border(tokens, 0.0, _LAST)
    return 0.0


def _of_row(rows: Rows, row: int) -> dict[int, float]:
    """Return the distribution of a row's token over its number of `Stream.SAMPLE`."""

    def token(u: float) -> int:
        numbers = rows.sampled.copy()
        numbers[row] = u
        return coupled_tokens(replace(rows, sampled=numbers))[row]

    shares: dict[int, float] = defaultdict(float)
    ends = [0.0, *_borders(token, 0.0, _LAST), 1.0]
    for start, end in itertools.pairwise(ends):
        shares[token(start)] += end - start
    return shares


def _borders(token: Callable[[float], int], start: float, end: float) -> Iterator[float]:
    """Yield where the token changes; each has one interval."""
    while token(start) != token(end):
        start = _border(token, start, end)
        yield start


def _border(outcome: Callable[[float], object], start: float, end: float) -> float:
    """Return the first number, up to rounding, whose outcome is not that of ``start``."""
    first = outcome(start)
    for _ in range(_HALVINGS):
        middle = (start + end) / 2
        start, end = (middle, end) if outcome(middle) == first else (start, middle)
    return end
