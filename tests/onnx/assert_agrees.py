"""The judgement: a model in ONNX Runtime computes what the interpreter computes."""

from collections.abc import Mapping

import numpy as np
import onnx

from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from tests.onnx.onnx_session import run_model
from tests.strategies.rounding_bound import rounding_bound


def assert_agrees_in_float64(
    what: Program | Graph, tensors: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> None:
    """Assert that all outputs agree within twice the rounding bound; integers exactly.

    ONNX Runtime takes the same steps as the interpreter, sums in another order: the bound, which
    does not depend on the order, holds for both.
    """
    model = to_onnx(what, float_dtype=DType.F64)
    onnx.checker.check_model(model, full_check=True)
    inputs = {**tensors, **{f"size.{name}": [size] for name, size in (sizes or {}).items()}}
    with np.errstate(all="ignore"):
        expected = interpret(what, tensors, sizes=sizes)
        bounds = rounding_bound(what, tensors, sizes)
    for result, value, bound in zip(run_model(model, inputs), expected, bounds, strict=True):
        assert_within(result, value, 2 * bound)


def assert_within(result: Array, value: Array, bound: Array) -> None:
    """Assert equality where values are not finite or not floats, and closeness elsewhere."""
    assert result.shape == value.shape
    if value.dtype.kind != "f":
        np.testing.assert_array_equal(result, value)
        return
    finite = np.isfinite(value)
    np.testing.assert_array_equal(result[~finite], value[~finite])
    gap = np.abs(result[finite] - value[finite])
    assert np.all(gap <= bound[finite]), f"{gap.max()} exceeds {bound[finite].max()}"
