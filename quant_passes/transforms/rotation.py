"""An orthogonal matrix between inputs and weights."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.format import Float64s
from ascendfx.quant_passes.statistics import InputStatistics, statistics_of

_PROBES = 4


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """``x W^T = (x R) (W R)^T`` for orthogonal ``R``: signs, then the same block again and again.

    ``R = diag(signs) blockdiag(block, block, ...)``, float64.

    Attributes:
        block: Orthogonal, ``[b, b]``.
        signs: 1 or -1, ``[n]``, where ``b`` divides ``n``.

    Raises:
        GraphError: `bad-transform`: sizes that do not fit, or a matrix that is not orthogonal.
    """

    block: Float64s
    signs: Float64s

    def __post_init__(self) -> None:
        size, width = len(self.block), len(self.signs)
        if self.block.shape != (size, size) or not size or width % size:
            reason = f"blocks {list(self.block.shape)} do not divide {width} channels"
            raise GraphError("bad-transform", reason, hint="take a size that divides the width")
        # A full product costs minutes at 7168 channels; what is not orthogonal moves some of these.
        probes = np.random.default_rng(0).standard_normal((size, _PROBES))
        off = np.abs(self.block @ (self.block.T @ probes) - probes).max()
        # Two sums of b products with rows of length one round by 2 b 2^-53 of at most 8 sqrt(b).
        if not off <= 8 * size**1.5 * 2.0**-52 or not (np.abs(self.signs) == 1).all():
            reason = f"a rotation is off from an orthogonal one by {off:.2g}"
            raise GraphError("bad-transform", reason, hint="compute it in float64")

    @property
    def width(self) -> int:
        """Channels."""
        return len(self.signs)

    def matrix(self) -> Float64s:
        """Return ``R``, ``[n, n]``."""
        return self.apply(np.eye(self.width))

    def apply(self, rows: NDArray[Any]) -> Float64s:
        """Return ``rows R`` for inputs or a weight, ``[*, n]``.

        Raises:
            GraphError: `bad-transform`: another width.
        """
        if rows.shape[-1] != self.width:
            reason = f"a rotation of {self.width} channels does not fit {list(rows.shape)}"
            raise GraphError("bad-transform", reason, hint="rotate the last axis")
        size = len(self.block)
        blocks = (rows * self.signs).reshape(*rows.shape[:-1], self.width // size, size)
        return (blocks @ self.block).reshape(rows.shape)

    def statistics(self, known: InputStatistics) -> InputStatistics:
        """Return the statistics of the rotated inputs.

        Extrema and means do not follow from those before: they are those of the kept inputs, which
        are a sample. Moments are exact.

        Raises:
            GraphError: `statistics-missing`: no inputs were kept; `bad-transform`.
        """
        if known.inputs is None:
            reason = "a rotation needs kept inputs to say what the extrema are after it"
            raise GraphError("statistics-missing", reason, hint="collect with keep > 0")
        after = statistics_of(self.apply(known.inputs), moments=False, keep=max(1, known.tokens))
        moments = known.moments
        if moments is not None:
            moments = self.apply(self.apply(moments).T)
        return replace(after, tokens=known.tokens, moments=moments)
