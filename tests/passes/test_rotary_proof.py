"""The identity of rotations: shown for the operation as it is, refused for one that is wrong."""

import inspect

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Rotary
from ascendfx.passes.attention_lanes import check_lanes
from ascendfx.passes.position_kinds import Rotations
from ascendfx.passes.rotary_proof import Angle, lanes_of, prove_shift, read_angle

LAYOUTS = [Rotary(i, o) for i in (False, True) for o in (False, True)]
HALVES, NEIGHBOURS = LAYOUTS[0], LAYOUTS[-1]


@pytest.mark.parametrize("query", LAYOUTS)
@pytest.mark.parametrize("key", LAYOUTS)
def test_all_layouts_are_proved(query: Rotary, key: Rotary) -> None:
    prove_shift.cache_clear()
    prove_shift(query, key)


def _changed(before: str, after: str) -> type[Rotary]:
    """Return a copy of the operation with one detail of its definition changed."""
    source = inspect.getsource(Rotary.reference)
    assert source.count(before) == 1
    names: dict[str, object] = {"np": np, "Array": Array}
    text = "\n".join(line[4:] for line in source.replace(before, after).splitlines())
    exec(text, names)  # noqa: S102
    return type("Changed", (Rotary,), {"reference": names["reference"]})


@pytest.mark.parametrize("op", LAYOUTS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("u * cos - v * sin", "u * cos + v * sin"),
        ("v * cos + u * sin", "v * cos - u * sin"),
        ("v * cos + u * sin", "v * cos + v * sin"),
        ("u * cos - v * sin", "u * cos - 2 * v * sin"),
        ("u * cos - v * sin", "u * cos - v * cos"),
        ("u * cos - v * sin", "u - v * sin"),
    ],
)
def test_a_wrong_definition_is_not_proved(op: Rotary, before: str, after: str) -> None:
    wrong = _changed(before, after)(op.interleaved_in, op.interleaved_out)
    with pytest.raises(GraphError, match="rotary-not-proved"):
        prove_shift(wrong, wrong)


def test_the_inverse_rotation_of_one_side_is_not_proved() -> None:
    op = LAYOUTS[0]
    inverse = type(
        "Inverse",
        (Rotary,),
        {"reference": lambda _self, x, cos, sin: op.reference(x, cos, -sin)},
    )(interleaved_in=False, interleaved_out=False)
    prove_shift(inverse, inverse)
    with pytest.raises(GraphError, match="shifted by s"):
        prove_shift(op, inverse)


@given(op=st.sampled_from(LAYOUTS), columns=st.integers(1, 9))
def test_lanes_are_those_of_the_operation(op: Rotary, columns: int) -> None:
    lanes = lanes_of(op, columns)
    for pair in range(columns):
        x = np.zeros(2 * columns)
        first = 2 * pair if op.interleaved_in else pair
        x[first] = 1.0
        cos, sin = np.full(columns, 0.6), np.full(columns, 0.8)
        (y,) = op.reference(x, cos, sin)
        place, other = lanes.of_pair(pair)
        assert (y[place], y[other]) == (0.6, 0.8)


P, W, A, C = sympy.symbols("p w a c")


@pytest.mark.parametrize(
    ("angle", "factor"),
    [(P * W, 1), (P * W + A, C), (-P * W, 1), (2 * P * W + W, C), (W * (P + 1), sympy.Float(1.3))],
)
def test_angles_are_read_from_tables(angle: sympy.Expr, factor: sympy.Expr) -> None:
    found = read_angle(factor * sympy.cos(angle), factor * sympy.sin(angle), P)
    assert found is not None
    assert found.factor == factor
    assert sympy.expand(found.frequency * P + found.phase - angle) == 0


@pytest.mark.parametrize(
    ("cos", "sin"),
    [
        (sympy.cos(P * W), sympy.sin(P * A)),
        (sympy.cos(P * W), sympy.cos(P * W)),
        (sympy.sin(P * W), sympy.cos(P * W)),
        (C * sympy.cos(P * W), sympy.sin(P * W)),
        (sympy.cos(P**2 * W), sympy.sin(P**2 * W)),
        (sympy.cos(sympy.log(P)), sympy.sin(sympy.log(P))),
        (P * sympy.cos(P * W), P * sympy.sin(P * W)),
        (sympy.cos(P * W) + 1, sympy.sin(P * W)),
        (sympy.cos(A), sympy.sin(A)),
        (sympy.Integer(1), sympy.Integer(0)),
    ],
)
def test_what_is_no_rotation_has_no_angle(cos: sympy.Expr, sin: sympy.Expr) -> None:
    assert read_angle(cos, sin, P) is None


HEADS, PAIRS, TOKENS = 2, 3, 2


def _rotated(made: Rotations, op: Rotary, angles: list[Angle]) -> Array:
    """Return labels ``[tokens, heads, lanes]`` of a rotation by one angle per pair."""
    columns = np.empty((1, 1, PAIRS), object)
    columns[0, 0] = [*angles, None][:PAIRS]
    for i, angle in enumerate(angles):
        columns[0, 0, i] = angle
    tokens = np.arange(TOKENS).reshape(TOKENS, 1, 1)
    return made.add(op, (TOKENS, HEADS, 2 * PAIRS), columns, tokens)


ANGLES = [Angle(1, sympy.Symbol(f"f{i}"), 0) for i in range(PAIRS)]


@given(
    op=st.sampled_from(LAYOUTS),
    order=st.permutations(range(2 * PAIRS)),
    other=st.permutations(range(2 * PAIRS)),
)
def test_lanes_may_move_on_both_sides_alike(op: Rotary, order: list[int], other: list[int]) -> None:
    made = Rotations()
    query, key = (_rotated(made, op, ANGLES) for _ in range(2))
    assert check_lanes(made, query[..., order], key[..., order]) == {(op, op)}
    if list(order) != list(other):
        assert isinstance(check_lanes(made, query[..., order], key[..., other]), str)


def test_equal_angles_do_not_hide_other_pairs() -> None:
    made = Rotations()
    same = [ANGLES[0]] * PAIRS
    query, key = (_rotated(made, op, same) for op in (HALVES, NEIGHBOURS))
    assert "not opposite" in str(check_lanes(made, query, key))


@pytest.mark.parametrize("lanes", [[0], [0, 1], [0, 3, 1], [0, 0, 3, 3], [0, 3, 0, 3]])
def test_halves_and_copies_of_pairs_are_refused(lanes: list[int]) -> None:
    made = Rotations()
    query, key = (_rotated(made, HALVES, ANGLES) for _ in range(2))
    assert "one half" in str(check_lanes(made, query[..., lanes], key[..., lanes]))


def test_tokens_heads_and_free_lanes_must_meet() -> None:
    made = Rotations()
    query, key = (_rotated(made, HALVES, ANGLES) for _ in range(2))
    assert "another token" in str(check_lanes(made, query, key[::-1]))
    assert check_lanes(made, query, key[:, :1]) == {(HALVES,) * 2}
    free = np.where(np.arange(2 * PAIRS) < 2, 0, key)
    assert "lane of the query" in str(check_lanes(made, query, free))
    assert check_lanes(made, query * 0, key * 0) == set()
