"""Programs that were cut out get small numbers too: short tables, and zeros where values may be."""

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.reduction.case import Case, Judge
from ascendfx.passes.reduction.reduce_pass import shrink_numbers

_JUDGE = Judge(None, Fidelity.REAL)


def _program(*lines: str) -> Program:
    body = [f"%{i} = {line}" for i, line in enumerate(lines)]
    return parse_program("\n".join(["graph @g {", *body, f"return %{len(lines) - 1}", "}"]))


def _random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape)


def test_a_table_loses_the_rows_that_no_index_needs() -> None:
    leaves = 'input "table" : f32[500, 8]', 'input "ids" : i64[3]'
    before = _program(*leaves, "gather_rows %0, %1 : f32[3, 8]", "exp %2 : f32[3, 8]")
    after = _program(*leaves, "gather_rows %0, %1 : f32[3, 8]", "cos %2 : f32[3, 8]")
    tensors = {"table": _random(500, 8), "ids": np.array([499, 17, 3])}
    case = shrink_numbers(Case(before, tensors, {}, after=after), _JUDGE)
    assert _JUDGE.observe(case) is not None
    assert sum(each.size for each in case.tensors.values()) <= 4


def test_a_large_tensor_keeps_only_the_values_that_matter() -> None:
    shape = "f32[40, 40]"
    pattern = f'input "x" : {shape}', "reduce_max %0 {axes = [0, 1], keep = false} : f32[]"
    before = _program(*pattern, f"expand %1 {{shape = [40, 40]}} : {shape}")
    after = _program(
        *pattern,
        "constant {value = 5.0, dtype = f32} : f32[]",
        "minimum %1, %2 : f32[]",
        f"expand %3 {{shape = [40, 40]}} : {shape}",
    )
    x = _random(40, 40)
    x[39, 39] = 7.0  # the corner that short axes lose
    case = shrink_numbers(Case(before, {"x": x}, {}, after=after), _JUDGE)
    assert _JUDGE.observe(case) is not None
    assert np.count_nonzero(case.tensors["x"]) <= 1600 // 64
