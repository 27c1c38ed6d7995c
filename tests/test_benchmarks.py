"""Benchmarks say what they print, and the README names all of them."""

import re
import runpy
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
OPTIONS = ("acceptance", "fused_step_full_v3", "passes_full_v3", "search_full_v3", "step_cost")


def test_the_readme_names_every_benchmark() -> None:
    section = (TESTS / "README.md").read_text(encoding="utf-8").split("## Benchmarks")[1]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = re.findall(r"`(\w+\.py)`", " ".join(rows))
    assert sorted(named) == sorted(path.name for path in (TESTS / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", OPTIONS)
def test_benchmarks_with_options_explain_themselves(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="benchmarks of models need torch")
    file = TESTS / "benchmarks" / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(file), "--help"])
    monkeypatch.syspath_prepend(str(file.parent))
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(file), run_name="__main__")
    assert not stopped.value.code
    shown = capsys.readouterr().out
    assert file.read_text(encoding="utf-8").splitlines()[0].strip('"') in shown
    assert f"python tests/benchmarks/{name}.py" in shown
