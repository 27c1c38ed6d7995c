"""Vector quantization: one code for several values side by side."""

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import as_numbers, refuse_nan, require_codes
from ascendfx.quant_passes.formats.format import Float64s, Floats

_MOST = 1 << 16
_CHUNK = 1 << 22
"""Distances computed at a time."""


class VectorCodebook:
    """A list of vectors; the code of ``d`` neighbouring values is the place of the nearest one.

    Nearest is by the sum of squares in float64; of equally near vectors the first one is taken.
    Not a `Format`, since a code stands for several values. Compares by values.

    Attributes:
        vectors: ``[k, d]``, read only.
    """

    __slots__ = ("vectors",)

    def __init__(self, vectors: Floats) -> None:
        """Take ``[k, d]`` finite vectors, at most 65536.

        Raises:
            GraphError: `bad-format`.
        """
        self.vectors: Float64s = as_numbers(vectors).astype(np.float64)
        if self.vectors.ndim != 2 or not 1 <= len(self.vectors) <= _MOST or not self.width:
            reason = f"a codebook of vectors is [k, d], not {list(self.vectors.shape)}"
            raise GraphError("bad-format", reason, hint=f"give 1 to {_MOST} vectors of d values")
        if not np.all(np.isfinite(self.vectors)):
            reason = "a codebook of vectors has a value that is not finite"
            raise GraphError("bad-format", reason, hint="leave infinities and NaN out")
        self.vectors.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        """Return whether the vectors are equal."""
        return isinstance(other, VectorCodebook) and np.array_equal(self.vectors, other.vectors)

    def __hash__(self) -> int:
        """Return a hash of the vectors."""
        return hash((self.vectors.shape, self.vectors.tobytes()))

    @property
    def width(self) -> int:
        """Values per code, ``d``."""
        return self.vectors.shape[1]

    @property
    def bits(self) -> float:
        """Stored bits per value: the width of a code over ``d``."""
        return max(1, (len(self.vectors) - 1).bit_length()) / self.width

    def encode(self, values: Floats) -> NDArray[np.uint16]:
        """Return for ``[*leading, n]`` numbers the ``[*leading, n / d]`` places of their vectors.

        Raises:
            GraphError: `bad-granularity`: the last axis is not a multiple of ``d``;
                `values-not-finite`; `nan-has-no-code`; `not-numbers`.
        """
        flat, shape = self._as_vectors(values)
        step = max(1, _CHUNK // self.vectors.size)
        parts = [self._nearest(flat[i : i + step]) for i in range(0, len(flat), step)]
        found = np.concatenate([np.zeros(0, np.int64), *parts])
        return found.astype(np.uint16).reshape(shape)

    def decode(self, codes: NDArray[np.uint16]) -> Float64s:
        """Return the ``[*leading, n]`` numbers of ``[*leading, n / d]`` codes.

        Raises:
            GraphError: `code-out-of-range`.
        """
        places = require_codes(codes, 0, len(self.vectors) - 1, "a codebook of vectors")
        count = places.shape[-1] if places.ndim else 1
        return self.vectors[places].reshape(*places.shape[:-1], count * self.width)

    def error_bound(self, values: Floats) -> Float64s:
        """Return for each number the distance of its vector to the nearest one of the book.

        A value of a vector is off by no more than the vector. The factor allows for the rounding of
        ``d`` squares and their sum, and the root.
        """
        flat, _ = self._as_vectors(values)
        near = self.vectors[self.encode(values).reshape(-1)]
        distance = np.sqrt(np.square(flat - near).sum(axis=-1))
        allowed = distance * (1 + (self.width + 2) * 2.0**-52)
        return np.repeat(allowed, self.width).reshape(np.shape(values))

    def _as_vectors(self, values: Floats) -> tuple[Float64s, tuple[int, ...]]:
        numbers = as_numbers(values).astype(np.float64)
        if numbers.ndim == 0 or numbers.shape[-1] % self.width:
            reason = f"the last axis of {list(numbers.shape)} is not a multiple of {self.width}"
            hint = f"a code stands for {self.width} values; pad the last axis"
            raise GraphError("bad-granularity", f"a codebook of vectors: {reason}", hint=hint)
        refuse_nan(numbers, "a codebook of vectors")
        if not np.all(np.isfinite(numbers)):
            reason = "a codebook of vectors: an infinity is equally far from all vectors"
            raise GraphError("values-not-finite", reason, hint="clip the values before")
        shape = (*numbers.shape[:-1], numbers.shape[-1] // self.width)
        return numbers.reshape(-1, self.width), shape

    def _nearest(self, flat: Float64s) -> NDArray[np.int64]:
        """Return the nearest vectors of ``[m, d]``, one axis after the other to keep memory low."""
        distance = np.square(flat[:, :1] - self.vectors[None, :, 0])
        for axis in range(1, self.width):
            distance += np.square(flat[:, axis, None] - self.vectors[None, :, axis])
        return distance.argmin(axis=1)
