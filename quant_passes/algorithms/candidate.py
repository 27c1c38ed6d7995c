"""Codes of some rows of a weight that compete with others for each row."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.algorithms.output_error import output_squared_errors
from ascendfx.quant_passes.formats.format import Bools, Float64s
from ascendfx.quant_passes.scaling.granularity import Granularity
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Codes of some rows with their scales: ``[rows, in]`` and ``[rows, scales]``."""

    codes: NDArray[Any]
    scale: NDArray[Any]
    zero: NDArray[Any] | None
    granularity: Granularity

    @classmethod
    def of(cls, tensor: QuantizedTensor, rows: slice) -> "Candidate":
        """Return some rows of a tensor."""
        affine = tensor.affine
        zero = None if affine.zero is None else affine.zero[rows]
        return cls(tensor.codes[rows], affine.scale[rows], zero, affine.granularity)

    @classmethod
    def joined(cls, parts: "list[Candidate]") -> "Candidate":
        """Return all rows of some candidates."""
        zeros = [each.zero for each in parts if each.zero is not None]
        return cls(
            np.concatenate([each.codes for each in parts]),
            np.concatenate([each.scale for each in parts]),
            np.concatenate(zeros) if zeros else None,
            parts[0].granularity,
        )

    def decoded(self, shape: tuple[int, ...]) -> Float64s:
        """Return the numbers, exactly."""
        scale = self.granularity.spread(self.scale.astype(np.float64), shape)
        if self.zero is None:
            return self.codes * scale
        return (self.codes - self.granularity.spread(self.zero.astype(np.float64), shape)) * scale

    def where(self, better: Bools, other: "Candidate") -> "Candidate":
        """Return the rows of the other where it is better."""
        chosen = better[:, None]
        zero = self.zero
        if zero is not None and other.zero is not None:
            zero = np.where(chosen, other.zero, zero)
        return Candidate(
            np.where(chosen, other.codes, self.codes),
            np.where(chosen, other.scale, self.scale),
            zero,
            self.granularity,
        )

    def less(self, other: "Candidate", weights: Float64s, moments: Float64s) -> "Candidate":
        """Return for each row the one with the smaller error of the output, this if equal.

        Args:
            other: As many rows.
            weights: What both stand for, ``[rows, in]``.
            moments: ``X^T X``.
        """
        errors = [
            output_squared_errors(each.decoded(weights.shape) - weights, moments)
            for each in (self, other)
        ]
        return self.where(errors[1] < errors[0], other)

    def tensor(self, like: QuantizedTensor) -> QuantizedTensor:
        """Return the rows as a tensor with the format and the conventions of another."""
        codes: Any = self.codes.astype(like.codes.dtype)
        affine = replace(like.affine, scale=self.scale, zero=self.zero)
        return QuantizedTensor(codes, affine, like.format)
