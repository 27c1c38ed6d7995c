"""What a weight algorithm is: from a weight and its calibration to codes.

An algorithm of your own implements `WeightAlgorithm`; `check_algorithm` runs the checks on it that
ours pass.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.formats.as_numbers import as_numbers
from ascendfx.quant_passes.formats.format import Float64s, Floats, Format
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import Granularity
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule
from ascendfx.quant_passes.statistics import InputStatistics


@dataclass(frozen=True, slots=True)
class WeightSpec:
    """What a weight is to become.

    Attributes:
        format: The format of the codes.
        granularity: Which weights share a scale.
        rule: How extrema become scales.
    """

    format: Format
    granularity: Granularity
    rule: ScaleRule = field(default_factory=ScaleRule)


@runtime_checkable
class StoredWeight(Protocol):
    """A weight as codes; `QuantizedTensor` is one, and algorithms have some of their own."""

    @property
    def shape(self) -> tuple[int, ...]:
        """``[out, in]``."""
        ...

    @property
    def bytes(self) -> int:
        """Size when stored."""
        ...

    def decode(self, dtype: DType = DType.F32) -> NDArray[Any]:
        """Return the numbers that the codes stand for."""
        ...

    def squared_error(self, of: NDArray[Any]) -> float:
        """Return the sum of squares of the distance to the numbers ``of``, in float64."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedWeight:
    """A weight as codes, and what happened on the way.

    Attributes:
        tensor: The codes with all that is needed to read them.
        remarks: Fallbacks taken, dead channels, rows of zeros.
    """

    tensor: StoredWeight
    remarks: tuple[Remark, ...] = ()


@runtime_checkable
class WeightAlgorithm(Protocol):
    """From a weight to codes. Implementations are frozen dataclasses, their options the fields."""

    @property
    def name(self) -> str:
        """The name under which `algorithm_named` knows it, for example ``gptq``."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Which of ``absmax``, ``mean_abs``, ``moments``, ``inputs`` it reads; none: data-free."""
        ...

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight ``[out, in]``.

        Equal arguments give equal codes. Inputs of no tokens or of too few are no error.

        Raises:
            GraphError: `bad-weight`: not two axes; `values-not-finite`; `statistics-missing`: what
                it needs was not collected; `bad-statistics`: of another width; errors of formats
                and granularities.
        """
        ...


def require_weight(weight: NDArray[Any]) -> Float64s:
    """Return a weight ``[out, in]`` in float64, row by row in memory; not always a copy.

    Sums depend on the order in memory, and a result is not to depend on that of the caller.

    Raises:
        GraphError: `bad-weight`: other axes; `values-not-finite`; `not-numbers`.
    """
    return np.ascontiguousarray(require_numbers(weight), np.float64)


def require_numbers(weight: NDArray[Any]) -> Floats:
    """Return a weight ``[out, in]`` as it is, or in float32 if it is narrower.

    For algorithms that widen a few rows at a time: a weight in float64 is most of their time.

    Raises:
        GraphError: As `require_weight`.
    """
    numbers = as_numbers(weight)
    if numbers.ndim != 2:
        reason = f"a weight is [out, in], and this one is {list(numbers.shape)}"
        raise GraphError(
            "bad-weight", reason, hint="give experts one by one, with their statistics"
        )
    finite = np.isfinite(numbers)
    if finite.all():
        return numbers
    row, column = np.argwhere(~finite)[0].tolist()
    reason = (
        f"{int((~finite).sum())} of {finite.size} weights are infinite or not numbers; the first "
        f"is [{row}, {column}]"
    )
    raise GraphError("values-not-finite", reason, hint="look for damage in the checkpoint")


def require_statistics(
    algorithm: WeightAlgorithm, weight: NDArray[Any], inputs: InputStatistics | None
) -> InputStatistics:
    """Return the statistics if they hold what the algorithm needs.

    Raises:
        GraphError: `statistics-missing`; `bad-statistics`: of another width.
    """
    lacking = sorted(algorithm.needs if inputs is None else _lacking(algorithm, inputs))
    if inputs is None or lacking:
        reason = f"{algorithm.name} needs {', '.join(lacking)} of the inputs"
        hint = "collect them in calibration, or take an algorithm that needs no data"
        raise GraphError("statistics-missing", reason, hint=hint)
    if inputs.channels != weight.shape[-1]:
        reason = (
            f"statistics of {inputs.channels} channels are not of a weight {list(weight.shape)}"
        )
        raise GraphError("bad-statistics", reason, hint="a weight is [out, in]; is it transposed?")
    return inputs


def require_moments(
    algorithm: WeightAlgorithm, weight: NDArray[Any], inputs: InputStatistics | None
) -> tuple[InputStatistics, Float64s]:
    """Return the statistics and the moments in them, for an algorithm that needs these.

    Raises:
        GraphError: As `require_statistics`.
    """
    known = require_statistics(algorithm, weight, inputs)
    if known.moments is None:
        raise AssertionError(f"{algorithm.name} reads moments that it does not declare to need")
    return known, known.moments


def require_integer(algorithm: str, form: Format) -> Integer:
    """Return a format if it is one of integers.

    Raises:
        GraphError: `bad-format`.
    """
    if isinstance(form, Integer):
        return form
    reason = f"{algorithm} moves the scales of integer codes, and {form.name} has none"
    raise GraphError("bad-format", reason, hint="take min_max, mean_square or gptq for it")


def require_option(algorithm: str, option: str, value: object, *, known: bool) -> None:
    """Refuse an option with a value that it cannot have.

    Raises:
        GraphError: `bad-algorithm`.
    """
    if not known:
        reason = f"{algorithm} cannot have {option} {value!r}"
        hint = f"the options are told in quant_passes/algorithms/{algorithm}.py"
        raise GraphError("bad-algorithm", reason, hint=hint)


def _lacking(algorithm: WeightAlgorithm, inputs: InputStatistics) -> set[str]:
    return {part for part in algorithm.needs if not inputs.has(part)}
