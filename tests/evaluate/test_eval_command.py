"""The command ``ascendfx eval``: what it prints, writes, refuses and exits with."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ascendfx import bundled_model
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.cli import eval_command, eval_workers
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.evaluate.open_model import lines_of_recipe
from tests.evaluate.models import Bigrams, Writes

TEXT = {"text": "Once upon a time there was a house.", "language": "en", "kind": "prose"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Run":
    return Run(tmp_path, monkeypatch)


class Run:
    """Runs the command on models in place of those that are named."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "set.jsonl"
        self.file.write_text(json.dumps(TEXT), encoding="utf-8")
        known = {"own": Bigrams(1, 0.5), "float": Bigrams(1), "mute": Writes()}
        monkeypatch.setattr(eval_command, "open_model", lambda path, *_, **__: known[path.name])

    def __call__(self, *words: str, data: bool = True) -> Result:
        named = ["--data", str(self.file)] if data else []
        return CliRunner().invoke(cli, ["eval", *words, *named])


def test_figures_are_printed_and_written(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    done = run("own", "--float", "float", "-o", str(output))
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["perplexity", "samples", "tokens"]
    assert lines[1].split()[0] == "all"
    assert [line.split()[:2] for line in lines[2:]] == [["language", "en"], ["kind", "prose"]]
    data = json.loads(output.read_text(encoding="utf-8"))
    assert data["tasks"]["perplexity"]["all"]["kl"] > 0
    printed = run("own", "--float", "float", "--json")
    assert printed.stdout == output.read_text(encoding="utf-8")


def test_garbled_answers_exit_with_1(run: Run) -> None:
    done = run("mute", "--task", "garbled")
    assert done.exit_code == 1
    assert "100.00%" in done.stdout
    assert "answers are garbled" in done.stderr
    assert run("mute", "--task", "garbled", "--float", "mute").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("own",), "no set: pass --data FILE"),
        (("own", "--data", "x", "--draft-tokens", "2"), "--draft-tokens changes nothing"),
        (("own", "--data", "x", "--quant", "w8a8", "--recipe", "w8a8"), "not both"),
        (("own", "--data", "x", "--parallel", "models"), "'models' is not one of"),
        (("own", "--data", "x", "--world-size", "0"), "0 is not in the range"),
    ],
)
def test_wrong_use_exits_with_2(run: Run, words: tuple[str, ...], said: str) -> None:
    done = run(*words, data=False)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("own", "--task", "choices"), "unknown-task"),
        (("own", "--task", "choice"), "bad-samples"),
        (("own", "--window", "100"), "bad-limit"),
    ],
)
def test_wrong_input_is_one_error(run: Run, words: tuple[str, ...], code: str) -> None:
    done = run(*words)
    assert isinstance(done.exception, GraphError)
    assert done.exception.code == code


def test_workers_are_the_same_command_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, list[str]]] = []
    monkeypatch.setattr(sys, "argv", ["ascendfx", "eval", "own", "--world-size", "3"])
    monkeypatch.setattr(
        eval_command, "run_workers", lambda size, words: asked.append((size, words)) or 7
    )
    assert run("own", "--world-size", "3").exit_code == 7
    assert asked == [(3, ["eval", "own", "--world-size", "3"])]


def started(*texts: str) -> list["subprocess.Popen[bytes]"]:
    return [subprocess.Popen([sys.executable, "-S", "-c", text]) for text in texts]


def test_the_exit_code_is_that_of_the_workers() -> None:
    assert eval_workers.wait(started("pass", "pass")) == 0
    assert eval_workers.wait(started("raise SystemExit(1)", "raise SystemExit(1)")) == 1


def test_a_worker_that_is_killed_ends_the_others() -> None:
    sleeps = "import time; time.sleep(600)"
    processes = started(sleeps, sleeps)
    os.kill(processes[1].pid, signal.SIGKILL)
    with pytest.raises(GraphError, match="worker 1 of 2 was ended by signal 9") as caught:
        eval_workers.wait(processes)
    assert caught.value.code == "worker-ended"
    assert processes[0].wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--recipe", "w8a9"), "did you mean `w8a8`?"),
        (("--quant", "w8a8kv8"), "needs-engine"),
    ],
)
def test_what_the_reference_does_not_compute_is_refused(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(
        cli, ["eval", str(bundled_model()), *words, "--data", str(tmp_path / "none")]
    )
    assert isinstance(done.exception, GraphError)
    assert said in str(done.exception)


def test_a_recipe_gives_the_lines_of_a_program() -> None:
    lines = lines_of_recipe("w8a8", bundled_model())
    assert any(line.form is not None for line in lines)
    assert any(line.form is None for line in lines)
