"""What a number format is: a value object that encodes, decodes and bounds its error.

A format of your own implements `Format`; `check_format` runs the checks on it that ours pass.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
"""Real numbers: float64, float32, float16 or bfloat16 of `ml_dtypes`."""
Float64s: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]
Bools: TypeAlias = NDArray[np.bool_]

Ties = Literal["even", "away", "low", "either"]
"""Where a number in the middle between two values goes: to the even code, away from zero, to the
lower value; `either`: the format is free to take any of the two neighbours, tie or not."""


@dataclass(frozen=True, slots=True)
class Conduct:
    """What a format does where rounding to the nearest value does not say it.

    Attributes:
        ties: Where the middle of two values goes.
        overflow: What finite numbers beyond the largest value become: that value, infinity (from
            the middle to the value that would be next), or not a number.
        infinity: What infinities become; `refuse` is an error.
        nan: What becomes of that which is not a number.
    """

    ties: Ties = "even"
    overflow: Literal["saturate", "infinity", "nan"] = "saturate"
    infinity: Literal["saturate", "infinity", "nan", "refuse"] = "saturate"
    nan: Literal["nan", "refuse"] = "refuse"


@runtime_checkable
class Format(Protocol):
    """A number format of at most eight bits, one code per value.

    Implementations are frozen dataclasses: equal fields, equal results. All methods take arrays of
    any shape and layout, empty ones included, and return new ones of the same shape.
    """

    @property
    def name(self) -> str:
        """The name under which `format_named` knows it, for example ``int4``."""
        ...

    @property
    def bits(self) -> float:
        """Stored bits per value, scales not counted."""
        ...

    @property
    def codes(self) -> np.dtype[Any]:
        """How codes are held in memory before packing: int8 or uint8."""
        ...

    @property
    def largest(self) -> float:
        """Largest finite magnitude at scale 1."""
        ...

    @property
    def conduct(self) -> Conduct:
        """What becomes of ties, of numbers out of range, and of what is no number."""
        ...

    def every_code(self) -> Codes:
        """Return each code once, of shape ``[count]``."""
        ...

    def encode(self, values: Floats) -> Codes:
        """Return the code of the nearest value for numbers already divided by their scale.

        Raises:
            GraphError: `nan-has-no-code`, where `conduct` says `refuse`.
        """
        ...

    def decode(self, codes: Codes) -> Float64s:
        """Return the value of each code, exactly."""
        ...

    def error_bound(self, values: Floats) -> Float64s:
        """Return the most by which decoding the code of each number can be off.

        Holds for finite numbers whose value is finite.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GroupCodes:
    """Codes of a format that scales groups of values itself.

    ``elements`` has a code per value, ``metadata`` the bytes of each group: ``[*leading, groups,
    bytes]``.
    """

    elements: NDArray[np.uint8]
    metadata: NDArray[np.uint8]


@runtime_checkable
class GroupFormat(Protocol):
    """A number format that brings scales of its own, a group of values along the last axis each."""

    @property
    def name(self) -> str:
        """The name under which `format_named` knows it."""
        ...

    @property
    def bits(self) -> float:
        """Stored bits per value, with the scales of the format."""
        ...

    @property
    def group(self) -> int:
        """Values that share a scale; the last axis is a multiple of it."""
        ...

    @property
    def largest(self) -> float:
        """Largest finite magnitude."""
        ...

    def encode(self, values: Floats) -> GroupCodes:
        """Return the codes of ``[*leading, n]`` numbers."""
        ...

    def decode(self, codes: GroupCodes) -> Float64s:
        """Return the numbers of the codes, ``[*leading, n]``."""
        ...

    def error_bound(self, values: Floats) -> Float64s:
        """Return the most by which decoding the code of each finite number can be off."""
        ...
