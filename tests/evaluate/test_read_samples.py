"""Rows become samples; what is wrong with one is told with its line."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.evaluate.read_samples import read_samples
from ascendfx.runtime.evaluate.sample import Reader, Sample
from ascendfx.runtime.evaluate.tasks import all_tasks, check_tasks
from tests.evaluate.models import card, codec

READER = Reader(codec().encode, card(max_tokens=40), window=16, new_tokens=8)
GOOD = {"text": "One day she went to the house."}


def read(folder: Path, *rows: Any, **options: Any) -> tuple[Sample, ...]:
    file = folder / "set.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    file.write_text("\n".join(lines), encoding="utf-8")
    return read_samples([file], all_tasks(), READER, **options)


@pytest.mark.parametrize(
    ("row", "chosen", "reason"),
    [
        ("{", (), "the line is no JSON: "),
        ("[1]", (), "the line is no JSON object"),
        ({"body": "x"}, (), "the row fits no task; it has `body`"),
        ({"body": "x"}, ("perplexity",), "there is neither `text` nor `input_ids`; the row has"),
        ({"body": "x"}, ("choice",), "there is no `choices`; the row has `body`"),
        ({"task": "choise", "text": "x"}, (), "no task is called `choise`"),
        ({"text": 7}, (), "`text` is 7, no text"),
        ({"text": "  "}, (), "`text` is '  ', no text"),
        ({"input_ids": [1, 4096]}, (), "has 4096; the vocabulary of fake has 4,096 ids"),
        ({"input_ids": [1, -1]}, (), "`input_ids` has -1"),
        ({"input_ids": [1, True]}, (), "`input_ids` is [1, True]"),
        ({"input_ids": [5]}, (), "the text has one token"),
        ({"prompt": "a", "choices": ["b"], "answer": 0}, (), "`choices` is ['b']"),
        ({"prompt": "a", "choices": ["b", "c"]}, (), "there is no `answer`, with 2 choices"),
        ({"prompt": "a", "choices": ["b", "c"], "answer": 2}, (), "`answer` is 2, with 2 choices"),
        ({"prompt": "a", "choices": ["b", "c"], "answer": True}, (), "`answer` is True, with 2"),
        ({"choices": ["b", "c"], "answer": 0}, (), "there is neither `prompt` nor `question`"),
        ({"statement": "a", "answer": 1}, ("true-false",), "`answer` is 1"),
        ({"statement": "a", "answer": True, "words": ["x", "y", "z"]}, (), "`words` has 3 texts"),
        ({"question": "a", "answer": "none"}, ("maths",), "`answer` is 'none', no number"),
        ({"question": "a", "answers": []}, (), "`answers` is []"),
        ({"prompt": "def f():", "tests": 1}, (), "`tests` is 1, no text"),
        ({"question": "a", "answer": "b", "stop": 3}, (), "`stop` is 3"),
        ({"prompt": "a", "choices": ["b", "c"], "answer": 0, "separator": 1}, (), "`separator`"),
    ],
)
def test_a_wrong_row_is_refused_with_its_line(
    row: Any, chosen: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(GraphError) as caught:
        read(tmp_path, "", GOOD if chosen in ((), ("perplexity",)) else "", row, chosen=chosen)
    assert caught.value.code == "bad-samples"
    assert reason in caught.value.reason
    assert caught.value.location.line == 3
    assert caught.value.location.file.endswith("set.jsonl")
    assert caught.value.hint


def test_a_typo_of_a_task_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(GraphError) as caught:
        check_tasks(["perplexity", "perplexty"])
    assert caught.value.code == "unknown-task"
    assert "did you mean `perplexity`?" in caught.value.hint
    check_tasks(["lm-eval:anything"])
    with pytest.raises(GraphError, match="did you mean `choice`"):
        read(tmp_path, {"task": "choise"})


@pytest.mark.parametrize(
    ("rows", "options", "reason"),
    [
        ((), {}, "holds no row"),
        (("", "  "), {}, "holds no row"),
        (({"task": "perplexity", **GOOD},), {"chosen": ("choice",)}, "no row is of `choice`"),
    ],
)
def test_empty_sets_are_refused(
    rows: tuple[Any, ...], options: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(GraphError, match=reason):
        read(tmp_path, *rows, **options)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b'{"text": "caf\xe9"}\n')
    for file, reason in ((tmp_path / "latin", "no text in UTF-8"), (tmp_path, "cannot be read")):
        with pytest.raises(GraphError, match=reason):
            read_samples([file], all_tasks(), READER)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "word " * 60, "choices": ["a", "b"], "answer": 0},
        {"question": "word " * 60, "answers": ["b"]},
        {"question": "word " * 34, "answer": 3},  # with the answer
    ],
)
def test_a_sample_that_is_too_long_is_refused(row: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(GraphError) as caught:
        read(tmp_path, row)
    assert caught.value.code == "sample-too-long"
    assert "fake reads 40" in caught.value.reason
    assert caught.value.location.line == 1


def test_long_texts_are_cut_into_windows(tmp_path: Path) -> None:
    ids = list(range(2, 35))  # 33 tokens: the last window would have one, which tells nothing
    found = read(tmp_path, {"input_ids": ids, "language": "en", "kind": "prose"})
    assert [list(each.parts[0].ids) for each in found] == [ids[:16], ids[16:32]]
    assert {(each.language, each.kind) for each in found} == {("en", "prose")}


def test_rows_are_of_the_task_that_they_name_or_fit(tmp_path: Path) -> None:
    rows = [
        {"text": "one two three"},
        {"prompt": "a", "choices": ["b", "c"], "answer": "c"},
        {"statement": "a", "answer": False},
        {"question": "a", "answer": 7},
        {"question": "a", "answer": "so #### 7"},
        {"question": "a", "answer": "seven"},
        {"prompt": "def f():\n", "tests": "f()"},
        {"task": "garbled", "text": "one two three"},
    ]
    tasks = [each.task for each in read(tmp_path, *rows)]
    assert tasks == [
        "perplexity", "choice", "true-false", "maths", "maths", "qa", "code", "garbled",
    ]  # fmt: skip
    both = read(tmp_path, *rows[:1], chosen=("perplexity", "garbled"))
    assert [each.task for each in both] == ["perplexity", "garbled"]
    assert [each.task for each in read(tmp_path, *rows[:2], limit=1)] == ["perplexity"]


def test_choices_are_compared_from_the_first_token_that_differs_from_the_prompt(
    tmp_path: Path,
) -> None:
    (found,) = read(
        tmp_path, {"prompt": "One day she", "choices": ["went home", "slept"], "answer": "slept"}
    )
    prompt = codec().encode("One day she")
    assert found.right == 1
    for part, text in zip(found.parts, ("went home", "slept"), strict=True):
        assert list(part.ids) == codec().encode(f"One day she {text}")
        assert part.start == len(prompt)
        assert part.characters == len(text)
    (joined,) = read(
        tmp_path,
        {"prompt": "One day sh", "choices": ["e went", "y boy"], "answer": 0, "separator": ""},
    )
    assert joined.parts[0].start < len(codec().encode("One day sh")) + 1
    assert joined.parts[0].start == joined.parts[1].start


def test_the_set_of_the_examples_is_read() -> None:
    file = Path(__file__).parents[2] / "examples" / "evaluation" / "questions.jsonl"
    reader = Reader(codec().encode, card(max_tokens=512), window=512, new_tokens=48)
    found = read_samples([file], all_tasks(), reader)
    tasks = Counter(each.task for each in found)
    assert tasks == {"true-false": 34, "maths": 22, "choice": 12, "qa": 6}
    assert len({each.language for each in found if each.task == "true-false"}) >= 9
    assert all(each.parts[0].start > 1 for each in found if each.task in ("choice", "true-false"))
