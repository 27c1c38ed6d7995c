"""k-means of weighted numbers, many rows at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.formats.format import Float64s

_PLACES = 128
"""Places at which clusters may begin; the work per row is ``k`` times the square of it."""
_MANY = 32
"""Centres from which on the density of many centres is near enough to start from."""
_ROWS = 16
"""Rows at a time, whose tables of costs fit the last cache."""


def weighted_k_means(rows: Float64s, weights: Float64s, k: int, *, steps: int = 50) -> Float64s:
    """Return the centres of each row in ascending order, ``[rows, k]``.

    Clusters of numbers are intervals, so dynamic programming over where they begin finds the least
    error: the best ``c`` clusters up to a place are the best ``c - 1`` up to an earlier one and one
    more. It is exact for rows of up to 128 numbers. Longer rows may begin clusters at 128 places
    only, half of them at equal counts and half where the weight to the third and the gaps to two
    thirds say (the best density of many centres, Panter and Dite 1951), and Lloyd's iteration over
    all numbers follows. With more than 32 centres, long rows begin clusters where that density
    says, without a program. Nothing is random.

    Args:
        rows: ``[rows, n]``, ``n >= 1``.
        weights: Not negative, of the same shape; a row without any counts as all alike.
        k: Number of centres. Rows with fewer different numbers repeat some.
        steps: Most steps of Lloyd's iteration.
    """
    order = np.argsort(rows, axis=1, kind="stable")
    values = np.take_along_axis(rows, order, axis=1)
    mass = np.take_along_axis(weights, order, axis=1)
    mass = np.where(mass.sum(axis=1, keepdims=True) > 0, mass, 1.0)
    sums = _Sums.of(values, mass)
    centres = np.concatenate(
        [
            _best_intervals(sums.part(slice(top, top + _ROWS)), mass[top : top + _ROWS], k)
            for top in range(0, len(rows), _ROWS)
        ]
    )
    error = sums.error(centres)
    for _ in range(steps):
        moved = sums.means(centres)
        after = sums.error(moved)
        better = after < error
        if not better.any():
            break
        centres = np.where(better[:, None], moved, centres)
        error = np.minimum(after, error)
    return centres


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sorted rows with sums up to each place, ``[rows, n + 1]``.

    Moments are about the middle of each row, which keeps differences of sums exact enough.
    """

    values: Float64s
    middle: Float64s
    mass: Float64s
    first: Float64s
    second: Float64s

    @classmethod
    def of(cls, values: Float64s, mass: Float64s) -> "_Sums":
        middle = (mass * values).sum(axis=1, keepdims=True) / mass.sum(axis=1, keepdims=True)
        off = values - middle
        parts = [_up_to(each) for each in (mass, mass * off, mass * off * off)]
        return cls(values, middle, *parts)

    def _splits(self, centres: Float64s) -> NDArray[np.int64]:
        """Return where clusters begin and end, ``[rows, k + 1]``: a tie goes to the upper one."""
        borders = (centres[:, 1:] + centres[:, :-1]) / 2
        inner = places_of(self.values, borders)
        count = len(centres)
        ends = np.zeros((count, 1), np.int64), np.full((count, 1), self.values.shape[1])
        return np.concatenate([ends[0], inner, ends[1]], axis=1)

    def part(self, rows: slice) -> "_Sums":
        """Return some rows."""
        parts = (self.values, self.middle, self.mass, self.first, self.second)
        return _Sums(*(each[rows] for each in parts))

    def means(self, centres: Float64s) -> Float64s:
        """Return the mean of each cluster; a cluster without weight keeps its centre."""
        return self._means(self._splits(centres), centres)

    def means_between(self, splits: NDArray[np.int64]) -> Float64s:
        """Return the mean of each interval; one without weight has the first number in it."""
        first = np.minimum(splits[:, :-1], self.values.shape[1] - 1)
        return self._means(splits, np.take_along_axis(self.values, first, axis=1))

    def _means(self, splits: NDArray[np.int64], instead: Float64s) -> Float64s:
        mass, first = (_between(each, splits) for each in (self.mass, self.first))
        some = mass > 0
        means = np.where(some, first / np.where(some, mass, 1.0) + self.middle, instead)
        return np.sort(means, axis=1)

    def error(self, centres: Float64s) -> Float64s:
        """Return the weighted sum of squares of each row."""
        splits = self._splits(centres)
        off = centres - self.middle
        mass, first, second = (
            _between(each, splits) for each in (self.mass, self.first, self.second)
        )
        return (second - 2 * off * first + off * off * mass).sum(axis=1)


def places_of(rows: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many numbers of each ascending row are below each wanted one, by bisection."""
    low = np.zeros(wanted.shape, np.int64)
    high = np.full(wanted.shape, rows.shape[1])
    while (low < high).any():
        middle = (low + high) // 2
        below = np.take_along_axis(rows, np.minimum(middle, rows.shape[1] - 1), axis=1) < wanted
        below &= low < high
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    return low


def _best_intervals(sums: "_Sums", mass: Float64s, k: int) -> Float64s:
    """Return the centres of the best ``k`` intervals that begin at the allowed places."""
    count, n = sums.values.shape
    if k > _MANY and n > _PLACES:
        inner = _dense(sums.values, mass, np.arange(1, k) / k)
        ends = np.zeros((count, 1), np.int64), np.full((count, 1), n)
        return sums.means_between(np.concatenate([ends[0], inner, ends[1]], axis=1))
    places = _places(sums.values, mass)
    inside = places[:, 1:]  # the first place is 0
    at = [np.take_along_axis(each, places, axis=1) for each in (sums.mass, sums.first, sums.second)]
    held, first, second = (each[:, None, :] - each[:, :, None] for each in at)  # [rows, from, to]
    cost = second - first * first / np.where(held > 0, held, 1.0)
    cost = np.where(np.tri(places.shape[1], k=-1, dtype=np.bool_), np.inf, np.maximum(cost, 0))
    least = cost[:, 0]
    taken: list[NDArray[np.int64]] = []
    for _ in range(k - 1):
        total = least[:, :, None] + cost
        taken.append(total.argmin(axis=1))
        least = np.take_along_axis(total, taken[-1][:, None], axis=1)[:, 0]
    ends = np.full((len(places), 1), inside.shape[1])
    splits = [ends]
    for step in reversed(taken):
        splits.append(np.take_along_axis(step, splits[-1], axis=1))
    splits.append(np.zeros_like(ends))
    begins = np.take_along_axis(places, np.concatenate(splits[::-1], axis=1), axis=1)
    return sums.means_between(begins)


def _places(values: Float64s, mass: Float64s) -> NDArray[np.int64]:
    """Return ascending places ``[rows, places]`` from 0 to the count of numbers."""
    count, n = values.shape
    if n <= _PLACES:
        return np.broadcast_to(np.arange(n + 1), (count, n + 1))
    half = (np.arange(1, _PLACES // 2) * 2) / _PLACES
    even = np.broadcast_to((half * n).astype(np.int64), (count, len(half)))
    ends = np.zeros((count, 1), np.int64), np.full((count, 1), n)
    dense = _dense(values, mass, half)
    return np.sort(np.concatenate([ends[0], even, dense, ends[1]], axis=1), axis=1)


def _dense(values: Float64s, mass: Float64s, shares: Float64s) -> NDArray[np.int64]:
    """Return the places up to which there are these shares of the best density of centres."""
    gaps = np.gradient(values, axis=1)
    total = _up_to(np.cbrt(mass * gaps * gaps))[:, 1:]
    return places_of(total, shares * total[:, -1:])


def _up_to(values: Float64s) -> Float64s:
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)


def _between(sums: Float64s, splits: NDArray[np.int64]) -> Float64s:
    return np.diff(np.take_along_axis(sums, splits, axis=1), axis=1)
