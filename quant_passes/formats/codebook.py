"""Codebooks: any values, one code each; for a tensor or for each of its rows."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import as_numbers, refuse_nan, require_codes
from ascendfx.quant_passes.formats.bit_lookup import BitLookup, bit_lookup
from ascendfx.quant_passes.formats.format import Codes, Conduct, Float64s, Floats
from ascendfx.quant_passes.formats.nearest_value import first_of_upper, half_gap

_MOST = 256
_FEW_BORDERS = 32
"""Up to here, counting the borders below each number of a row costs less than a search per row."""


@dataclass(frozen=True, slots=True)
class Codebook:
    """A list of values; the code of a number is the place of the nearest one.

    A number in the middle of two values takes the lower one, beyond the outermost it takes that; of
    equal values the first one is used.

    Attributes:
        values: One to 256 finite values in the order of their codes, ascending or not.
        name: The name of the format; ``codebook16`` ... if left out.

    Raises:
        GraphError: `bad-format`: no values, too many, or one that is not finite.
    """

    values: tuple[float, ...]
    name: str = ""

    def __post_init__(self) -> None:
        _require_values(np.array(self.values, np.float64), "a codebook")
        object.__setattr__(self, "values", tuple(map(float, self.values)))
        object.__setattr__(self, "name", self.name or f"codebook{len(self.values)}")

    @property
    def bits(self) -> int:
        """The smallest width that holds all codes."""
        return max(1, (len(self.values) - 1).bit_length())

    @property
    def codes(self) -> np.dtype[Any]:
        """uint8."""
        return np.dtype(np.uint8)

    @property
    def largest(self) -> float:
        """The largest magnitude in the book."""
        return max(map(abs, self.values))

    @property
    def conduct(self) -> Conduct:
        """Ties go to the lower value; saturates; what is no number is refused."""
        return Conduct(ties="low")

    def every_code(self) -> Codes:
        """Return all codes."""
        return np.arange(len(self.values)).astype(np.uint8)

    def encode(self, values: Floats) -> Codes:
        """Return the code of the nearest value of each number.

        Raises:
            GraphError: `nan-has-no-code`; `not-numbers`.
        """
        numbers = as_numbers(values)
        refuse_nan(numbers, self.name)
        return _lookup(self.values).encode(numbers)

    def decode(self, codes: Codes) -> Float64s:
        """Return the value of each code.

        Raises:
            GraphError: `code-out-of-range`.
        """
        places = require_codes(codes, 0, len(self.values) - 1, self.name)
        return np.array(self.values)[places]

    def error_bound(self, values: Floats) -> Float64s:
        """Return half the gap between the neighbours of each number."""
        return half_gap(np.unique(self.values), as_numbers(values).astype(np.float64))


class RowCodebooks:
    """A codebook for each row of a weight, as per-row k-means learns them (SqueezeLLM).

    Not a `Format`, since what a code means depends on its row. Compares by values.

    Attributes:
        values: ``[*rows, k]``, ascending along the last axis, read only.
    """

    __slots__ = ("_borders", "values")

    def __init__(self, values: Floats) -> None:
        """Take ``[*rows, k]`` finite values, ascending in each row.

        Raises:
            GraphError: `bad-format`.
        """
        self.values: Float64s = as_numbers(values).astype(np.float64)
        _require_values(self.values, "codebooks of rows")
        if np.any(np.diff(self.values, axis=-1) < 0):
            reason = "codebooks of rows: values are not in ascending order"
            raise GraphError("bad-format", reason, hint="sort them along the last axis")
        self.values.flags.writeable = False
        flat = self.values.reshape(-1, self.values.shape[-1])
        never = np.zeros(flat.shape[-1] - 1, np.bool_)
        borders = [first_of_upper(row, never) for row in flat]
        shape = (*self.values.shape[:-1], self.values.shape[-1] - 1)
        self._borders: Float64s = np.array(borders, np.float64).reshape(shape)

    def __eq__(self, other: object) -> bool:
        """Return whether the values are equal."""
        return isinstance(other, RowCodebooks) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        """Return a hash of the values."""
        return hash((self.values.shape, self.values.tobytes()))

    @property
    def bits(self) -> int:
        """The smallest width that holds all codes of a row."""
        return max(1, (self.values.shape[-1] - 1).bit_length())

    def encode(self, values: Floats) -> NDArray[np.uint8]:
        """Return for ``[*rows, n]`` numbers the place of the nearest value of their row.

        Raises:
            GraphError: `bad-granularity`: other rows; `nan-has-no-code`; `not-numbers`.
        """
        numbers = as_numbers(values)
        self._require_rows(numbers.shape)
        refuse_nan(numbers, "codebooks of rows")
        if self._borders.shape[-1] <= _FEW_BORDERS:
            codes = np.zeros(numbers.shape, np.uint8)
            for place in range(self._borders.shape[-1]):
                codes += numbers >= self._borders[..., place, None]
            return codes
        rows = numbers.reshape(-1, numbers.shape[-1])
        borders = self._borders.reshape(-1, self._borders.shape[-1])
        found = [np.searchsorted(b, r, side="right") for b, r in zip(borders, rows, strict=True)]
        return np.array(found).astype(np.uint8).reshape(numbers.shape)

    def decode(self, codes: NDArray[np.uint8]) -> Float64s:
        """Return the values of ``[*rows, n]`` codes.

        Raises:
            GraphError: `bad-granularity`: other rows; `code-out-of-range`.
        """
        places = require_codes(codes, 0, self.values.shape[-1] - 1, "codebooks of rows")
        self._require_rows(places.shape)
        return np.take_along_axis(self.values, places, axis=-1)

    def _require_rows(self, shape: tuple[int, ...]) -> None:
        if shape[:-1] != self.values.shape[:-1] or not shape:
            reason = f"{list(self.values.shape[:-1])} codebooks do not fit {list(shape)} values"
            raise GraphError("bad-granularity", reason, hint="every row needs one codebook")


def _require_values(values: Float64s, what: str) -> None:
    count = values.shape[-1] if values.ndim else 0
    if not 1 <= count <= _MOST:
        reason = f"{what} of {count} values cannot be coded in a byte"
        raise GraphError("bad-format", reason, hint=f"give 1 to {_MOST} values")
    if not np.all(np.isfinite(values)):
        reason = f"{what} has a value that is not finite"
        raise GraphError("bad-format", reason, hint="leave infinities and NaN out")


@cache
def _lookup(values: tuple[float, ...]) -> BitLookup:
    ascending, first = np.unique(values, return_index=True)
    codes = first.astype(np.uint8)
    borders = first_of_upper(ascending, np.zeros(len(ascending) - 1, np.bool_))
    return bit_lookup(lambda numbers: codes[np.searchsorted(borders, numbers, side="right")])
