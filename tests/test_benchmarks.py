"""Benchmarks say what they print, and the README names all of them."""

import re
import runpy
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted((TESTS / "benchmarks").glob("*.py"))


def test_the_readme_names_every_benchmark() -> None:
    section = (TESTS / "README.md").read_text(encoding="utf-8").split("## Benchmarks")[1]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = re.findall(r"`(\w+\.py)`", " ".join(rows))
    assert sorted(named) == [path.name for path in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_benchmarks_explain_themselves_and_do_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="benchmarks of models need torch")
    monkeypatch.setattr(sys, "argv", [str(file), "--help"])
    monkeypatch.syspath_prepend(str(file.parent))
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(file), run_name="__main__")
    assert not stopped.value.code
    shown = capsys.readouterr().out
    assert file.read_text(encoding="utf-8").splitlines()[0].strip('"') in shown
    assert f"\n    python tests/benchmarks/{file.name}" in shown
