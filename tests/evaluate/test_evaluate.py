"""Row h: the same numbers for any number of workers; and what a report says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascendfx import evaluation
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.evaluate.blas_threads import blas_threads, one_blas_thread
from ascendfx.runtime.evaluate.evaluate import EvaluationOptions, evaluate
from ascendfx.runtime.evaluate.language_model import LanguageModel, Prediction
from ascendfx.runtime.evaluate.measure import shares
from ascendfx.runtime.evaluate.reference_model import ReferenceModel
from ascendfx.runtime.evaluate.report import EvaluationReport
from ascendfx.runtime.evaluate.sums import Record, total
from ascendfx.runtime.evaluate.whole_text import cuts
from tests.evaluate.models import Bigrams, Writes, card, small_model
from tests.evaluate.threads import ThreadWorker, run_workers

ROWS = [
    {"input_ids": [*range(2, 2 + length)], "language": language, "kind": kind}
    for length, language, kind in [
        (5, "en", "qa"), (9, "de", "qa"), (3, "en", "code"), (12, "ko", "qa"), (7, "de", "code"),
        (2, "ko", "code"), (8, "en", "qa"),
    ]
]  # fmt: skip
ANSWERS = {"How many?": "There are 7 of them\n\n8", "Who?": "The cat\nand more", "Say 1": "2"}
QUESTIONS = [
    {"question": "How many?", "answer": 7},
    {"question": "Who?", "answers": ["a cat", "dogs"]},
    {"question": "Say 1", "answer": 1},
    {"prompt": "One day she", "choices": ["went", "slept on"], "answer": 0},
    {"statement": "It is so.", "answer": True, "words": ["yes", "no"]},
]


def sets(folder: Path, *rows: Any) -> list[Path]:
    file = folder / "set.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return [file]


def test_figures_of_texts_are_means_over_tokens(tmp_path: Path) -> None:
    own, truth = Bigrams(1, 0.5, drafts=True), Bigrams(1, drafts=True)
    report = evaluate(own, sets(tmp_path, *ROWS), truth=truth)
    found = report.figures("perplexity")
    logs, divergences, same = [], [], []
    for row in ROWS:
        ids = row["input_ids"]
        q, p = (np.exp(m.predict(tuple(ids)).logits) for m in (own, truth))
        q, p = (each / each.sum(-1, keepdims=True) for each in (q, p))
        logs += [np.log(q[i, ids[i + 1]]) for i in range(len(ids) - 1)]
        divergences += np.sum(p * np.log(p / q), -1).tolist()
        same += (q.argmax(-1) == p.argmax(-1)).tolist()
    assert found["samples"] == len(ROWS)
    assert found["tokens"] == len(logs)
    assert found["perplexity"] == pytest.approx(np.exp(-np.mean(logs)), rel=1e-9)
    assert found["kl"] == pytest.approx(np.mean(divergences), rel=1e-9)
    assert found["top1"] == np.mean(same)
    assert found["change"] == pytest.approx(found["perplexity"] / found["float perplexity"] - 1)
    assert found["drafts accepted change"] == (
        found["drafts accepted"] - found["float drafts accepted"]
    )
    by = {(group.by, group.value): group.figures for group in report.tasks[0].groups}
    assert by["language", "de"]["tokens"] == 8 + 6
    assert by["kind", "code"]["samples"] == 3
    assert sum(by["language", name]["tokens"] for name in ("de", "en", "ko")) == len(logs)


def test_answers_are_judged_beside_those_of_the_float_model(tmp_path: Path) -> None:
    own = Writes(1, answers=ANSWERS)
    truth = Writes(2, answers={**ANSWERS, "Say 1": "The answer is 1"})
    report = evaluate(own, sets(tmp_path, *QUESTIONS), truth=truth)
    maths, qa = report.figures("maths"), report.figures("qa")
    assert (maths["accuracy"], maths["float accuracy"]) == (0.5, 1.0)
    assert (qa["exact"], qa["f1"]) == (1.0, 1.0)
    assert maths["accepted drafts"] == 0.5
    assert report.figures("choice")["samples"] == 1
    assert set(report.figures("true-false")) > {"accuracy", "float accuracy", "same choice"}
    lines = report.table()
    assert lines[0].split()[0] == "choice"
    assert any(line.startswith("maths") and "float accuracy" in line for line in lines)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], str]:
    files = sets(tmp_path_factory.mktemp("alone"), *ROWS)
    return files, evaluate(small_model(), files, truth=small_model(1)).text()


@pytest.mark.parametrize("way", ["data", "pipeline"])
@pytest.mark.parametrize("size", [2, 4])
def test_numbers_do_not_depend_on_the_number_of_workers(
    size: int, way: str, alone: tuple[list[Path], str]
) -> None:
    files, expected = alone

    def run(worker: ThreadWorker) -> str:
        options = EvaluationOptions(way=way)
        return evaluate(
            small_model(), files, truth=small_model(1), options=options, workers=worker
        ).text()

    assert run_workers(size, run) == [expected] * size


def test_answers_do_not_depend_on_parts(tmp_path: Path) -> None:
    """Greedy continuations of one model in three parts."""
    files = sets(tmp_path, {"input_ids": [3, 4, 5], "task": "garbled"})
    options = EvaluationOptions(new_tokens=6, way="pipeline")

    def model() -> ReferenceModel:
        made = small_model()
        return replace(made, card=card("small", 32, made.card.vocabulary))

    expected = evaluate(model(), files, options=options).text()

    def run(worker: ThreadWorker) -> str:
        return evaluate(model(), files, options=options, workers=worker).text()

    assert run_workers(3, run) == [expected] * 3
    assert json.loads(expected)["tasks"]["garbled"]["all"]["samples"] == 1


def test_parts_of_a_program_cover_it() -> None:
    program = small_model().main.program
    for parts in (1, 2, 3, 7):
        ends = cuts(program, parts)
        assert ends[0] == 0
        assert ends[-1] == len(program.main.nodes)
        assert list(ends) == sorted(ends)
    first, second = cuts(program, 2)[1:]
    assert 0 < first < second


class _Fails(Bigrams):
    def predict(self, ids: tuple[int, ...]) -> Prediction:
        if len(ids) == 12:
            raise GraphError("not-finite", "the long one", hint="none")
        return super().predict(ids)


def test_all_workers_raise_what_one_finds(tmp_path: Path) -> None:
    files = sets(tmp_path, *ROWS)

    def run(worker: ThreadWorker) -> str:
        with pytest.raises(GraphError, match="the long one") as caught:
            evaluate(_Fails(), files, workers=worker)
        return caught.value.hint

    assert run_workers(3, run) == ["none"] * 3


def test_each_sample_has_one_worker_and_the_work_is_even() -> None:
    costs = [5, 1, 1, 9, 3, 3, 7, 2]
    for workers in (1, 2, 3, 20):
        owned = shares(costs, workers)
        assert sorted(each for one in owned for each in one) == list(range(len(costs)))
        loads = [sum(costs[i] for i in one) for one in owned]
        assert max(loads) <= sum(costs) / workers + max(costs)


def test_sums_are_rounded_once_in_any_order() -> None:
    values = [1e16, 1.0, -1e16, 1.0, 3e-3]
    records = [Record(i, "t", "?", "?", {"x": value}) for i, value in enumerate(values)]
    assert total(records) == total(records[::-1]) == {"samples": 5.0, "x": 2.003}


@pytest.mark.parametrize(
    ("truth", "reason"),
    [
        (Bigrams(card=card(vocabulary=4000)), "fake has 4,096 token ids, fake 4,000"),
        (None, "window=65: windows have 2 to 64 tokens"),
    ],
)
def test_what_does_not_fit_is_refused(
    truth: LanguageModel | None, reason: str, tmp_path: Path
) -> None:
    options = EvaluationOptions(window=None if truth else 65)
    with pytest.raises(GraphError, match=reason):
        evaluate(Bigrams(), sets(tmp_path, *ROWS), truth=truth, options=options)


def test_engines_have_no_parts(tmp_path: Path) -> None:
    def run(worker: ThreadWorker) -> None:
        options = EvaluationOptions(way="pipeline")
        with pytest.raises(GraphError, match="it has no parts"):
            evaluate(Bigrams(), sets(tmp_path, *ROWS), options=options, workers=worker)

    run_workers(2, run)


def test_json_replaces_an_older_file_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "out" / "report.json"
    report = evaluate(Bigrams(), sets(tmp_path, *ROWS))
    with pytest.raises(GraphError) as caught:
        report.write(file)
    assert caught.value.code == "not-writable"
    file.parent.mkdir()
    file.write_text("old", encoding="utf-8")
    report.write(file)
    data = json.loads(file.read_text(encoding="utf-8"))
    assert data["tasks"]["perplexity"]["all"] == report.figures("perplexity")
    assert set(data["tasks"]["perplexity"]["language"]) == {"de", "en", "ko"}
    assert [each.name for each in file.parent.iterdir()] == ["report.json"]


def test_a_report_says_whether_answers_are_garbled(tmp_path: Path) -> None:
    files = sets(tmp_path, {"task": "garbled", "text": "Once upon a time there was a house."})
    silent = evaluate(Writes(), files)
    assert silent.garbled
    assert silent.data()["garbled"] is True
    assert silent.remarks == ("garbled 0: empty: ",)
    assert not evaluate(Writes(), files, truth=Writes()).garbled
    assert not EvaluationReport({}, ()).garbled


def test_blas_has_one_thread_meanwhile_and_as_many_as_before_afterwards() -> None:
    threads = blas_threads()
    if threads is None:
        pytest.skip("NumPy brings no OpenBLAS along")
    before = threads.get()
    threads.put(2)
    try:
        with one_blas_thread() as told:
            assert told
            assert threads.get() == 1
        assert threads.get() == 2
    finally:
        threads.put(before)


def test_public_names_are_there() -> None:
    assert all(getattr(evaluation, name) is not None for name in evaluation.__all__)
