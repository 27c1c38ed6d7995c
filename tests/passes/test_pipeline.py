"""The pipeline runs, measures, dumps, and returns the same object when nothing happens."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.pipeline import PASSES, RAISE, run_pipeline
from ascendfx.passes.simplify import Simplify
from tests.passes.test_raising_models import captured

_FILES = Path(__file__).parents[1] / "filecheck"


def test_every_step_is_dumped_and_can_be_read_back(tmp_path: Path) -> None:
    program = captured("llama_f32")
    final, runs = run_pipeline(program, RAISE, dump_dir=tmp_path / "dump")
    files = sorted(path.name for path in (tmp_path / "dump").iterdir())
    names = [f"{i:02d}-{each.name}.ir" for i, each in enumerate(RAISE, start=1)]
    assert files == ["00-input.ir", *names, "index.json"]
    texts = [(tmp_path / "dump" / name).read_text(encoding="utf-8") for name in files[:-1]]
    assert parse_program(texts[0]) == program
    assert [parse_program(text) for text in texts[1:]] == [run.program for run in runs]
    assert runs[-1].program == final


def test_the_index_says_what_each_pass_did(tmp_path: Path) -> None:
    path = _FILES / "rms-norm.eps-is-zero.ir"
    program = parse_program(path.read_text(encoding="utf-8"), file=path.name)
    run_pipeline(program, [PASSES["rms-norm"], Simplify()], dump_dir=tmp_path)
    index = json.loads((tmp_path / "index.json").read_text(encoding="utf-8"))
    assert [entry["file"] for entry in index] == ["01-apply-rules.ir", "02-simplify.ir"]
    assert index[0]["statistics"] == {}
    assert index[0]["remarks"] == [
        "rms-norm: eps is not positive: a zero row has no norm at rms-norm.eps-is-zero.ir:17"
    ]
    assert index[0]["seconds"] >= 0


def test_nothing_to_do_returns_the_same_object() -> None:
    program = parse_program('graph @g {\n  %0 = input "x" : f32[2]\n  return %0\n}\n')
    # The incremental form of what is no language model does not exist: that pass refuses.
    passes = [each for name, each in PASSES.items() if name != "derive-incremental-form"]
    final, runs = run_pipeline(program, passes)
    assert final is program
    assert all(run.program is program and not run.statistics for run in runs)


@dataclass(frozen=True, slots=True)
class _Fails(ProgramPass):
    name: ClassVar[str] = "fails"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run(self, program: Program) -> PassResult:
        raise RuntimeError("this pass is broken")


def test_a_broken_pass_leaves_complete_dumps_of_those_before(tmp_path: Path) -> None:
    program = captured("llama_f32")
    with pytest.raises(RuntimeError, match="broken"):
        run_pipeline(program, [DropUnused(), _Fails()], dump_dir=tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["00-input.ir", "01-drop-unused.ir", "index.json"]


def test_names_are_unique_and_kebab_case() -> None:
    for name, each in PASSES.items():
        assert name == name.lower().replace("_", "-")
        assert each.name in (name, "apply-rules")


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
        return self.what  # type: ignore[return-value]


@pytest.mark.parametrize("what", [None, captured("llama_f32"), PassResult(None)])  # type: ignore[arg-type]
def test_a_pass_that_returns_something_else_is_named(what: object) -> None:
    with pytest.raises(GraphError, match=r"error\[pass-result\]: pass `mine` returned `") as caught:
        run_pipeline(captured("llama_f32"), [Returns(what)])
    assert "PassResult(program)" in caught.value.hint
