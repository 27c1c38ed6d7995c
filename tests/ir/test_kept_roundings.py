"""Which casts have to round, and that they round once."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ascendfx.ir.interpret import interpret
from ascendfx.ir.kept_roundings import kept_roundings, with_roundings
from ascendfx.ir.text.parser import parse_program


def _main(*lines, inputs='%0 = input "x" : f32[4, 8]'):
    body = "\n".join(f"  {line}" for line in (inputs, *lines))
    return parse_program(f"graph @main {{\n{body}\n}}\n").main


NARROW = "%1 = cast %0 {dtype=bf16} : bf16[4, 8]"


@pytest.mark.parametrize(
    ("kept", "graph"),
    [
        (True, _main(NARROW, "%2 = cast %1 {dtype=f32} : f32[4, 8]", "return %2")),
        (True, _main(NARROW, "%2 = cast %1 {dtype=f32} : f32[4, 8]", "return %1, %2")),
        (
            True,
            _main(
                NARROW,
                "%2 = reshape %1 {shape=[8, 4]} : bf16[8, 4]",
                "%3 = relu %2 : bf16[8, 4]",
                "%4 = cast %3 {dtype=f32} : f32[8, 4]",
                "return %4",
            ),
        ),
        (False, _main(NARROW, "return %1")),
        (
            False,
            _main(
                NARROW,
                "%2 = multiply %1, %1 : bf16[4, 8]",
                "%3 = cast %2 {dtype=f32} : f32[4, 8]",
                "return %3",
            ),
        ),
        (
            False,
            _main(
                "%1 = cast %0 {dtype=f32} : f32[4, 8]",
                "%2 = cast %1 {dtype=bf16} : bf16[4, 8]",
                "return %2",
                inputs='%0 = input "x" : bf16[4, 8]',
            ),
        ),
        (
            True,
            _main(
                "%1 = cast %0 {dtype=f32} : f32[4, 8]",
                "%2 = cast %1 {dtype=f64} : f64[4, 8]",
                "return %2",
                inputs='%0 = input "x" : f64[4, 8]',
            ),
        ),
    ],
)
def test_a_cast_rounds_if_its_numbers_are_widened_again(kept, graph):
    assert kept_roundings(graph) == (frozenset({1}) if kept else frozenset())
    assert (with_roundings(graph) is not graph) == kept


def test_rounding_is_that_of_the_format():
    graph = with_roundings(_main(NARROW, "%2 = cast %1 {dtype=f32} : f32[4, 8]", "return %2"))
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    x[0, :5] = np.inf, np.nan, 3e38, 3.4e38, 1e-45
    (found,) = interpret(graph, {"x": x})
    np.testing.assert_array_equal(found, x.astype(bfloat16).astype(np.float64))


def test_a_midpoint_is_rounded_once():
    graph = with_roundings(
        _main(
            NARROW,
            "%2 = cast %1 {dtype=f64} : f64[4, 8]",
            "return %2",
            inputs='%0 = input "x" : f64[4, 8]',
        )
    )
    (found,) = interpret(graph, {"x": np.full((4, 8), 1 + 2**-8 + 2**-40)})
    np.testing.assert_array_equal(found, 1 + 2**-7)
