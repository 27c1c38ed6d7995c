"""The command line: three steps each, data on stdout, errors without traceback."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ascendfx
from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.registry import PASSES
from ascendfx.quant_passes.registry import QUANT_PASSES
from ascendfx.runtime.cli import commands
from ascendfx.runtime.cli import main as main_module
from ascendfx.runtime.cli import run as run_module
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.dumps.hash_of_dump import hash_of_dump
from ascendfx.runtime.dumps.read_dump import read_dump
from ascendfx.runtime.emulator.error import EmulatorError
from ascendfx.runtime.engine.metrics_file import read_metrics
from ascendfx.runtime.package.save_package import MANIFEST
from tests.runtime.fake_engine import in_place_of_engine

GRAPH = """\
graph @g {
  %0 = input "gate" : f32[2, 8]
  %1 = input "up" : f32[2, 8]
  %2 = silu %0 : f32[2, 8]
  %3 = multiply %2, %1 : f32[2, 8]
  return %3
}
"""


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    code = "from ascendfx.runtime.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["", "demo", "compile", "run", "opt"])
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(cli, [*filter(None, [name]), "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert len(result.output.splitlines()) > 6


def test_opt_prints_the_program_after_the_passes(tmp_path: Path) -> None:
    file = tmp_path / "g.ir"
    file.write_text(GRAPH, encoding="utf-8")
    result = CliRunner().invoke(cli, ["opt", str(file), "-p", "swiglu", "--stats"])
    assert result.exit_code == 0
    assert "swiglu %0, %1 : f32[2, 8]" in result.stdout
    assert result.stderr.startswith("swiglu: 1 swiglu (")
    assert CliRunner().invoke(cli, ["opt", str(file)]).stdout == GRAPH


def test_opt_names_the_known_passes(tmp_path: Path) -> None:
    file = tmp_path / "g.ir"
    file.write_text(GRAPH, encoding="utf-8")
    result = CliRunner().invoke(cli, ["opt", str(file), "-p", "swigly"])
    assert result.exit_code == 2
    assert "Invalid value for '-p' / '--passes': no pass is called `swigly`" in result.stderr
    assert "did you mean swiglu? `ascendfx opt --list` prints all" in " ".join(
        result.stderr.split()
    )
    result = CliRunner().invoke(cli, ["opt", str(file), "-p", "zzz"])
    assert "no pass is called `zzz`; `ascendfx opt --list` prints all" in result.stderr
    assert "derive-incremental-form" not in result.stderr


def test_opt_takes_blanks_between_the_names(tmp_path: Path) -> None:
    file = tmp_path / "g.ir"
    file.write_text(GRAPH, encoding="utf-8")
    result = CliRunner().invoke(cli, ["opt", str(file), "-p", "simplify, swiglu,"])
    assert result.exit_code == 0
    assert "swiglu %0, %1 : f32[2, 8]" in result.stdout


def test_opt_lists_its_passes_without_a_file() -> None:
    result = CliRunner().invoke(cli, ["opt", "--list"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted({**PASSES, **QUANT_PASSES})
    assert {line.split()[1] for line in lines} == {"pass", "rule"}
    told = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
    assert told["drop-unused"].startswith("pass Dead code elimination")
    assert told["add-of-negated"] == "rule x + (-y) = x - y"
    assert all(len(each.split()) > 2 for each in told.values())


def test_a_malformed_program_is_one_error_without_traceback(tmp_path: Path) -> None:
    file = tmp_path / "bad.ir"
    file.write_text(GRAPH.replace("silu", "sily"), encoding="utf-8")
    done = command("opt", str(file))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error[unknown-operation]: no operation is called `sily`")
    assert "Traceback" not in done.stderr


def test_compile_then_run_continues_a_prompt(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    model = str(ascendfx.bundled_model())
    dump = str(tmp_path / "dump")
    done = command("compile", model, "-o", str(package), "--dtype", "float32", "--dump-dir", dump)
    assert done.returncode == 0, done.stderr
    assert "decode: " in done.stdout
    golden = json.loads((ascendfx.bundled_model() / "golden_generations.json").read_text())
    item = golden["items"][1]
    metrics = tmp_path / "figures" / "metrics.json"
    prompt = ("run", str(package), "-p", item["prompt"], "-n", "8", "--json", "--metrics")
    done = command(*prompt, str(metrics))
    assert done.returncode == 0, done.stderr
    assert read_metrics(metrics, programs=hash_of_dump(read_dump(Path(dump)))).ended[0].tokens == 8
    with pytest.raises(GraphError, match="of another model"):
        read_metrics(metrics, programs="0")
    assert json.loads(done.stdout)["token_ids"] == item["output_ids"][:8]
    assert done.stderr == ""  # no terminal: no progress
    done = command(*prompt, str(package / MANIFEST))
    assert "it would be in the package" in done.stderr
    assert json.loads((package / MANIFEST).read_text())["format"]
    for more, where in (
        ((), "without drafts"),
        (("--draft-tokens", "0"), "with --draft-tokens"),
    ):
        done = command(*prompt[:6], "--adaptive-drafts", *more)
        assert done.returncode == 2
        assert f"--adaptive-drafts changes nothing {where}: " in " ".join(done.stderr.split())


def test_a_package_may_have_one_plan_and_other_groups(tmp_path: Path) -> None:
    words = ("compile", str(ascendfx.bundled_model()), "-o", str(tmp_path / "pkg"))
    ended = CliRunner().invoke(cli, [*words, "--plans", "decode", "--group-steps", "3"])
    assert ended.exit_code == 0, ended.output
    assert "prefill: " not in ended.stdout
    assert [file.name for file in (tmp_path / "pkg").glob("plan-*")] == ["plan-decode.json"]
    plan = json.loads((tmp_path / "pkg" / "plan-decode.json").read_text(encoding="utf-8"))
    assert plan["capacities"]["steps"] == 3


def test_run_passes_on_how_texts_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def generate(texts: list[str], **options: Any) -> list[ascendfx.Generation]:
        given.update(options)
        return [ascendfx.Generation((), (), "", "length") for _ in texts]

    monkeypatch.setattr(run_module, "load", lambda *_, **__: in_place_of_engine(generate))
    words = "--min-new-tokens 3 --stop-id 7 --stop-id 9 --draft-tokens 1 --ignore-eos -n 5"
    ended = CliRunner().invoke(cli, ["run", str(tmp_path), "-p", "x", *words.split()])
    assert ended.exit_code == 0, ended.output
    wanted = {"max_new_tokens": 5, "min_new_tokens": 3, "stop_ids": (7, 9), "draft_tokens": 1}
    assert given | wanted == given
    assert given["stop_at_eos"] is False


def test_a_fault_in_a_kernel_is_shown_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise EmulatorError("copy", 0, "AIV 0", "MTE2", 7, 64, "read beyond the tensor")

    monkeypatch.setattr(commands, "cli", fail)
    with pytest.raises(SystemExit) as stopped:
        main_module.main()
    assert stopped.value.code == 3
    shown = capsys.readouterr().err
    assert shown.startswith("fault in an emulated kernel: ")
    assert "copy" in shown
    assert "read beyond the tensor" in shown


def test_run_without_a_prompt_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["run", str(tmp_path)])
    assert result.exit_code == 2
    assert "no prompt" in result.stderr
