"""Verification sees what float64 does not: values in other formats than before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from ml_dtypes import finfo

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Cast,
    Constant,
    GatherRows,
    Input,
    Multiply,
    Param,
    RmsNorm,
    Swiglu,
    Transpose,
)
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.rebuild import rebuild
from ascendfx.passes.verification.new_narrowing import holds
from ascendfx.passes.verification.verify_pass import PassCheck, PassVerifier, Rewritten
from ascendfx.passes.verification.verify_stages import StageVerifier
from ascendfx.runtime.presets import DECODE, PREFILL, RAISE, TO_SERVING
from ascendfx.runtime.progress import silent
from ascendfx.runtime.rewriting import Rewriting
from ascendfx.runtime.start_verifier import token_ids
from tests.dumps.verified_passes import Thirds
from tests.passes.captured_models import captured, raised

_TOKENS = token_ids(None, 90)


def checked(before: Program, after: Program, fidelity: Fidelity) -> PassCheck:
    verifier = PassVerifier(captured("v3_halfrope"), random_weights(before, 0), _TOKENS)
    return verifier.check("serving", Rewritten("planted", fidelity, before, after))


def changed(program: Program, op: type, dtypes: Sequence[DType]) -> Program:
    """Cast the results of every ``op`` through formats and back."""

    def emit(
        b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        if not isinstance(node.op, op):
            return None
        value = b.add(node.op, *operands)
        for dtype in (*dtypes, node.types[0].dtype):
            value = b.add(Cast(dtype), value)
        return (value,)

    return replace(program, graphs=tuple(rebuild(graph, emit) for graph in program.graphs))


@pytest.mark.parametrize("fidelity", [Fidelity.BITWISE, Fidelity.REAL])
@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
@pytest.mark.parametrize("op", [Swiglu, RmsNorm])
def test_a_cast_to_a_narrow_format_and_back_breaks_the_promise(
    op: type, dtype: DType, fidelity: Fidelity
) -> None:
    before = raised("v3_halfrope")
    check = checked(before, changed(before, op, [dtype]), fidelity)
    assert check.broken == f"a value is rounded to {dtype.value}; before it was f32"
    assert check.place is not None
    assert check.place.node.op == Cast(dtype)


def test_a_lossy_pass_may_narrow_and_a_wide_cast_is_no_loss() -> None:
    before = raised("v3_halfrope")
    assert not checked(before, changed(before, Swiglu, [DType.BF16]), Fidelity.LOSSY).broken
    assert not checked(before, changed(before, Swiglu, [DType.F64]), Fidelity.BITWISE).broken


def test_a_rounding_that_is_left_out_changes_bits_but_is_no_loss() -> None:
    before = raised("v3_halfrope")
    narrow = changed(before, Swiglu, [DType.BF16])
    check = checked(narrow, before, Fidelity.BITWISE)
    assert check.broken == "a value is no longer rounded to bf16: bits differ"
    assert not checked(narrow, before, Fidelity.REAL).broken


def test_a_narrowing_that_moves_with_its_value_is_none() -> None:
    """The order of elements does not matter: a cast may go before or behind a transposition."""
    ids = TensorType(DType.I64, (named_size("batch"), named_size("tokens")))

    def program(*moves: Op) -> Program:
        b = GraphBuilder("main")
        value = b.add(
            GatherRows(),
            b.add(Param("w", TensorType(DType.F32, (90, 4)))),
            b.add(Input("token_ids", ids)),
        )
        for move in (*moves, Cast(DType.F32)):
            value = b.add(move, value)
        return Program((b.build(value),))

    turn, narrow, back = Transpose((2, 0, 1)), Cast(DType.BF16), Transpose((1, 2, 0))
    before = program(turn, narrow, back)
    weights = random_weights(before, 0)
    for moves in ((narrow, turn, back), (turn, back, narrow), (narrow,)):
        verifier = PassVerifier(before, weights, _TOKENS)
        run = Rewritten("planted", Fidelity.BITWISE, before, program(*moves))
        assert not verifier.check("serving", run).broken


@pytest.mark.parametrize("wide", [each for each in DType if each.is_float])
@pytest.mark.parametrize("narrow", [each for each in DType if each.is_float])
def test_a_format_holds_another_if_its_extreme_numbers_survive(wide: DType, narrow: DType) -> None:
    limits = finfo(narrow.numpy)
    numbers = np.array([limits.max, limits.smallest_subnormal, 1 + limits.eps], narrow.numpy)
    with np.errstate(all="ignore"):
        stored = numbers.astype(np.float64).astype(wide.numpy).astype(np.float64)
    assert holds(wide, narrow) == bool(np.all(stored == numbers.astype(np.float64)))


def scaled(program: Program, factor: float) -> Program:
    """Multiply the results of every gated unit."""

    def emit(
        b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        if not isinstance(node.op, Swiglu):
            return None
        constant = b.add(Constant(factor, node.types[0].dtype))
        return (b.add(Multiply(), b.add(node.op, *operands), constant),)

    return replace(program, graphs=tuple(rebuild(graph, emit) for graph in program.graphs))


@dataclass(frozen=True, slots=True)
class _Scaled(ProgramPass):
    """Multiplies the results of every gated unit by 1.01, which is allowed to a lossy pass."""

    name: ClassVar[str] = "scaled"
    fidelity: ClassVar[Fidelity] = Fidelity.LOSSY

    def run(self, program: Program) -> PassResult:
        return PassResult(scaled(program, 1.01))


@dataclass(frozen=True, slots=True)
class _ScaledReal(_Scaled):
    """The same with a promise that it breaks."""

    name: ClassVar[str] = "scaled-real"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL


@pytest.mark.parametrize("place", [len(RAISE), len(TO_SERVING)])
def test_passes_behind_a_lossy_one_are_not_blamed_for_it(place: int) -> None:
    """In any form: what rows and serving steps yield is put together to a reference."""
    program = captured("v3_halfrope")
    found = StageVerifier(program, (), random_weights(program, 0), _TOKENS)
    rewriting = Rewriting(None, found, silent)
    passes = (*TO_SERVING[:place], _Scaled(), *TO_SERVING[place:], Thirds())
    serving, _ = rewriting.run("serving", program, passes)
    rewriting.run("decode", serving, DECODE)
    errors = [check.error for check in found.checks[place + 1 :]]
    assert errors
    assert all(error.max > error.bound for error in errors)  # the table has the total
    with pytest.raises(GraphError, match="pass `scaled-real` of stage prefill is declared real"):
        rewriting.run("prefill", serving, (*PREFILL, _ScaledReal()))


def test_a_lossy_pass_of_one_plan_excuses_nothing_in_another() -> None:
    program = captured("v3_halfrope")
    found = StageVerifier(program, (), random_weights(program, 0), _TOKENS)
    rewriting = Rewriting(None, found, silent)
    serving, _ = rewriting.run("serving", program, TO_SERVING)
    rewriting.run("decode", serving, (_Scaled(), Thirds()))
    rewriting.run("prefill", serving, PREFILL)
    with pytest.raises(GraphError, match="pass `scaled-real` of stage prefill"):
        rewriting.run("prefill", serving, (_ScaledReal(),))


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("key", "where"), [("embed", r"layer `\S+` on: "), ("lm_head", "the logits on: ")]
)
def test_a_truth_that_is_not_finite_is_refused(key: str, where: str, number: float) -> None:
    program = captured("v3_halfrope")
    weights = random_weights(program, 0)
    (name,) = (each for each in weights if key in each)
    weights = {**weights, name: np.full_like(weights[name], number)}
    with pytest.raises(GraphError, match=rf"error\[truth-not-finite\].* from {where}[\d,]+ of "):
        PassVerifier(program, weights, _TOKENS)
