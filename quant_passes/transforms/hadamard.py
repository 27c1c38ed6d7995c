"""Hadamard rotations: outliers are spread evenly, with entries of one magnitude."""

from functools import cache

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.format import Float64s
from ascendfx.quant_passes.transforms.rotation import Rotation


def hadamard_rotation(width: int, *, block: int | None = None, seed: int | None = 0) -> Rotation:
    """Return ``diag(signs) H / sqrt(b)`` with random signs.

    Args:
        width: Channels.
        block: Size of blocks along the diagonal; all of the width if left out. DeepSeek recipes of
            msModelSlim have 32.
        seed: Of the signs; None for no signs.

    Raises:
        GraphError: `bad-transform`: no matrix of this order is known here, or blocks do not divide.
    """
    size = block or width
    signs = np.ones(width)
    if seed is not None:
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], width)
    return Rotation(hadamard_matrix(size) / np.sqrt(size), signs)


def hadamard_matrix(order: int) -> Float64s:
    """Return a matrix of 1 and -1 with orthogonal rows.

    Powers of two times one of: 1; ``q + 1`` for primes ``q = 3 mod 4``; ``2 (q + 1)`` for primes
    ``q = 1 mod 4``. That has 7168 = 28 * 256, 1536 = 12 * 128 and all widths of DeepSeek.

    Raises:
        GraphError: `bad-transform`: another order.

    Source: Sylvester (1867); Paley, "On orthogonal matrices" (1933).
    """
    odd, power = order, 1
    while order > 0:
        base = _paley(odd)
        if base is not None:
            return np.kron(_sylvester(power), base).astype(np.float64, copy=False)
        if odd % 2:
            break
        odd, power = odd // 2, power * 2
    reason = f"no Hadamard matrix of order {order} is known here"
    hint = "rotate in blocks of a power of two that divides the width, for example 32"
    raise GraphError("bad-transform", reason, hint=hint)


def _sylvester(order: int) -> Float64s:
    matrix: Float64s = np.ones((1, 1))
    while len(matrix) < order:
        pair = np.array([[1.0, 1.0], [1.0, -1.0]])
        matrix = np.kron(pair, matrix).astype(np.float64, copy=False)
    return matrix


@cache
def _paley(order: int) -> Float64s | None:
    if order == 1:
        return np.ones((1, 1))
    q = order - 1
    if q % 4 == 3 and _is_prime(q):
        skew = _bordered(q, -1.0)
        return skew + np.eye(order)
    q = order // 2 - 1
    if order % 2 == 0 and q % 4 == 1 and _is_prime(q):
        inner = np.array([[1.0, 1.0], [1.0, -1.0]])
        diagonal = np.array([[1.0, -1.0], [-1.0, -1.0]])
        return np.kron(_bordered(q, 1.0), inner) + np.kron(np.eye(q + 1), diagonal)
    return None


def _bordered(q: int, sign: float) -> Float64s:
    """Return the conference matrix of order ``q + 1``: Jacobsthal's with a border."""
    squares = np.full(q, -1.0)
    squares[np.unique(np.arange(1, q) ** 2 % q)] = 1.0
    squares[0] = 0.0
    places = np.arange(q)
    matrix = np.zeros((q + 1, q + 1))
    matrix[1:, 1:] = squares[(places[:, None] - places[None, :]) % q]
    matrix[0, 1:], matrix[1:, 0] = 1.0, sign
    return matrix


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % each for each in range(2, int(number**0.5) + 1))
