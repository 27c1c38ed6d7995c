"""Passes of users that are wrong in every way: each is named, none is a traceback of ours."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.program import Program
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.pass_contract import check_own_passes
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.simplify import Simplify
from ascendfx.runtime.presets import serving_passes
from tests.passes.test_raising_models import captured


@dataclass(frozen=True, slots=True)
class Made(ProgramPass):
    """A pass that is nothing but a function."""

    name: ClassVar[str] = "mine"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL
    function: Callable[[Program], Any]

    def run(self, program: Program) -> PassResult:
        return self.function(program)


class Nameless(ProgramPass):
    """A pass without name and fidelity."""

    def run(self, program: Program) -> PassResult:
        return PassResult(program)


def _declared(name: Any, fidelity: Any = Fidelity.REAL) -> ProgramPass:
    kind = type("Mine", (Nameless,), {"name": name, "fidelity": fidelity})
    return kind()


PROGRAM = captured("bundled_bf16")


def _result(*values: Any) -> Callable[[Program], Any]:
    return lambda _: PassResult(*values)


def _without_callees(program: Program) -> PassResult:
    return PassResult(Program(program.graphs[:1], program.recipes))


def _twice(program: Program) -> PassResult:
    return PassResult(Program((*program.graphs, program.graphs[-1]), program.recipes))


def _without_first_input(program: Program) -> PassResult:
    layer = program.graphs[-1]
    cut = replace(layer, outputs=layer.outputs[:0])
    return PassResult(Program((*program.graphs[:-1], cut), program.recipes))


def _pruned_too_much(program: Program) -> PassResult:
    return PassResult(Program(program.graphs[:1], program.recipes).pruned())


def _divided(program: Program) -> PassResult:
    return PassResult(program, {"zero": 1 // 0})


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (_result(Program(())), "pass-result"),
        (_result(Program([PROGRAM.main])), "pass-result"),  # pyright: ignore[reportArgumentType]
        (_result(Program(("x",))), "pass-result"),  # pyright: ignore[reportArgumentType]
        (_result(Program(PROGRAM.graphs, None)), "pass-result"),  # pyright: ignore[reportArgumentType]
        (_result(Program(PROGRAM.graphs, {("a", "b"): 1})), "pass-result"),  # pyright: ignore[reportArgumentType]
        (_result(PROGRAM, "abc"), "pass-result"),
        (_result(PROGRAM, None), "pass-result"),
        (_result(PROGRAM, {"a": "b"}), "pass-result"),
        (_result(PROGRAM, {1: 1}), "pass-result"),
        (_result(PROGRAM, {}, "x"), "pass-result"),
        (_result(PROGRAM, {}, 5), "pass-result"),
        (_result(PROGRAM, {}, None), "pass-result"),
        (_without_callees, "unknown-graph"),
        (_twice, "duplicate-graph"),
        (_without_first_input, "call-type"),
        (_pruned_too_much, "pass-failed"),
        (_divided, "pass-failed"),
    ],
)
def test_a_wrong_result_names_the_pass(function: Callable[[Program], Any], code: str) -> None:
    with pytest.raises(GraphError, match="pass `mine`") as caught:
        run_pipeline(PROGRAM, [Made(function)])
    assert caught.value.code == code
    assert caught.value.hint


def test_what_a_pass_raised_is_the_cause() -> None:
    with pytest.raises(GraphError, match="ZeroDivisionError") as caught:
        run_pipeline(PROGRAM, [Made(_divided)])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_error_of_the_compiler_that_a_pass_raises_stays_as_it_is() -> None:
    def refuse(program: Program) -> PassResult:
        raise GraphError("no-cache", "not this one", hint="another")

    with pytest.raises(GraphError, match=r"error\[no-cache\]: not this one"):
        run_pipeline(PROGRAM, [Made(refuse)])


@pytest.mark.parametrize(
    "name", [None, 5, "", "a\nb", "../../evil", "/etc/x", "A", "a b", "a--b", "-a", "x" * 300]
)
def test_a_name_that_no_file_should_have_is_refused(name: Any) -> None:
    wrong = _declared(name)
    for check in (check_own_passes, lambda each: run_pipeline(PROGRAM, each)):
        with pytest.raises(GraphError, match="the pass class Mine has the `name`") as caught:
            check((wrong,))
        assert caught.value.code == "pass-declaration"


@pytest.mark.parametrize("fidelity", [None, "real", 1, Fidelity])
def test_a_fidelity_that_is_none_is_refused(fidelity: Any) -> None:
    wrong = _declared("mine", fidelity)
    for check in (check_own_passes, lambda each: run_pipeline(PROGRAM, each)):
        with pytest.raises(GraphError, match="the pass class Mine has the `fidelity`"):
            check((wrong,))


@pytest.mark.parametrize(
    ("passes", "reason"),
    [
        ((Nameless(),), "has the `name` None"),
        ((Nameless,), "the class Nameless is no pass"),
        (Made(_divided), "not a sequence of passes"),
        (("simplify",), "'simplify' is no pass"),
        ((_declared("simplify"),), "is named `simplify`"),
        ((_declared("rms-norm"),), "is named `rms-norm`"),
    ],
)
def test_passes_are_checked_before_any_work(passes: Any, reason: str) -> None:
    with pytest.raises(GraphError) as caught:
        serving_passes((), passes)
    assert reason in caught.value.reason


def test_passes_of_the_library_and_generators_are_taken() -> None:
    sound = Made(PassResult)
    chosen = serving_passes((), (each for each in (Simplify(), sound, DropUnused())))  # pyright: ignore[reportArgumentType]
    assert sound in chosen
    final, _ = run_pipeline(PROGRAM, [sound])
    assert final is PROGRAM
    assert isinstance(final.main, Graph)
