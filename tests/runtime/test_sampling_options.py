"""Options of `ascendfx run` about the choice of tokens."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from ascendfx import Generation, Relaxed, Sampling, Typical
from ascendfx.runtime.cli import run as run_module
from ascendfx.runtime.cli.main import cli

Samplings = list[Sampling]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Samplings:
    """Return what an engine in place of the package is told."""
    found: Samplings = []

    def generate(texts: list[str], *, sampling: Samplings, **_: Any) -> list[Generation]:
        found.extend(sampling)
        return [Generation((), (), "", "length") for _ in texts]

    metrics = SimpleNamespace(proposed=(0,))  # of a package with one draft
    engine = SimpleNamespace(generate=generate, metrics=metrics)
    monkeypatch.setattr(run_module, "load", lambda *_, **__: engine)
    return found


@pytest.fixture
def without_drafts(given: Samplings, monkeypatch: pytest.MonkeyPatch) -> Samplings:
    engine = SimpleNamespace(metrics=SimpleNamespace(proposed=()))
    monkeypatch.setattr(run_module, "load", lambda *_, **__: engine)
    return given


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ((), {}),
        (("--temperature", "0.7", "--top-k", "5", "--top-p", "0.9", "--min-p", "0.1"), None),
        (("--repetition-penalty", "1.2"), {"repetition_penalty": 1.2}),
        (("--presence-penalty", "-1"), {"presence_penalty": -1}),
        (("--frequency-penalty", "0.5"), {"frequency_penalty": 0.5}),
        (("--verification", "block"), {"verification": "block"}),
        (("--verification", "typical"), {"verification": Typical()}),
        (
            ("--verification", "typical", "--typical-threshold", "0.2", "--typical-alpha", "0.5"),
            {"verification": Typical(threshold=0.2, alpha=0.5)},
        ),
        (
            ("--verification", "relaxed", "--relaxed-top-k", "3", "--relaxed-delta", "0.1"),
            {"verification": Relaxed(top_k=3, delta=0.1)},
        ),
    ],
)
def test_options_are_those_of_sampling(
    arguments: tuple[str, ...], wanted: dict[str, Any] | None, given: Samplings, tmp_path: Path
) -> None:
    if wanted is None:
        wanted = {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1}
    prompts = ("-p", "a", "-p", "b", "--seed", "7")
    ended = CliRunner().invoke(cli, ["run", str(tmp_path), *prompts, *arguments])
    assert ended.exit_code == 0, ended.output
    assert given == [Sampling(seed=7 + i, **wanted) for i in range(2)]


@pytest.mark.parametrize(
    ("option", "more"),
    [
        ("--verification", ("typical",)),
        ("--verification", ("exact",)),
        ("--verification", ("typical", "--typical-threshold", "0.2")),
        ("--adaptive-drafts", ()),
    ],
)
def test_options_about_drafts_are_refused_without_drafts(
    option: str, more: tuple[str, ...], without_drafts: Samplings, tmp_path: Path
) -> None:
    ended = CliRunner().invoke(cli, ["run", str(tmp_path), "-p", "a", option, *more])
    assert ended.exit_code == 2
    said = " ".join(ended.output.replace("\u2502", " ").split())
    assert f"{option} changes nothing without drafts: compile with --draft-tokens K" in said
    assert not without_drafts


def test_a_verification_is_refused_if_no_drafts_are_asked_for(
    given: Samplings, tmp_path: Path
) -> None:
    words = ("-p", "a", "--verification", "block", "--draft-tokens")
    ended = CliRunner().invoke(cli, ["run", str(tmp_path), *words, "0"])
    assert ended.exit_code == 2
    assert "--verification changes nothing with --draft-tokens 0" in ended.output
    ended = CliRunner().invoke(cli, ["run", str(tmp_path), *words, "1"])
    assert ended.exit_code == 0, ended.output
    assert [each.verification for each in given] == ["block"]


def test_lossy_ways_are_called_so() -> None:
    text = " ".join(CliRunner().invoke(cli, ["run", "--help"]).output.split())
    assert "LOSSY, another text: typical, relaxed." in text
    assert text.count("LOSSY: of --verification") == 4
