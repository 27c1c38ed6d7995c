"""The pipeline runs, tells what each pass did, and returns the same object when nothing happens."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.pipeline import PassRun, run_pipeline
from ascendfx.passes.registry import PASSES, PROGRAM_PASSES, RAISE
from ascendfx.passes.rules import RULES
from tests.passes.captured_models import captured

_FILES = Path(__file__).parents[1] / "filecheck"


def test_each_pass_is_observed_with_the_programs_around_it() -> None:
    program = captured("llama_f32")
    seen: list[PassRun] = []
    final, runs = run_pipeline(program, RAISE, observe=seen.append)
    assert tuple(seen) == runs
    assert [run.rewrite for run in runs] == list(RAISE)
    assert [run.before for run in runs] == [program, *(run.program for run in runs[:-1])]
    assert runs[-1].program is final
    assert [run.changed for run in runs] == [bool(run.statistics) for run in runs]


def test_nothing_to_do_returns_the_same_object() -> None:
    program = parse_program('graph @g {\n  %0 = input "x" : f32[2]\n  return %0\n}\n')
    # What is no language model has no incremental form, and no step: those passes refuse.
    refuse = {"close-step", "derive-incremental-form", "expose-hidden"}
    passes = [each for name, each in PASSES.items() if name not in refuse]
    final, runs = run_pipeline(program, passes)
    assert final is program
    assert all(run.program is program and not run.statistics for run in runs)


@dataclass(frozen=True, slots=True)
class _Fails(ProgramPass):
    name: ClassVar[str] = "fails"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run(self, program: Program) -> PassResult:
        raise RuntimeError("this pass is broken")


def test_a_broken_pass_ends_the_run_after_those_before_were_seen() -> None:
    seen: list[PassRun] = []
    with pytest.raises(GraphError, match="pass `fails` failed: RuntimeError: this pass") as caught:
        run_pipeline(captured("llama_f32"), [DropUnused(), _Fails()], observe=seen.append)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert [run.name for run in seen] == ["drop-unused"]


def test_names_are_unique_and_kebab_case() -> None:
    names = [each.name for each in (*PROGRAM_PASSES, *RULES)]
    assert len(PASSES) == len(names), Counter(names).most_common(1)
    assert all(re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", name) for name in names)


def test_every_pass_has_a_filecheck_file() -> None:
    checked = {path.stem.split(".")[0] for path in _FILES.glob("*.ir")}
    assert PASSES.keys() <= checked


@dataclass(frozen=True, slots=True)
class Returns(ProgramPass):
    """A pass of a user that returns something else."""

    name: ClassVar[str] = "mine"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE
    what: object = None

    def run(self, program: Program) -> PassResult:
        return self.what  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("what", [None, captured("llama_f32"), PassResult(None)])  # pyright: ignore[reportArgumentType]
def test_a_pass_that_returns_something_else_is_named(what: object) -> None:
    with pytest.raises(GraphError, match=r"error\[pass-result\]: pass `mine` returned `") as caught:
        run_pipeline(captured("llama_f32"), [Returns(what)])
    assert "PassResult(program)" in caught.value.hint


def test_a_remark_that_is_text_is_told_what_it_should_be() -> None:
    program = captured("llama_f32")
    result = PassResult(program, {}, ("no place",))  # pyright: ignore[reportArgumentType]
    with pytest.raises(GraphError, match=r"pass `mine` gave the remark 'no place', which is no"):
        run_pipeline(program, [Returns(result)])
