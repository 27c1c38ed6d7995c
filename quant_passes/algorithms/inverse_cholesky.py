"""The upper Cholesky factor of the inverse of a matrix, without inverting it."""

import numpy as np

from ascendfx.quant_passes.formats.format import Float64s

_SMALL = 128


def inverse_cholesky(matrix: Float64s) -> Float64s:
    """Return upper ``U`` with ``U^T U = matrix^-1``.

    With ``J`` reversing an order, ``J matrix J = L L^T`` gives ``U = J L^-1 J``: one factorization
    and one triangular inverse, where inverting and factorizing again would square the condition.

    Args:
        matrix: Symmetric, positive definite, ``[n, n]``.

    Raises:
        numpy.linalg.LinAlgError: It is not positive definite.
    """
    lower: Float64s = np.linalg.cholesky(matrix[::-1, ::-1]).astype(np.float64, copy=False)
    return np.ascontiguousarray(_inverse_of_lower(lower)[::-1, ::-1])


def _inverse_of_lower(lower: Float64s) -> Float64s:
    """Return the inverse of a lower triangular matrix, halves first."""
    n = len(lower)
    if n <= _SMALL:
        return np.tril(np.linalg.inv(lower)).astype(np.float64, copy=False)
    half = n // 2
    inverse = np.zeros_like(lower)
    upper = inverse[:half, :half] = _inverse_of_lower(lower[:half, :half])
    right = inverse[half:, half:] = _inverse_of_lower(lower[half:, half:])
    inverse[half:, :half] = -right @ (lower[half:, :half] @ upper)
    return inverse
