"""Options of `ascendfx run` about the choice of tokens."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ascendfx import Generation, Relaxed, Sampling, Typical
from ascendfx.runtime.cli import run as run_module
from ascendfx.runtime.cli.main import cli
from tests.runtime.fake_engine import in_place_of_engine

Samplings = list[Sampling]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Samplings:
    """Return what an engine in place of the package is told."""
    found: Samplings = []

    def generate(texts: list[str], *, sampling: Samplings, **_: Any) -> list[Generation]:
        found.extend(sampling)
        return [Generation((), (), "", "length") for _ in texts]

    monkeypatch.setattr(run_module, "load", lambda *_, **__: in_place_of_engine(generate))
    return found


@pytest.fixture
def without_drafts(given: Samplings, monkeypatch: pytest.MonkeyPatch) -> Samplings:
    engine = in_place_of_engine(lambda *_, **__: [], drafts=0)
    monkeypatch.setattr(run_module, "load", lambda *_, **__: engine)
    return given


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--temperature", "0.7", "--top-k", "5", "--top-p", "0.9", "--min-p", "0.1"), None),
        (("--repetition-penalty", "1.2"), {"repetition_penalty": 1.2}),
        (("--presence-penalty", "-1"), {"presence_penalty": -1}),
        (("--frequency-penalty", "0.5"), {"frequency_penalty": 0.5}),
        (("--seed", "9", "--temperature", "1"), {"seed": 9, "temperature": 1}),
        (
            ("--temperature", "1", "--verification", "block"),
            {"temperature": 1, "verification": "block"},
        ),
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
    prompts = ("-p", "a", "-p", "b")
    ended = CliRunner().invoke(cli, ["run", str(tmp_path), *prompts, *arguments])
    assert ended.exit_code == 0, ended.output
    seed = wanted.pop("seed", 0)
    assert given == [Sampling(seed=seed + i, **wanted) for i in range(2)]


@pytest.mark.parametrize(
    ("words", "drafts", "ends", "said"),
    [
        (("--draft-tokens", "0"), 0, 1, "--draft-tokens changes nothing without drafts"),
        (("--ignore-eos",), 1, 0, "--ignore-eos changes nothing without end tokens"),
        (("--min-new-tokens", "2"), 1, 0, "--min-new-tokens changes nothing without --stop-id"),
        (("--min-new-tokens", "2", "--stop-id", "3"), 1, 0, ""),
        (("--min-new-tokens", "64"), 0, 1, ""),
        (("--verification", "typical", "--draft-tokens", "1", "--ignore-eos"), 1, 1, ""),
    ],
)
def test_what_changes_nothing_with_this_package_is_refused(
    words: tuple[str, ...],
    drafts: int,
    ends: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = in_place_of_engine(
        lambda texts, **_: [Generation((), (), "", "length") for _ in texts],
        drafts=drafts,
        ends=ends,
    )
    monkeypatch.setattr(run_module, "load", lambda *_, **__: engine)
    ended = CliRunner().invoke(cli, ["run", str(tmp_path), "-p", "a", *words])
    assert ended.exit_code == (2 if said else 0), ended.output
    assert said in " ".join(ended.output.split())


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
    words = ("-p", "a", "--temperature", "1", "--verification", "block", "--draft-tokens")
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
