"""Passes of users that are wrong in every way: each is named, none is a traceback of ours."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import ascendfx
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.program import Program
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import (
    Fidelity,
    GraphPass,
    GraphResult,
    PassResult,
    ProgramPass,
)
from ascendfx.passes.pass_contract import check_own_passes
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.simplify import Simplify
from ascendfx.runtime.presets import serving_passes
from tests.passes.captured_models import captured


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


@dataclass(frozen=True, slots=True)
class OfGraphs(GraphPass):
    """A pass over graphs that is nothing but a function."""

    name: ClassVar[str] = "mine"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL
    function: Callable[[Graph], Any]

    def run_graph(self, graph: Graph) -> GraphResult:
        return self.function(graph)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda _: None, "returned `NoneType` from run_graph"),
        (lambda graph: graph, "returned `Graph` from run_graph"),
        (lambda _: PassResult(PROGRAM), "returned `PassResult` from run_graph"),
        (lambda _: GraphResult(None), "returned `NoneType` from run_graph"),
        (lambda graph: GraphResult(graph, None), "gave the statistics None"),
        (lambda graph: GraphResult(graph, {"a": "b"}), "gave the statistics {'a': 'b'}"),
        (lambda graph: GraphResult(graph, {}, None), "gave the remark None"),
    ],
)
def test_a_wrong_result_for_a_graph_says_what_to_return(
    function: Callable[[Graph], Any], reason: str
) -> None:
    with pytest.raises(GraphError) as caught:
        run_pipeline(PROGRAM, [OfGraphs(function)])
    assert caught.value.code == "pass-result"
    assert caught.value.reason.startswith(f"pass `mine` {reason}")
    if "run_graph" in reason:
        assert "return" in (caught.value.hint or "")
        assert "GraphResult(graph)" in (caught.value.hint or "")
        assert "PassResult(program)" in (caught.value.hint or "")


def test_the_line_of_a_pass_that_failed_is_named() -> None:
    with pytest.raises(GraphError) as caught:
        run_pipeline(PROGRAM, [Made(_divided)])
    line = _divided.__code__.co_firstlineno + 1
    assert caught.value.reason.endswith(f" by zero at test_pass_contract.py:{line}")


def test_the_line_of_a_pass_is_named_where_it_calls_ours_or_numpy_wrongly() -> None:
    def misses(program: Program) -> PassResult:
        return PassResult(Program(program.graphs[:1]).pruned())

    def stacks(_program: Program) -> PassResult:
        return PassResult(np.stack([]))

    for wrong in (misses, stacks):
        with pytest.raises(GraphError) as caught:
            run_pipeline(PROGRAM, [Made(wrong)])
        line = wrong.__code__.co_firstlineno + 1
        assert caught.value.reason.endswith(f" at test_pass_contract.py:{line}")


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


def test_a_class_instead_of_an_object_is_told_how_to_be_called() -> None:
    hints: list[str] = []
    for wrong in ((Nameless,), Nameless):
        with pytest.raises(GraphError) as caught:
            check_own_passes(wrong)  # pyright: ignore[reportArgumentType]
        hints.append(caught.value.hint or "")
    assert hints == ["pass an object of it: Nameless()", "pass a tuple: passes=(Nameless(),)"]


@pytest.mark.parametrize(
    ("passes", "hint"),
    [
        ([Nameless], "pass an object of the class: Nameless()"),
        (Nameless, "pass a tuple of objects: passes=(Nameless(),)"),
        (Nameless(), "put it into a tuple: passes=(...,)"),
        ("simplify", "pass a list of `ProgramPass`"),
    ],
)
def test_compile_says_how_passes_are_given(passes: Any, hint: str) -> None:
    with pytest.raises(GraphError) as caught:
        ascendfx.compile(ascendfx.bundled_model(), passes=passes)
    assert caught.value.code == "bad-argument"
    assert caught.value.hint == hint


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
