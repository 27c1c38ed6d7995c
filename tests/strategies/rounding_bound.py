"""Equality of programs up to the rounding of float64, with derived tolerances."""

from collections.abc import Mapping

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array, as_float64
from ascendfx.ir.program import Program
from ascendfx.passes.rounding_bound import rounding_bound

__all__ = ["assert_equal_up_to_rounding", "rounding_bound"]


def assert_equal_up_to_rounding(
    before: Graph | Program,
    after: Graph | Program,
    tensors: Mapping[str, Array],
    *,
    telling: bool = False,
) -> None:
    """Assert that both programs agree on ``tensors`` within the bounds of both.

    With ``telling`` the bound must be below a millionth of the result: worst-case bounds grow by
    orders of magnitude per layer when weights are large.
    """
    bounds = [
        (a + c) / 2
        for a, c in zip(
            rounding_bound(before, tensors), rounding_bound(after, tensors), strict=True
        )
    ]
    results = interpret(before, tensors), interpret(after, tensors)
    for first, second, bound in zip(*results, bounds, strict=True):
        assert first.shape == second.shape
        both = np.isfinite(as_float64(first)) & np.isfinite(as_float64(second))
        same = np.where(both, 0, as_float64(first) != as_float64(second))
        assert not np.any(same & ~(np.isnan(first) & np.isnan(second)))
        if telling:
            assert bound.max() <= 1e-6 * np.abs(first).max(), "choose calmer tensors"
        gap = np.abs(np.where(both, as_float64(first) - as_float64(second), 0))
        assert np.all(gap <= 2 * bound), f"{gap.max()} exceeds {2 * bound.max()}"
