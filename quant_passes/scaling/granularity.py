"""Which values share a scale.

A weight is ``[*leading, out, in]``, activations are ``[*leading, tokens, in]``; leading axes, such
as experts, never share a scale unless the whole tensor does.

===========  ======================================  ======================================
granularity  scales                                  values of one scale
===========  ======================================  ======================================
PerTensor    ``[1, ..., 1]``                         all
PerChannel   ``[*leading, out, 1]``                  a row of a weight
PerToken     ``[*leading, tokens, 1]``               a row of activations
PerGroup     ``[*leading, out, in / g]``             ``g`` neighbours in a row
PerBlock     ``[*leading, ⌈out / r⌉, ⌈in / c⌉]``     ``r`` rows by ``c`` columns, less at the
                                                     lower and the right edge
===========  ======================================  ======================================
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError

Shape = tuple[int, ...]


class _Sharing:
    """What all granularities have in common."""

    __slots__ = ()

    def scale_shape(self, shape: Shape) -> Shape:
        """Return the shape of the scales of values of a shape."""
        raise NotImplementedError

    def require(self, scales: NDArray[Any], shape: Shape) -> None:
        """Refuse scales that are not those of values of a shape.

        Raises:
            GraphError: `bad-granularity`.
        """
        wanted = self.scale_shape(shape)
        if scales.shape != wanted:
            reason = (
                f"scales are {list(scales.shape)}, and {list(shape)} values need {list(wanted)}"
            )
            hint = f"granularity: {self}; is it the scale of another tensor, or transposed?"
            raise GraphError("bad-granularity", reason, hint=hint)


@dataclass(frozen=True, slots=True)
class PerTensor(_Sharing):
    """One scale for the whole tensor."""

    name = "tensor"

    def scale_shape(self, shape: Shape) -> Shape:
        """Return ones, as many as there are axes."""
        return (1,) * len(shape)

    def spread(self, scales: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """Return the scales, which broadcast over ``shape``."""
        self.require(scales, shape)
        return scales

    def reduce(self, values: NDArray[Any], ufunc: np.ufunc) -> NDArray[Any]:
        """Return ``ufunc`` over the values of each scale; zeros where there are none."""
        if values.size == 0:
            return np.zeros(self.scale_shape(values.shape), values.dtype)
        return ufunc.reduce(values, axis=None).reshape(self.scale_shape(values.shape))


@dataclass(frozen=True, slots=True)
class _PerRow(_Sharing):
    def scale_shape(self, shape: Shape) -> Shape:
        """Return the shape with a last axis of one."""
        _require_axes(shape, 1, self)
        return (*shape[:-1], 1)

    def spread(self, scales: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """Return the scales, which broadcast over ``shape``."""
        self.require(scales, shape)
        return scales

    def reduce(self, values: NDArray[Any], ufunc: np.ufunc) -> NDArray[Any]:
        """Return ``ufunc`` over the values of each scale; zeros where there are none."""
        target = self.scale_shape(values.shape)
        if values.shape[-1] == 0:
            return np.zeros(target, values.dtype)
        return ufunc.reduce(values, axis=-1, keepdims=True)


@dataclass(frozen=True, slots=True)
class PerChannel(_PerRow):
    """One scale per row of a weight ``[out, in]``."""

    name = "channel"


@dataclass(frozen=True, slots=True)
class PerToken(_PerRow):
    """One scale per row of activations ``[tokens, in]``."""

    name = "token"


@dataclass(frozen=True, slots=True)
class PerGroup(_Sharing):
    """One scale per ``size`` neighbours along the last axis, which is a multiple of it.

    Raises:
        GraphError: `bad-granularity`: ``size`` is not positive; or, from the methods, does not
            divide the last axis.
    """

    size: int
    name = "group"

    def __post_init__(self) -> None:
        _require_positive(self.size, "a group")

    def scale_shape(self, shape: Shape) -> Shape:
        """Return the shape with the last axis divided by the size."""
        _require_axes(shape, 1, self)
        if shape[-1] % self.size:
            reason = f"groups of {self.size} do not divide the last axis of {list(shape)}"
            raise GraphError(
                "bad-granularity", reason, hint=_nearest_divisors(shape[-1], self.size)
            )
        return (*shape[:-1], shape[-1] // self.size)

    def spread(self, scales: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """Return the scales repeated over ``shape``."""
        self.require(scales, shape)
        return np.repeat(scales, self.size, axis=-1)

    def reduce(self, values: NDArray[Any], ufunc: np.ufunc) -> NDArray[Any]:
        """Return ``ufunc`` over the values of each scale."""
        target = self.scale_shape(values.shape)
        return ufunc.reduce(values.reshape(*target, self.size), axis=-1)


@dataclass(frozen=True, slots=True)
class PerBlock(_Sharing):
    """One scale per block of ``rows`` by ``columns``; blocks at the edges may be smaller.

    DeepSeek's FP8 checkpoints have blocks of 128 by 128, and kv_a_proj_with_mqa has 576 rows.

    Raises:
        GraphError: `bad-granularity`: a size is not positive; or, from the methods, fewer than two
            axes.
    """

    rows: int
    columns: int
    name = "block"

    def __post_init__(self) -> None:
        for size in (self.rows, self.columns):
            _require_positive(size, "a side of a block")

    def scale_shape(self, shape: Shape) -> Shape:
        """Return the shape with both last axes divided, rounded up."""
        _require_axes(shape, 2, self)
        return (*shape[:-2], -(-shape[-2] // self.rows), -(-shape[-1] // self.columns))

    def spread(self, scales: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """Return the scales repeated over ``shape``."""
        self.require(scales, shape)
        tall = np.repeat(scales, self.rows, axis=-2)
        return np.repeat(tall[..., : shape[-2], :], self.columns, axis=-1)[..., : shape[-1]]

    def reduce(self, values: NDArray[Any], ufunc: np.ufunc) -> NDArray[Any]:
        """Return ``ufunc`` over the values of each scale; at the edges, over what is there."""
        target = self.scale_shape(values.shape)
        if values.size == 0:
            return np.zeros(target, values.dtype)
        # `reduceat` over rows costs ten times as much as `reduce` over whole blocks of them.
        *leading, rows, columns = values.shape
        whole = rows - rows % self.rows
        blocks = values[..., :whole, :].reshape(*leading, whole // self.rows, self.rows, columns)
        parts = [ufunc.reduce(blocks, axis=-2)]
        if whole < rows:
            parts.append(ufunc.reduce(values[..., whole:, :], axis=-2, keepdims=True))
        lefts = np.arange(0, columns, self.columns)
        return ufunc.reduceat(np.concatenate(parts, axis=-2), lefts, axis=-1)


Granularity: TypeAlias = PerTensor | PerChannel | PerToken | PerGroup | PerBlock


def _require_positive(size: int, what: str) -> None:
    if not isinstance(size, int) or size < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        reason = f"{what} of {size!r} values does not exist"
        raise GraphError("bad-granularity", reason, hint="sizes are positive whole numbers")


def _require_axes(shape: Shape, axes: int, granularity: _Sharing) -> None:
    if len(shape) < axes:
        reason = f"{granularity} needs at least {axes} axes, and the values are {list(shape)}"
        raise GraphError("bad-granularity", reason, hint="use PerTensor() or reshape the values")


def _nearest_divisors(length: int, size: int) -> str:
    """Say which sizes would do, those next to the wish first."""
    divisors = [each for each in range(1, length + 1) if length % each == 0]
    near = sorted(sorted(divisors, key=lambda each: max(each / size, size / each))[:4])
    return f"did you mean one of {', '.join(map(str, near))}? A group size divides {length}"
