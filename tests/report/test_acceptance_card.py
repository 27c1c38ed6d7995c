"""Figures of drafts on the page: what is said, escaped, and only if there are any."""

import json
from pathlib import Path

from click.testing import CliRunner

from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.engine.metrics import Acceptance, Metrics
from ascendfx.runtime.engine.metrics_file import write_metrics
from ascendfx.runtime.report.acceptance_card import acceptance_card
from ascendfx.runtime.report.read_whole_dump import read_whole_dump
from ascendfx.runtime.report.write_page import page_text
from tests.report.metrics_example import METRICS
from tests.report.poisoned_page import NASTY, Document
from tests.report.small_dump import write_small_dump


def test_figures_are_told() -> None:
    card = acceptance_card(METRICS)
    assert card.headline == "2.19 tokens per step"
    assert ("drafts accepted", "4,200 of 6,800") in card.facts
    assert [(row.name, *row.words, row.rate, row.part) for row in card.positions] == [
        ("1", "4,000", "2,800", "70.0 %", "0.7000"),
        ("2", "2,800", "1,400", "50.0 %", "0.5000"),
    ]
    assert [(row.name, *row.words, row.rate) for row in card.requests] == [
        ("3", "ended", "15", "5", "0", "100.0 %"),
        ("7", "runs", "12", "10", "1", "10.0 %"),
        ("12", "ended", "0", "0", "0", "–"),
    ]


def test_an_engine_that_did_nothing_has_no_figures() -> None:
    card = acceptance_card(Metrics(0, 0, 0, (), (), {}, {}, ()))
    assert card.headline == "no step yet"
    assert card.positions == card.requests == ()


def test_the_page_has_tables_with_bars_and_nothing_else_changes(tmp_path: Path) -> None:
    dump = read_whole_dump(write_small_dump(tmp_path))
    plain, shown = page_text(dump), page_text(dump, METRICS)
    assert 'id="acceptance"' not in plain
    before, after = Document(plain), Document(shown)
    assert before.scripts == after.scripts
    assert "img" not in [tag for tag, _ in after.tags]
    assert NASTY.split("\u2028", maxsplit=1)[0] in "".join(after.words)
    bars = [a["style"] for tag, a in after.tags if tag == "span" and "--part:0.7000" in str(a)]
    assert bars == ["--start:0;--part:0.7000"]


def test_many_requests_are_folded(tmp_path: Path) -> None:
    dump = read_whole_dump(write_small_dump(tmp_path))
    ended = {i: Acceptance(1, 1, 1, 1) for i in range(21)}
    many = Metrics(1, 1, 1, (1,), (1,), {}, ended, ())
    folded = [a for tag, a in Document(page_text(dump, many)).tags if tag == "details"]
    few = [a for tag, a in Document(page_text(dump, METRICS)).tags if tag == "details"]
    assert ("open" in folded[0], "open" in few[0]) == (False, True)


def test_the_command_shows_a_file_of_figures(tmp_path: Path) -> None:
    dump, file, page = write_small_dump(tmp_path), tmp_path / "m.json", tmp_path / "page.html"
    write_metrics(METRICS, file)
    arguments = ["report", str(dump), "--metrics", str(file), "-o"]
    result = CliRunner().invoke(cli, [*arguments, str(page)])
    assert result.exit_code == 0, result.output
    assert "2.19 tokens per step" in page.read_text(encoding="utf-8")
    result = CliRunner().invoke(cli, [*arguments, str(file)])
    assert result.exit_code == 2
    assert "would replace the file that --metrics names" in result.stderr
    assert json.loads(file.read_text(encoding="utf-8"))["steps"] == 1_500
    write_metrics(METRICS, file, model="of another model")
    assert CliRunner().invoke(cli, [*arguments, str(page)]).exception.code == "other-metrics"  # pyright: ignore
