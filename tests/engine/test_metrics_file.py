"""Figures of an engine go to a file and come back; a file of something else is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.engine.metrics import KEPT, Acceptance, Metrics
from ascendfx.runtime.engine.metrics_file import read_metrics, write_metrics
from ascendfx.runtime.engine.request import Request
from tests.engine.drafting import engine, serve

COUNTS = st.integers(0, 2**40)
REQUESTS = st.dictionaries(
    st.integers(0, 10**6), st.builds(Acceptance, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS), max_size=4
)


@st.composite
def figures(draw: st.DrawFn) -> Metrics:
    pairs = draw(st.lists(st.tuples(COUNTS, COUNTS), max_size=4))
    return Metrics(
        *(draw(COUNTS) for _ in range(3)),
        proposed=tuple(p for p, _ in pairs),
        accepted=tuple(a for _, a in pairs),
        requests=draw(REQUESTS),
        ended=draw(REQUESTS),
        warnings=tuple(draw(st.lists(st.text(st.characters(codec="utf-8")), max_size=2))),
    )


@given(figures())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, metrics: Metrics
) -> None:
    file = tmp_path_factory.mktemp("metrics") / "new" / "metrics.json"
    write_metrics(metrics, file)
    assert read_metrics(file) == metrics
    assert [each.name for each in file.parent.iterdir()] == ["metrics.json"]


def test_an_engine_writes_what_it_did(tmp_path: Path) -> None:
    served = engine(0.6)
    serve(served, count=6, limit=30)
    served.start([Request(prompt=[1, 2], max_new_tokens=40)])
    served.step(2)
    served.save_metrics(tmp_path / "metrics.json")
    found = read_metrics(tmp_path / "metrics.json")
    assert found == served.metrics
    assert sorted(found.ended) == list(range(6))
    assert list(found.requests) == [6]
    both = (*found.ended.values(), *found.requests.values())
    assert sum(each.steps for each in both) == found.request_steps


def test_the_newest_requests_are_kept() -> None:
    served = engine(1.0, drafts=1)
    served.start([Request(prompt=[i % 12], max_new_tokens=1) for i in range(KEPT + 3)])
    while served.busy:
        served.step(1)
    assert list(served.metrics.ended) == list(range(3, KEPT + 3))


GOOD = {
    "kind": "ascendfx-metrics",
    "format": 3,
    "model": "ab12",
    "steps": 3,
    "request_steps": 5,
    "tokens": 8,
    "proposed": [5],
    "accepted": [3],
    "requests": {},
    "ended": {"0": {"steps": 5, "tokens": 8, "proposed": 5, "accepted": 3, "drafts": 1}},
    "warnings": [],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"steps": -1}, "steps is no count: -1"),
        ({"steps": True}, "steps is no count"),
        ({"tokens": 1.5}, "tokens is no count"),
        ({"proposed": 5}, "proposed is no list"),
        ({"proposed": [5, 1]}, "different numbers of positions"),
        ({"requests": []}, "requests is no JSON object"),
        ({"ended": {"one": {}}}, "'one'"),
        ({"ended": {"1": {"steps": 1}}}, "'tokens' is missing"),
        ({"ended": {"1": 5}}, "not subscriptable"),
        ({"warnings": "w"}, "warnings is no list"),
    ],
)
def test_a_file_that_was_edited_is_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    file = tmp_path / "metrics.json"
    file.write_text(json.dumps({**GOOD, **change}), encoding="utf-8")
    with pytest.raises(GraphError, match=said) as caught:
        read_metrics(file)
    assert caught.value.code == "damaged-metrics"
    assert str(file) in caught.value.reason


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (None, "not-metrics", "there is no file {file}"),
        ("", "not-metrics", "{file} is no JSON: "),
        ("{", "not-metrics", "{file} is no JSON: "),
        ("[" * 100_000, "not-metrics", "{file} is no JSON: "),
        ("[1]", "not-metrics", "{file} is JSON, but does not hold the figures of an engine"),
        ('{"kind": null}', "not-metrics", "{file} is JSON, but does not hold"),
        (json.dumps({**GOOD, "format": 1}), "metrics-version", "{file} has format 1, this version"),
        (json.dumps({**GOOD, "format": None}), "metrics-version", "{file} has format None"),
    ],
)
def test_what_is_no_such_file_is_called_what_it_is(
    tmp_path: Path, text: str | None, code: str, said: str
) -> None:
    file = tmp_path / "metrics.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(GraphError) as caught:
        read_metrics(file)
    assert caught.value.code == code
    assert caught.value.reason.startswith(said.format(file=file))
    assert "ascendfx run --metrics" in caught.value.hint


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        GraphError, match=r"error\[not-metrics\]: .* cannot be read: Is a directory"
    ):
        read_metrics(tmp_path)


def test_figures_of_another_model_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "metrics.json"
    file.write_text(json.dumps(GOOD), encoding="utf-8")
    assert read_metrics(file, programs="ab") == read_metrics(file)
    with pytest.raises(GraphError, match=r"error\[other-metrics\]") as caught:
        read_metrics(file, programs="cd")
    assert str(file) in caught.value.reason
    file.write_text(json.dumps({**GOOD, "model": ""}), encoding="utf-8")
    read_metrics(file, programs="cd")  # it does not say of which model it is


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GraphError) as caught:
        engine(1.0).save_metrics(tmp_path)
    assert caught.value.code == "not-writable"
    with pytest.raises(GraphError, match="path must be a path"):
        engine(1.0).save_metrics(5)  # pyright: ignore[reportArgumentType]
