"""The checks that make a weight algorithm one: ours and those of users go through the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.output_error import output_squared_errors
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    StoredWeight,
    WeightAlgorithm,
    WeightSpec,
)
from ascendfx.quant_passes.formats.format import Float64s
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import PerGroup
from ascendfx.quant_passes.statistics import (
    PARTS,
    InputStatistics,
    statistics_of,
    without_tokens,
)

_ROWS, _COLUMNS, _TOKENS = 6, 32, 160
_MOST = 4.0
"""Times the error of min-max that an output may have: methods that look at weights only need 1.9 at
times; what is no quantization at all is beyond."""
USUAL = WeightSpec(Integer(4), PerGroup(16))


def check_algorithm(algorithm: WeightAlgorithm, spec: WeightSpec = USUAL, *, seed: int = 0) -> None:
    """Refuse an algorithm that does not do what `WeightAlgorithm` promises.

    ============  =================================================================================
    check         what is tried
    ============  =================================================================================
    declaration   a name; needs are among those that calibration can collect
    result        shape, size, finite numbers; the squared error is that of the numbers
    close         the output is off by no more than four times what min-max is
    pure          a second call, float32, transposed memory give the same; arguments are unchanged
    degenerate    rows of zeros stay zeros, constant rows are kept to a tenth; dead channels, no
                  tokens, one token, fewer tokens than inputs, one row give finite numbers
    refusals      NaN, infinities, three axes and missing statistics are a `GraphError`
    ============  =================================================================================

    Args:
        algorithm: The algorithm.
        spec: What it is asked for; one that it takes, with rows of 32 weights.
        seed: Of weights and inputs.

    Raises:
        GraphError: `algorithm-not-proved` with one example of every check that fails.
    """
    if isinstance(algorithm, WeightAlgorithm):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = list(_declaration(algorithm)) or list(_complaints(algorithm, spec, seed))
    else:
        parts = [each for each in ("name", "needs", "quantize") if not hasattr(algorithm, each)]
        found = [f"{type(algorithm).__name__} lacks {', '.join(parts)}"]
    if found:
        raise GraphError(
            "algorithm-not-proved",
            f"algorithm `{getattr(algorithm, 'name', algorithm)}` fails {len(found)} of its checks",
            notes=tuple(found),
            hint="what is promised is told in quant_passes/algorithms/weight_algorithm.py",
        )


def _declaration(algorithm: WeightAlgorithm) -> Iterator[str]:
    if not isinstance(algorithm.name, str) or not algorithm.name:  # pyright: ignore[reportUnnecessaryIsInstance]
        yield f"declaration: the name is {algorithm.name!r}"
    unknown = sorted(set(algorithm.needs) - set(PARTS))
    if unknown:
        yield f"declaration: needs {', '.join(unknown)}; known: {', '.join(PARTS)}"


@dataclass(frozen=True, slots=True)
class _Trial:
    algorithm: WeightAlgorithm
    spec: WeightSpec
    weight: Float64s
    inputs: Float64s
    known: InputStatistics

    def on(self, weight: NDArray[Any], known: InputStatistics | None) -> StoredWeight:
        found = self.algorithm.quantize(weight, self.spec, known)
        if not isinstance(found, QuantizedWeight):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"quantize returns a {type(found).__name__}")
        return found.tensor


def _complaints(algorithm: WeightAlgorithm, spec: WeightSpec, seed: int) -> Iterator[str]:
    random = np.random.default_rng(seed)
    # Numbers of float32, so that both widths are the same weight.
    weight = random.standard_normal((_ROWS, _COLUMNS)).astype(np.float32).astype(np.float64)
    inputs = random.standard_normal((_TOKENS, _COLUMNS))
    trial = _Trial(algorithm, spec, weight, inputs, statistics_of(inputs))
    for check in (_result, _pure, _degenerate, _refusals):
        try:
            yield from check(trial)
        except (GraphError, TypeError, ValueError, AttributeError) as refused:
            yield f"{check.__name__[1:]}: raises {type(refused).__name__}: {refused}"


def _result(trial: _Trial) -> Iterator[str]:
    weight = trial.weight
    tensor = trial.on(weight, trial.known)
    decoded = tensor.decode()
    if tensor.shape != weight.shape or decoded.shape != weight.shape:
        yield f"result: {list(weight.shape)} becomes {list(tensor.shape)}"
        return
    if not np.isfinite(decoded).all() or tensor.bytes <= 0:
        yield f"result: {tensor.bytes} bytes, {int((~np.isfinite(decoded)).sum())} not finite"
        return
    change = decoded.astype(np.float64) - weight
    told, true = tensor.squared_error(weight), float(np.square(change).sum())
    if abs(told - true) > 1e-4 * true + 1e-9:
        yield f"result: the squared error is told as {told:g} and is {true:g}"
    moments = trial.inputs.T @ trial.inputs
    usual = MinMax().quantize(weight, trial.spec).tensor.decode() - weight
    off, most = (float(output_squared_errors(each, moments).sum()) for each in (change, usual))
    if off > _MOST * most:
        yield f"close: the output is off by {off / most:.3g} times what min_max is"


def _pure(trial: _Trial) -> Iterator[str]:
    weight = trial.weight
    before = weight.copy()
    expected = trial.on(weight, trial.known).decode()
    tries: tuple[tuple[str, Callable[[], NDArray[Any]]], ...] = (
        ("a second call", lambda: weight),
        ("float32", lambda: weight.astype(np.float32)),
        ("transposed memory", lambda: np.asfortranarray(weight)),
    )
    for what, made in tries:
        if not np.array_equal(trial.on(made(), trial.known).decode(), expected):
            yield f"pure: {what} gives other numbers"
    if not np.array_equal(weight, before):
        yield "pure: the weight was changed"


def _degenerate(trial: _Trial) -> Iterator[str]:
    zeros = trial.weight.copy()
    zeros[1:3] = 0
    if trial.on(zeros, trial.known).decode()[1:3].any():
        yield "degenerate: rows of zeros become something else"
    constant = trial.weight.copy()
    constant[0], constant[1] = 0.3, -0.3
    off = np.abs(trial.on(constant, trial.known).decode()[:2] - constant[:2]).max()
    if not off <= 0.03:
        yield f"degenerate: rows of 0.3 are off by {off:.3g}"
    dead = np.ones(_COLUMNS)
    dead[::5] = 0
    rows = np.random.default_rng(1).standard_normal((_TOKENS, _COLUMNS))
    cases: tuple[tuple[str, NDArray[Any], InputStatistics], ...] = (
        ("a weight of zeros", np.zeros_like(trial.weight), trial.known),
        ("dead channels", trial.weight, statistics_of(rows * dead)),
        ("no tokens", trial.weight, without_tokens(_COLUMNS)),
        ("one token", trial.weight, statistics_of(rows[0])),
        ("fewer tokens than inputs", trial.weight, statistics_of(rows[: _COLUMNS // 2])),
        ("inputs of zeros", trial.weight, statistics_of(rows * 0)),
        ("one row", trial.weight[:1], trial.known),
    )
    for what, weight, known in cases:
        try:
            decoded = trial.on(weight, known).decode()
        except GraphError as refused:
            yield f"degenerate: {what}: {refused.code}: {refused.reason}"
            continue
        if not np.isfinite(decoded).all():
            yield f"degenerate: {what}: not all numbers are finite"


def _refusals(trial: _Trial) -> Iterator[str]:
    bad = [trial.weight.copy() for _ in range(2)]
    bad[0][2, 5], bad[1][2, 5] = np.nan, np.inf
    cases: list[tuple[str, NDArray[Any], InputStatistics | None]] = [
        ("NaN", bad[0], trial.known),
        ("an infinity", bad[1], trial.known),
        ("three axes", trial.weight[None], trial.known),
    ]
    if trial.algorithm.needs:
        cases.append(("missing statistics", trial.weight, None))
        cases.append(("statistics of another width", trial.weight, without_tokens(_COLUMNS + 1)))
    for what, weight, known in cases:
        try:
            trial.on(weight, known)
        except GraphError:
            continue
        yield f"refusals: {what} is taken"
