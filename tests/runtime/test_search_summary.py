"""What the command line tells of a search: the gain, and one remark for each plan."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from ascendfx.runtime.cli import compile_command as module
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.search_summary import SearchSummary

LOST = SearchSummary("decode", "", ("@f: one", "@f: the ordered form is chosen"))
WON = SearchSummary("prefill", "@f -9.0 %", ("@f: a view was ruled out",))


def test_lines_are_empty_without_anything_to_say() -> None:
    nothing = SearchSummary("decode", "", ())
    assert nothing.gain_line() == nothing.remark_line() == ""


def test_compile_prints_the_gain_and_the_last_remark_of_each_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled = SimpleNamespace(checks=(), plans={}, remarks=(), weights=(), searches=(LOST, WON))
    monkeypatch.setattr(module, "compile_model", lambda *_, **__: compiled)
    monkeypatch.setattr(module, "one_part", lambda whole, _: whole)
    monkeypatch.setattr(module, "save_package", lambda *_, **__: None)
    ended = CliRunner().invoke(cli, ["compile", str(tmp_path), "-o", str(tmp_path / "pkg")])
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.splitlines()[0] == (
        "prefill: search, modelled time against the fixed order of rules: @f -9.0 %"
    )
    assert [line for line in ended.stderr.splitlines() if line.startswith("remark")] == [
        "remark: decode: @f: the ordered form is chosen (and 1 more: see the report of a dump)",
        "remark: prefill: @f: a view was ruled out",
    ]
