"""One meaning of "the same bits": signs of zeros count, for rules, passes, and verification."""

from typing import Any

import numpy as np
import pytest

from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.ops import Add, Constant, Divide, Input, Multiply, Subtract
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.reduction.case import Case, observe
from ascendfx.passes.same_bits import same_bits, same_in_format
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.simplify import Simplify
from ascendfx.passes.verification.verify_pass import PassVerifier, Rewritten
from tests.passes.zero_model import (
    ZERO_TABLE,
    ZERO_TOKENS,
    arithmetic,
    constant,
    zero_dropped,
    zero_model,
)


def test_signs_of_zero_are_bits_and_any_nan_is_any_other() -> None:
    assert not same_bits(np.array(0.0), np.array(-0.0))
    assert same_bits(np.array(np.nan), np.array(-np.nan))
    assert same_bits(np.array(0), np.array(0))
    assert not same_in_format(DType.F32, np.array([0.0]), np.array([-0.0]))
    assert not same_in_format(DType.F32, np.array([1e-60]), np.array([-1e-60]))
    assert same_in_format(DType.F32, np.array([1e-60]), np.array([0.0]))


def test_bits_are_those_of_the_format_of_the_result() -> None:
    one = np.array([1.0, np.nan, 3.0])
    for dtype, apart, together in (
        (DType.F32, 2.0**-23, 2.0**-26),
        (DType.BF16, 2.0**-7, 2.0**-10),
    ):
        assert same_in_format(dtype, one, one * (1 + together))
        assert not same_in_format(dtype, one, one * (1 + apart))
    assert not same_in_format(DType.I32, np.array([1]), np.array([2]))
    assert not same_in_format(DType.F32, one, one[:2])


@pytest.mark.parametrize(
    ("op", "number", "dropped"),
    [
        (Add(), 0.0, False),
        (Add(), -0.0, True),
        (Subtract(), 0.0, True),
        (Subtract(), -0.0, False),
        (Multiply(), 1.0, True),
        (Multiply(), -1.0, False),
        (Divide(), 1.0, True),
    ],
    ids=str,
)
def test_only_neutral_constants_are_dropped(op: Any, number: float, *, dropped: bool) -> None:
    before = arithmetic(op, number)
    assert (Simplify().run_graph(before).graph.outputs[0].node == 0) == dropped


def test_zero_and_negative_zero_are_two_constants() -> None:
    assert Constant(0.0, DType.F32) == Constant(0, DType.F32)
    assert Constant(0.0, DType.F32) != Constant(-0.0, DType.F32)
    builder = GraphBuilder("g")
    x = builder.add(Input("x", TensorType(DType.F32, (2,))))
    graph = builder.build(
        *(builder.add(Multiply(), x, constant(builder, zero)) for zero in (0.0, -0.0))
    )
    assert ShareCommon().run_graph(graph).graph is graph


def test_a_bitwise_pass_that_changes_the_sign_of_a_zero_is_found_by_verification() -> None:
    program = zero_model(0.0)
    for rewrite, broken in (
        (Simplify(), ""),
        (zero_dropped(), "it is declared bitwise, and bits differ"),
    ):
        after = rewrite.run(program).program
        found = PassVerifier(program, ZERO_TABLE, ZERO_TOKENS)
        assert (
            found.check("serving", Rewritten("", Fidelity.BITWISE, program, after)).broken == broken
        )


def test_a_case_shows_the_sign_of_a_zero() -> None:
    program = Program((arithmetic(Add(), 0.0),))
    after = zero_dropped().run(program).program
    assert after != program
    case = Case(program, {"x": np.array([-0.0, 1.0])}, {})
    assert observe(case, after, Fidelity.BITWISE) is not None
    assert observe(case, after, Fidelity.REAL) is None
    same = Case(program, {"x": np.array([0.0, 1.0])}, {})
    assert observe(same, after, Fidelity.BITWISE) is None
