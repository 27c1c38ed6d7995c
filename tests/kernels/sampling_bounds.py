"""Which tokens rounding allows.

Bound, with u = 2^-24 and d the distance of a logit to the largest over the temperature: the
difference is rounded, the inverse of the temperature and the product are, exp is off by at most
4 u. So a weight is off by (3 d + 4) u relatively; in a tile, whose weights are relative to its own
maximum, and scaled by another weight, by (3 d + 9) u. A sum over repeats of 64 adds
(6 + TILE / 64) u, one of tiles TILES u, the walk of `Find` 12 u. What two sums that are compared
are off by together, relative to all of the mass, is `Row.error`. A token is allowed if its
interval of the distribution is within that of the random number, for a prefix whose end is within
it; the same holds for what is left of a distribution, whose parts are differences of such numbers.
A decision is open if the numbers that it compares are that close.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.draft_acceptance import Rows
from ascendfx.ir.step_state import Option, Verification
from ascendfx.ir.tensor_type import DType
from tests.kernels.vector_case import Floats

Integers = NDArray[np.int64]

_U = DType.F32.unit_roundoff
_TILE = 4_096
_TINY = 1e-36
"""Weights below are no normal numbers of f32."""


@dataclass(frozen=True)
class Verdict:
    """Whether tokens fit, and in how many rows only one does."""

    fits: bool
    certain: int


@dataclass(frozen=True)
class Row:
    """A row that a token follows: penalised logits without bans, and options."""

    logits: Floats
    options: Floats

    @cached_property
    def is_greedy(self) -> bool:
        """Whether the largest logit is taken."""
        return not self.options[Option.TEMPERATURE] > 0

    @cached_property
    def distance(self) -> Floats:
        """Distance of each logit to the largest."""
        return (self.logits.max() - self.logits) / (
            1 if self.is_greedy else self.options[Option.TEMPERATURE]
        )

    @cached_property
    def before_filters(self) -> Floats:
        """What each token's share is."""
        weights = np.exp(-self.distance)
        return weights / weights.sum()

    @cached_property
    def mean(self) -> float:
        """Distance on average."""
        seen = self.before_filters > 0
        return float((self.before_filters * np.where(seen, self.distance, 0)).sum())

    @cached_property
    def error(self) -> float:
        """Of two sums that are compared, relative to all of the mass."""
        tiles = -(-self.logits.size // _TILE)
        return 2 * (3 * self.mean + 9 + 6 + _TILE / 64 + tiles + 12) * _U

    def error_of(self, token: int) -> float:
        """Return how far the share of a token may be off, relatively."""
        return self.error + 6 * min(float(self.distance[token]), 200.0) * _U

    @cached_property
    def distributions(self) -> tuple[Floats, ...]:
        """What is drawn from, for every prefix that rounding allows."""
        if self.is_greedy:
            chosen = np.zeros_like(self.logits)
            chosen[np.argmax(self.logits)] = 1
            return (chosen,)
        return tuple(self._prefixes())

    def _prefixes(self) -> Iterator[Floats]:
        options = self.options
        order = np.argsort(-self.logits, kind="stable")
        order = order[self.logits[order] > -np.inf]
        weights = np.exp(-self.distance[order])
        lowest = highest = order.size
        if options[Option.TOP_K] >= 1:
            lowest = highest = min(lowest, int(options[Option.TOP_K]))
        if 0 < options[Option.TOP_P] < 1:
            mass = np.cumsum(weights[:highest])
            ends = mass[-1] * (options[Option.TOP_P] + np.array([-self.error, self.error]))
            lowest, highest = (min(highest, int(np.searchsorted(mass, end)) + 1) for end in ends)
        if options[Option.MIN_P] > 0:
            least = options[Option.MIN_P]
            near = (3 * abs(np.log(least)) + 5) * _U
            lowest = min(lowest, int((weights >= least * (1 + near)).sum()))
            highest = min(highest, int((weights >= least * (1 - near)).sum()))
        for count in range(max(lowest, 1), max(highest, 1) + 1):
            kept = np.zeros_like(self.logits)
            kept[order[:count]] = weights[:count] / weights[:count].sum()
            yield kept

    def drawn(self, u: float) -> set[int]:
        """Return the tokens that may be drawn."""
        found: set[int] = set()
        for p in self.distributions:
            if self.is_greedy:
                return {int(np.argmax(p))}
            likely = np.flatnonzero(p)
            found |= around(p[likely], likely, u, self.error)
        return found

    def left(self, prior: float, ids: Integers, q: Floats, u: float) -> set[int]:
        """Return the tokens that may be drawn from what is left of ``prior`` times the share."""
        found: set[int] = set()
        for p in self.distributions:
            off = np.array([self.error_of(int(i)) for i in ids]) * (prior * p[ids] + q)
            first = np.maximum(prior * p[ids] - q, 0)
            others = prior * p
            others[ids] = 0
            error = 2 * (self.error * prior + float(off.sum()))
            tokens = np.concatenate([ids, np.arange(p.size)])
            both = np.concatenate([first, others])
            possible = np.concatenate([prior * p[ids] - q > -off, others > 0])
            total = both.sum()
            if total <= error:
                found |= set(np.flatnonzero(p).tolist())
                continue
            found |= around(both[possible], tokens[possible], u, error / total)
        return found


def around(weights: Floats, tokens: Integers, u: float, error: float) -> set[int]:
    """Return the tokens that a number may draw by weights, in this order."""
    mass = np.cumsum(weights)
    first, last = np.searchsorted(mass, (u + np.array([-error, error])) * mass[-1], side="right")
    return set(tokens[first : last + 1].tolist())


def fits(rows: Rows, tokens: Sequence[int]) -> Verdict:
    """Return whether rounding allows the tokens behind the rows of a place."""
    each = [None if x is None else Row(x, np.asarray(rows.options)) for x in rows.logits]
    kind = Verification(int(rows.options[Option.VERIFICATION]))
    if kind is Verification.BLOCK and rows.options[Option.TEMPERATURE] > 0:
        return _block(rows, each, tokens)
    found = [_allowed(rows, row, i, kind) for i, row in enumerate(each)]
    together = all(token in one for token, one in zip(tokens, found, strict=True))
    return Verdict(together, sum(len(one) == 1 for one in found))


def _allowed(rows: Rows, row: Row | None, i: int, kind: Verification) -> set[int]:
    if row is None:
        return {-1}
    plain = row.drawn(float(rows.sampled[i]))
    lossless = kind in (Verification.EXACT, Verification.REJECTION, Verification.BLOCK)
    if i >= rows.valid or kind is Verification.EXACT or (row.is_greedy and lossless):
        return plain
    draft, rejected = int(rows.drafts[i]), plain
    if kind is Verification.REJECTION:
        ids, q = rows.q(i)
        wanted = float(rows.accepted[i + 1]) * float(q[ids == draft][0])
        maybe = {wanted < p for p in _ends(row, draft)}
        rejected = row.left(1.0, ids, q, float(rows.sampled[i]))
    elif kind is Verification.TYPICAL:
        maybe = _typical(row, draft)
    else:
        maybe = _relaxed(row, draft)
    return ({draft} if True in maybe else set()) | (rejected if False in maybe else set())


def _ends(row: Row, token: int) -> Iterator[float]:
    """Give the least and the largest share that a token may have."""
    for p in row.distributions:
        if p[token] == 0:
            yield 0.0
        else:
            off = row.error_of(token) * p[token] + _TINY
            yield max(p[token] - off, 0.0)
            yield p[token] + off


def _typical(row: Row, draft: int) -> set[bool]:
    m = row.before_filters
    seen = m > 0
    entropy = -float((m[seen] * np.log(m[seen])).sum())
    limit, scale = row.options[Option.THRESHOLD], row.options[Option.SCALE]
    near = row.error * (4 + row.mean + entropy) + row.error_of(draft)
    least = min(limit, scale * np.exp(-entropy))
    if abs(m[draft] - least) <= near * least + _TINY * (m[draft] > 0):
        return {True, False}
    return {bool(m[draft] > least)}


def _relaxed(row: Row, draft: int) -> set[bool]:
    m, x = row.before_filters, row.logits
    rank = int((x > x[draft]).sum() + (x[:draft] == x[draft]).sum())
    if rank >= row.options[Option.RANKS] or m[draft] == 0:
        return {False}
    least = m.max() - row.options[Option.THRESHOLD]
    if m[draft] < _TINY or abs(m[draft] - least) <= row.error * m.max() + row.error_of(draft):
        return {True, False}
    return {bool(m[draft] >= least)}


def _block(rows: Rows, each: Sequence[Row | None], tokens: Sequence[int]) -> Verdict:
    """Try every end that the block may have."""
    prior = 1.0, 1.0
    passes: list[set[bool]] = []
    residual: list[set[int]] = []
    for i, row in enumerate(each[: rows.valid + 1]):
        u, accepted = float(rows.sampled[i]), float(rows.accepted[i])
        if row is None or i == rows.valid:
            shares, left, following = prior, {-1} if row is None else row.drawn(u), (0.0, 0.0)
        else:
            ids, q = rows.q(i)
            shares = _share(row, ids, q, prior)
            left = set[int]().union(*(row.left(p, ids, q, u) for p in set(prior) if p > 0))
            chance = float(q[ids == rows.drafts[i]][0])
            ends = list(_ends(row, int(rows.drafts[i])))
            following = (
                min(prior[0] * min(ends) / chance, 1.0),
                min(prior[1] * max(ends) / chance, 1.0),
            )
        passes.append({True} if i == 0 else {accepted < share for share in shares})
        residual.append(left)
        prior = following
    drawn = [
        {-1} if row is None else row.drawn(float(u))
        for row, u in zip(each, rows.sampled, strict=True)
    ]
    found: list[list[set[int]]] = []
    for end in range(len(passes)):
        if True in passes[end] and all(False in one for one in passes[end + 1 :]):
            drafts = [{int(draft)} for draft in rows.drafts[:end]]
            found.append([*drafts, residual[end], *drawn[end + 1 :]])
    together = any(
        all(token in one for token, one in zip(tokens, case, strict=True)) for case in found
    )
    certain = len(found) == 1 and sum(len(one) == 1 for one in found[0])
    return Verdict(together, int(certain))


def _share(row: Row, ids: Integers, q: Floats, prior: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest chance that the block ends at a row or behind it."""
    found: list[float] = []
    for p in row.distributions:
        others = 1 - float(p[ids].sum())
        for end, sign in zip(prior, (-1, 1), strict=True):
            errors = np.array([row.error_of(int(i)) for i in ids])
            off = row.error + 4 * _U + float((errors * (p[ids] + q)).sum())
            left = float(np.maximum(end * p[ids] - q, 0).sum()) + end * others
            left = max(left + sign * off, 0.0)
            below = left + 1 - end
            found.append(left / below if below > 0 else (1.0 if sign > 0 else 0.0))
            if left <= 2 * off and below <= 4 * off:
                found += [0.0, 1.0]
    return min(found), max(found)
