"""Lookup table: for each row the values themselves are learned, by weighted k-means."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.tensor_type import DType
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.algorithms.sszw import require_scales_of_rows
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightSpec,
    require_moments,
    require_option,
    require_weight,
)
from ascendfx.quant_passes.algorithms.weighted_k_means import weighted_k_means
from ascendfx.quant_passes.formats.as_numbers import as_numbers
from ascendfx.quant_passes.formats.codebook import RowCodebooks
from ascendfx.quant_passes.formats.format import Floats
from ascendfx.quant_passes.scaling.round_to_nearest import require_code_per_value
from ascendfx.quant_passes.scaling.rounded_to import cast_to, rounded_to
from ascendfx.quant_passes.statistics import InputStatistics


@dataclass(frozen=True, slots=True, eq=False)
class TableTensor:
    """A weight ``[out, in]`` as places in the tables of its rows or groups.

    Attributes:
        codes: ``[out, in]``.
        books: Tables ``[out, groups, k]``.
        stored: Format in which the values of tables are stored.
    """

    codes: NDArray[np.uint8]
    books: RowCodebooks
    stored: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """``[out, in]``."""
        return self.codes.shape

    @property
    def bytes(self) -> int:
        """Size when stored: packed codes, and the tables."""
        return (
            -(-self.codes.size * self.books.bits // 8) + self.books.values.size * self.stored.bytes
        )

    def decode(self, dtype: DType = DType.F32) -> NDArray[Any]:
        """Return the numbers that the codes stand for."""
        out, groups = self.books.values.shape[:2]
        groups = self.codes.reshape(out, groups, self.shape[1] // max(1, groups))
        return cast_to(self.books.decode(groups).reshape(self.shape), dtype)

    def squared_error(self, of: NDArray[Any]) -> float:
        """Return the sum of squares of the distance to the numbers ``of``, in float64."""
        return float(np.square(self.decode(DType.F64) - as_numbers(of)).sum())


@dataclass(frozen=True, slots=True)
class LookupTable:
    """Tables of ``2 ** bits`` values per row or group, where bits are those of the format.

    k-means with the weight of each number being the mean square of its input channel, so that the
    sum of squares of outputs of uncorrelated channels is what falls. The format gives the width
    only, the rule how table values are stored. The 910B has no matmul that reads tables: they save
    storage, and are decoded before use.

    Attributes:
        weighted: Whether inputs count; data-free otherwise.
        steps: Most steps of each start.

    Raises:
        GraphError: `bad-algorithm`.

    Source: Kim et al., "SqueezeLLM", arXiv 2306.07629, section 4.1, which weights with squared
    gradients.
    """

    weighted: bool = True
    steps: int = 50

    name = "lookup_table"

    def __post_init__(self) -> None:
        require_option(self.name, "steps", self.steps, known=self.steps >= 0)

    @property
    def needs(self) -> frozenset[str]:
        """The moments, if it is weighted."""
        return frozenset({"moments"} if self.weighted else set[str]())

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight as a `TableTensor`.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; `bad-granularity`: rows share a table;
                `bad-format`: scales of its own; `statistics-missing`; `bad-statistics`.
        """
        numbers = require_weight(weight)
        require_scales_of_rows(self.name, spec)
        require_code_per_value(spec.format)
        bits = int(np.ceil(spec.format.bits))
        mass, remarks = self._mass(numbers, inputs)
        tables = spec.granularity.scale_shape(numbers.shape)
        count, k = tables[0] * tables[1], 1 << bits
        if not numbers.size:
            books = RowCodebooks(np.zeros((*tables, k)))
            return QuantizedWeight(TableTensor(numbers.astype(np.uint8), books, spec.rule.stored))
        groups = numbers.reshape(count, -1)
        centres = weighted_k_means(groups, mass.reshape(count, -1), k, steps=self.steps)
        kept = np.sort(rounded_to(centres, spec.rule.stored), axis=1).reshape(*tables, k)
        books = RowCodebooks(kept)
        codes = books.encode(groups.reshape(*tables, -1)).reshape(numbers.shape)
        return QuantizedWeight(TableTensor(codes, books, spec.rule.stored), remarks)

    def _mass(
        self, numbers: NDArray[Any], inputs: InputStatistics | None
    ) -> tuple[NDArray[Any], tuple[Remark, ...]]:
        if not self.weighted:
            return np.ones_like(numbers), ()
        known, moments = require_moments(self, numbers, inputs)
        squares = np.diagonal(moments)
        if not known.tokens or not squares.any():
            remark = Remark(f"{self.name}: no inputs, so all weights count alike")
            return np.ones_like(numbers), (remark,)
        return np.broadcast_to(squares / known.tokens, numbers.shape), ()
