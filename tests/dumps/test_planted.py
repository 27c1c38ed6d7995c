"""A mistake in any pass or rule is named, reduced to a few nodes, and replayed in a new process."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import RmsNorm
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild
from tests.dumps.planted import BUGS
from tests.dumps.planted_command import ROOT, command
from tests.dumps.planted_dump import dump_with, dump_with_pass

_SAMPLE = ("swiglu_swapped", "rows_for_places", "half_doubled", "operands_ignored", "cached_scale")
_LARGEST_FILE = 10_000


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, marks=() if bug in _SAMPLE else (pytest.mark.nightly,))
        for bug in sorted(BUGS)
    ],
)
def test_a_planted_mistake_is_found_reduced_and_replayed(bug: str, tmp_path: Path) -> None:
    name = dump_with(bug, tmp_path / "dump")
    case = tmp_path / "case.json"
    done = command("reduce", tmp_path / "dump", "-o", case, "--random", "0")
    assert done.returncode == 0, done.stderr
    assert f"pass: {name} (" in done.stdout
    if name == "apply-rules":
        broken = __import__("tests.dumps.planted", fromlist=[bug])
        assert f"rule: {getattr(broken, bug).name}\n" in done.stdout
    nodes = int(done.stdout.rpartition("case.json: ")[2].split()[0])
    print(f"{bug}: {name}, {nodes} nodes, {case.stat().st_size} bytes")  # noqa: T201
    assert nodes <= BUGS[bug].nodes
    assert case.stat().st_size <= _LARGEST_FILE
    replayed = command("replay", case)
    assert replayed.returncode == 1, replayed.stderr
    assert "stored programs: difference" in replayed.stdout
    assert "pass of this installation: difference" in replayed.stdout


def test_bisect_names_pass_function_operation_and_line(tmp_path: Path) -> None:
    dump_with("swiglu_swapped", tmp_path)
    done = command("bisect", tmp_path, "--random", "0")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert "pass: apply-rules (serving/05-apply-rules.ir), declared real" in lines
    assert "rule: swiglu" in lines
    assert any(line.startswith("function: @layer_") for line in lines)
    assert any(line.startswith("first different value: %") and "swiglu" in line for line in lines)
    assert any(line.startswith("line of the model: v3_halfrope.ir:") for line in lines)


def test_a_pass_that_cannot_be_imported_is_cut_out_of_the_programs(tmp_path: Path) -> None:
    dump_with("operands_ignored", tmp_path)
    for index in tmp_path.glob("*/index.json"):
        text = index.read_text(encoding="utf-8")
        index.write_text(text.replace("tests.dumps.planted", "gone"), encoding="utf-8")
    case = tmp_path / "case.json"
    done = command("reduce", tmp_path, "-o", case, "--random", "0")
    assert done.returncode == 0, done.stderr
    assert "`gone:operands_ignored` cannot be imported here" in done.stderr
    stored = json.loads(case.read_text(encoding="utf-8"))
    assert not stored["made_by_pass"]
    assert int(done.stdout.rpartition("case.json: ")[2].split()[0]) <= 8
    replayed = command("replay", case)
    assert replayed.returncode == 1
    assert "stored programs: difference" in replayed.stdout
    assert "pass of this installation: not run" in replayed.stdout


@dataclass(frozen=True, slots=True)
class WrongEps(GraphPass):
    """Wrong in every norm of a layer, so that both operands of the last sum differ."""

    name: ClassVar[str] = "wrong-eps"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run_graph(self, graph: Graph) -> GraphResult:
        def emit(
            builder: GraphBuilder, _: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            if not isinstance(node.op, RmsNorm):
                return None
            return (builder.add(replace(node.op, eps=1e-2), *operands),)

        return GraphResult(rebuild(graph, emit))


WrongEps.__module__ = "__main__"  # of a script that was run


@pytest.fixture
def dump_of_script(tmp_path: Path) -> Path:
    dump_with_pass(WrongEps(), tmp_path / "dump")
    return tmp_path / "dump"


def test_a_pass_of_a_script_that_changes_a_whole_layer_is_cut_to_one_operation(
    dump_of_script: Path, tmp_path: Path
) -> None:
    case = tmp_path / "case.json"
    done = command("reduce", dump_of_script, "-o", case, "--random", "0", "--verify-tokens", "4")
    assert done.returncode == 0, done.stderr
    stored = json.loads(case.read_text(encoding="utf-8"))
    assert not stored["made_by_pass"]
    for side in ("before", "after"):
        assert sum(" = rms_norm " in line for line in stored[side]) == 1
    assert int(done.stdout.rpartition("case.json: ")[2].split()[0]) == 1
    assert case.stat().st_size <= 3_000
    assert done.stdout.endswith(f"; {case.stat().st_size / 1000:.1f} KB\n")
    first = done.stderr.splitlines()[1]
    assert first.startswith("pass `wrong-eps` cannot be run again: `__main__:WrongEps`")


@pytest.mark.parametrize("spelling", ["script", "module"])
def test_both_spellings_of_the_command_find_a_pass_in_the_current_folder(
    spelling: str, dump_of_script: Path, tmp_path: Path
) -> None:
    index = dump_of_script / "serving" / "index.json"
    text = index.read_text(encoding="utf-8").replace("__main__:", "pass_of_mine:")
    index.write_text(text, encoding="utf-8")
    mine = f"from {__name__} import WrongEps\n"
    (tmp_path / "pass_of_mine.py").write_text(mine, encoding="utf-8")
    script = tmp_path / "bin" / "ascendfx"  # as pip writes it
    script.parent.mkdir()
    script.write_text("from ascendfx.runtime.cli.main import main\nmain()\n", encoding="utf-8")
    called = [str(script)] if spelling == "script" else ["-m", "ascendfx"]
    done = subprocess.run(
        [
            sys.executable,
            *called,
            *("bisect", "dump", "--random", "0", "--verify-tokens", "2", "--allow-code"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "pass: wrong-eps (" in done.stdout
    assert "cannot be run again" not in done.stderr


def test_a_mended_pass_is_acquitted(tmp_path: Path) -> None:
    dump_with("operands_ignored", tmp_path)
    case = tmp_path / "case.json"
    assert command("reduce", tmp_path, "-o", case, "--random", "0").returncode == 0
    text = case.read_text(encoding="utf-8")
    mended = "ascendfx.passes.share_common:ShareCommon"
    case.write_text(text.replace("tests.dumps.planted:operands_ignored", mended), encoding="utf-8")
    replayed = command("replay", case)
    assert replayed.returncode == 0, replayed.stderr
    assert "stored programs: difference" in replayed.stdout
    assert "pass of this installation: no difference" in replayed.stdout
