"""Printer and parser are exact inverses; the parser believes nothing."""

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir import ops
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.op import Op
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size, parse_size, print_size, simplify_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from tests.ir.op_cases import GOOD, operand_types

ROWS = named_size("rows")
_DIMS = st.sampled_from([1, 2, 3, ROWS, 2 * ROWS, ROWS + 1])
_TYPES = st.builds(
    TensorType,
    st.sampled_from([DType.F32, DType.BF16, DType.I64]),
    st.lists(_DIMS, max_size=3).map(tuple),
)
_NAMES = st.from_regex(r"[a-z][a-z0-9_.]{0,8}", fullmatch=True)
_OPS: st.SearchStrategy[Op] = st.sampled_from([op for op, text in GOOD if text])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw a program of one graph by adding operations and keeping those that type-check."""
    builder = GraphBuilder(draw(_NAMES))
    values: list[Value] = []
    for name in draw(st.lists(_NAMES, min_size=1, max_size=3, unique=True)):
        kind = draw(st.sampled_from([ops.Input, ops.Param]))
        values.append(builder.add(kind(name, draw(_TYPES))))
    for op in draw(st.lists(_OPS, max_size=8)):
        count = draw(st.integers(0, 3))
        operands = [draw(st.sampled_from(values)) for _ in range(count)]
        try:
            values += builder.add_multi(op, *operands)
        except (GraphError, ValueError, IndexError):
            continue
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return Program((builder.build(*outputs),))


@given(programs())
def test_parse_undoes_print(program: Program) -> None:
    assert parse_program(print_program(program)) == program


@given(programs())
def test_print_undoes_parse(program: Program) -> None:
    text = print_program(program)
    assert print_program(parse_program(text)) == text


@pytest.mark.parametrize(("op", "text"), GOOD, ids=lambda each: getattr(each, "mnemonic", None))
def test_every_operation_survives(op: Op, text: str) -> None:
    builder = GraphBuilder("g")
    operands = [builder.add(ops.Input(f"x{i}", kind)) for i, kind in enumerate(operand_types(text))]
    program = Program((builder.build(*builder.add_multi(op, *operands)),))
    assert parse_program(print_program(program)) == program


@given(
    st.recursive(
        st.sampled_from([1, 2, 7, ROWS, named_size("context")]),
        lambda inner: st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a * b, inner, inner),
            st.builds(lambda a, b: a - b, inner, inner),
            st.builds(lambda a, b: sympy.floor((a + b) / sympy.Integer(4)), inner, inner),
        ),
    )
)
def test_sizes_survive(size: object) -> None:
    simple = simplify_size(size)
    assert parse_size(print_size(simple)) == simple


@pytest.mark.parametrize("text", ["n//2", "(n + 3)//4 + 1", "4*((n + 3)//4)", "n_1//block"])
def test_quotients_survive(text: str) -> None:
    size = parse_size(text)
    assert parse_size(print_size(size)) == size


@pytest.mark.parametrize(
    "text",
    [
        "2 +",
        "rows rows",
        "__import__('os')",
        "rows.x",
        "1e3",
        "",
        "rows//0",
        "9**9999999",
        "(a + b)**300",
        "a**b",
        "(" * 500 + "a" + ")" * 500,
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


HEAD = 'graph @g {\n  %0 = input "x" : f32[2, 3]\n'


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("  %1 = exp %0 : f32[3, 2]\n  return %1\n}\n", "stated-type"),
        ("  %1 = expo %0 : f32[2, 3]\n  return %1\n}\n", "unknown-operation"),
        ("  %1 = exp %0 {axis=1} : f32[2, 3]\n  return %1\n}\n", "unknown-attribute"),
        ("  %1 = softmax %0 : f32[2, 3]\n  return %1\n}\n", "syntax"),
        ("  %1 = softmax %0 {axis=} : f32[2, 3]\n  return %1\n}\n", "syntax"),
        ("  %2 = exp %0 : f32[2, 3]\n  return %2\n}\n", "syntax"),
        ("  %1 = exp %4 : f32[2, 3]\n  return %1\n}\n", "syntax"),
        ("  %1 = exp %0 : f99[2, 3]\n  return %1\n}\n", "syntax"),
        ("  %1 = add %0, %0.1 : f32[2, 3]\n  return %1\n}\n", "syntax"),
        ("  return %0\n  %1 = exp %0 : f32[2, 3]\n}\n", "syntax"),
        ("  return %0\n", "syntax"),
        ("}\n", "syntax"),
        ("  nonsense\n", "syntax"),
        ("  %1 = matmul %0, %0 : f32[2, 2]\n  return %1\n}\n", "operand-type"),
        ("  %1 = exp %.0 : f32[2, 3]\n  return %1\n}\n", "syntax"),
        ("  return %0.0.0\n}\n", "syntax"),
        ("  return %0 %0\n}\n", "syntax"),
        ("  return %" + "9" * 5000 + "\n}\n", "syntax"),
        ('  %1 = input "y" : f32[-3]\n  return %0\n}\n', "syntax"),
        ('  %1 = input "y" : f32[-rows]\n  return %0\n}\n', "syntax"),
        ("  %1 = softmax %0 {axis=1, axis=0} : f32[2, 3]\n  return %1\n}\n", "syntax"),
        *(
            (
                f"  %1 = constant {{value={value}, dtype={kind}}} : {kind}[]\n  return %1\n}}\n",
                "syntax",
            )
            for value, kind in (
                ("inf", "i32"),
                ("nan", "i64"),
                ("1e23", "i64"),
                ("128", "i8"),
                ("2", "bool"),
                ("1" + "0" * 400, "f32"),
            )
        ),
        ('  %1 = input "y" : f32[' + "9" * 5000 + "]\n  return %0\n}\n", "syntax"),
        (
            '  %1 = input "y" : f32[' + "(" * 3000 + "a" + ")" * 3000 + "]\n  return %0\n}\n",
            "syntax",
        ),
        ("  %1 = linear %0 : f32[2, 3]\n  return %1\n}\n", "syntax"),
        ("  %1 = exp %0, %0 : f32[2, 3]\n  return %1\n}\n", "syntax"),
        ('  %1 = softmax %0 {axis="one"} : f32[2, 3]\n  return %1\n}\n', "syntax"),
        ("  %1 = softmax %0 {axis=true} : f32[2, 3]\n  return %1\n}\n", "syntax"),
        ('  %1 = reshape %0 {shape="ab"} : f32[6]\n  return %1\n}\n', "syntax"),
        ("  %1 = reshape %0 {shape=[f32]} : f32[6]\n  return %1\n}\n", "syntax"),
        ("  %1 = reshape %0 {shape=" + "[" * 5000 + "} : f32[6]\n  return %1\n}\n", "syntax"),
    ],
)
def test_malformed_text_is_reported_with_its_line(body: str, code: str) -> None:
    with pytest.raises(GraphError, match=rf"error\[{code}\]") as caught:
        parse_program(HEAD + body, file="bad.ir")
    assert caught.value.location.file in ("bad.ir", "<text>")


def test_a_wrong_stated_type_reads_like_this() -> None:
    with pytest.raises(GraphError) as caught:
        parse_program(HEAD + "  %1 = exp %0 : f32[3, 2]\n  return %1\n}\n", file="bad.ir")
    assert str(caught.value) == (
        "error[stated-type]: exp produces f32[2, 3], but f32[3, 2] was stated\n"
        "  --> bad.ir:3\n"
        "   |\n"
        "   | %1 = exp %0 : f32[3, 2]\n"
        "   |\n"
        "\n"
        "hint: state f32[2, 3], or correct operands or attributes"
    )


def test_an_error_without_a_place_names_none() -> None:
    error = GraphError("bad-limit", "max_batch must be at least 1, got 0", hint="pass 1 or more")
    assert str(error) == (
        "error[bad-limit]: max_batch must be at least 1, got 0\n\nhint: pass 1 or more"
    )


def test_a_recipe_that_is_given_twice_is_refused_at_its_line() -> None:
    recipe = 'recipe @g "w" {\n  %0 = param "a" : f32[2]\n  return %0\n}\n'
    text = 'graph @g {\n  %0 = param "w" : f32[2]\n  return %0\n}\n' + recipe
    parse_program(text)
    with pytest.raises(GraphError, match="`w` in @g is given twice") as caught:
        parse_program(text + recipe)
    assert caught.value.location.line == 9


@pytest.mark.parametrize(
    ("value", "kind"), [("-128", "i8"), ("3.0", "i32"), ("true", "bool"), ("-inf", "f32")]
)
def test_constants_of_their_formats_are_read(value: str, kind: str) -> None:
    graph = parse_program(
        f"graph @g {{\n%0 = constant {{value={value}, dtype={kind}}} : {kind}[]\nreturn %0\n}}"
    ).main
    (node,) = graph.nodes
    assert isinstance(node.op, ops.Constant)
    assert node.op.value == (value == "true" if kind == "bool" else float(value))
