"""What the matcher accepts, and the reason it gives when it does not."""

from typing import Any

import pytest

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    Cos,
    GroupedLinear,
    Input,
    Linear,
    Multiply,
    Power,
    Reshape,
    Slice,
    Subtract,
    Topk,
)
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.match import Miss, match_at
from ascendfx.passes.pattern import patterns_of
from ascendfx.passes.rule import Rule, Side, SideBuilder, Site, Spelling, parse_operand


def rule_of(lhs: Side, **operands: str) -> Rule:
    return Rule(
        name="pattern",
        identity="none",
        source="test",
        operands=operands,
        spellings=(Spelling(lhs),),
        rhs=lhs,
        fidelity=Fidelity.REAL,
    )


def match(rule: Rule, graph: Graph) -> Site | Miss:
    return match_at(patterns_of(rule)[0], graph, graph.outputs[0])


def build(*shapes: tuple[int, ...], dtype: DType = DType.F32) -> tuple[GraphBuilder, list[Value]]:
    builder = GraphBuilder("g")
    kinds = (TensorType(dtype, shape) for shape in shapes)
    return builder, [builder.add(Input(f"x{i}", kind)) for i, kind in enumerate(kinds)]


def squared(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Add(), b.add(Power(), x, b.add(Constant(2.0, DType.F32))), b.add(Cos(), y))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_sum_may_stand_in_either_order(*, swapped: bool) -> None:
    b, (x, y) = build((3,), (3,))
    terms = [b.add(Power(), x, b.add(Constant(2.0, DType.F32))), b.add(Cos(), y)]
    graph = b.build(b.add(Add(), *(reversed(terms) if swapped else terms)))
    site = match(rule_of(squared, x="k", y="k"), graph)
    assert isinstance(site, Site)
    assert dict(site.bound) == {"x": x, "y": y}
    assert site.interior == {2, 3, 4, 5}


def test_a_difference_may_not() -> None:
    def lhs(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
        return b.add(Subtract(), b.add(Cos(), x), y)

    b, (x, y) = build((3,), (3,))
    result = match(rule_of(lhs, x="k", y="k"), b.build(b.add(Subtract(), y, b.add(Cos(), x))))
    assert result == Miss(1, "input stands where cos is expected", 1)


def test_a_constant_is_named_by_its_role() -> None:
    b, (x, y) = build((3,), (3,))
    cube = b.add(Power(), x, b.add(Constant(3.0, DType.F32)))
    result = match(rule_of(squared, x="k", y="k"), b.build(b.add(Add(), cube, b.add(Cos(), y))))
    assert result == Miss(2, "the exponent is 3.0, not 2.0", 2)


def twice(b: SideBuilder, h: Any, x: Value) -> Value:
    wide = b.add(Cast(DType.F32), x)
    return b.add(Multiply(), wide, b.add(Cos(), wide))


def test_one_pattern_node_is_one_node_of_the_graph() -> None:
    b, (x,) = build((3,), dtype=DType.BF16)
    first, second = (b.add(Cast(DType.F32), x) for _ in range(2))
    graph = b.build(b.add(Multiply(), first, b.add(Cos(), second)))
    result = match(rule_of(twice, x="k"), graph)
    assert isinstance(result, Miss)
    assert result.reason == "two different cast where one is expected"


def test_one_operand_is_one_value() -> None:
    def lhs(b: SideBuilder, h: Any, x: Value) -> Value:
        return b.add(Subtract(), x, b.add(Cos(), x))

    b, (x, y) = build((3,), (3,))
    result = match(rule_of(lhs, x="k"), b.build(b.add(Subtract(), x, b.add(Cos(), y))))
    assert isinstance(result, Miss)
    assert result.reason == "operand `x` would be two different values"


def test_the_number_of_a_result_counts() -> None:
    def lhs(b: SideBuilder, h: Any, x: Value) -> Value:
        return b.add(Cast(DType.F32), b.add_multi(Topk(h.k), x)[1])

    b, (x,) = build((3,), dtype=DType.BF16)
    values, ids = b.add_multi(Topk(2), x)
    rule = rule_of(lhs, x="e")
    site = match(rule, b.build(b.add(Cast(DType.F32), ids)))
    assert isinstance(site, Site)
    assert site.holes["k"] == 2
    result = match(rule, b.build(b.add(Cast(DType.F32), values)))
    assert result == Miss(1, "result 0 is used, not 1", 1)


@pytest.mark.parametrize(
    ("axes", "shape", "reason"),
    [
        ("* n", (2, 3, 4), ""),
        ("t n", (2, 3, 4), "operand `x` has 3 axes, not 2"),
        ("* 2*n n", (2, 8, 4), ""),
        ("* 2*n n", (2, 7, 4), "axis of `x` is 7, not 8"),
        ("n n", (4, 4), ""),
        ("n n", (4, 3), "axis of `x` is 3, not 4"),
        ("bf16: n", (4,), "format of `x` is f32, not bf16"),
        ("f32: n", (4,), ""),
    ],
)
def test_axes_and_formats_of_operands(axes: str, shape: tuple[int, ...], reason: str) -> None:
    def lhs(b: SideBuilder, h: Any, x: Value) -> Value:
        return b.add(Cos(), x)

    b, (x,) = build(shape)
    result = match(rule_of(lhs, x=axes), b.build(b.add(Cos(), x)))
    assert (result.reason if isinstance(result, Miss) else "") == reason


def test_sizes_are_computed_when_all_letters_are_known() -> None:
    def lhs(b: SideBuilder, h: Any, x: Value) -> Value:
        return b.add(Slice(h.last, h.n, 2 * h.n), b.add(Reshape((h.m, h.n * 2)), x))

    rule = rule_of(lhs, x="2*m n")
    b, (x,) = build((6, 4))
    wide = b.add(Reshape((3, 8)), x)
    site = match(rule, b.build(b.add(Slice(1, 4, 8), wide)))
    assert isinstance(site, Site)
    assert (site.holes["m"], site.holes["n"]) == (3, 4)
    result = match(rule, b.build(b.add(Slice(1, 4, 7), wide)))
    assert result == Miss(0, "stop of slice is 7, not 8", 3)


def test_an_operand_is_declared_by_format_rest_and_axes() -> None:
    form = parse_operand("narrow: * 2*h")
    assert (form.format, form.rest, list(map(str, form.axes))) == ("narrow", True, ["2*h"])
    assert parse_operand("i64: r k").format is DType.I64
    assert parse_operand("*").axes == ()


_PRODUCTS = (
    (Linear(), {"x": "p k", "w": "n k"}, ((5, 4), (3, 4))),
    (GroupedLinear(), {"x": "p k", "w": "e n k", "ends": "i32: e"}, ((5, 4), (2, 3, 4))),
)


@pytest.mark.parametrize(("op", "operands", "shapes"), _PRODUCTS, ids=["one", "of experts"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.I8])
def test_products_of_codes_are_left_alone(
    dtype: DType, op: Op, operands: dict[str, str], shapes: tuple[tuple[int, ...], ...]
) -> None:
    """``x V^T + x W^T = x (V + W)^T`` fails for codes in i8: sums of codes wrap around."""

    def lhs(b: SideBuilder, h: Any, *values: Value) -> Value:
        return b.add(op, *values)

    b, values = build(*shapes, dtype=dtype)
    if "ends" in operands:
        values.append(b.add(Input("ends", TensorType(DType.I32, (2,)))))
    result = match(rule_of(lhs, **operands), b.build(b.add(op, *values)))
    if dtype is DType.F32:
        assert isinstance(result, Site)
        return
    assert isinstance(result, Miss)
    assert result.reason == (
        f"{op.mnemonic} multiplies codes: rules are proved for products of one format"
    )
