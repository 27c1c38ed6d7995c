"""Shares of sets, windows, and the report of what is in a mixture."""

import json
from pathlib import Path

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.calibration.mixture import BalanceRow, Mixture, mix
from ascendfx.quant_passes.policy.recipe import Calibration, TextShare


def written(folder: Path, name: str, rows: list[dict[str, object]]) -> Path:
    file = folder / name
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


def tokens(first: int, count: int, length: int, **more: object) -> list[dict[str, object]]:
    return [{"input_ids": [first + i] * length, **more} for i in range(count)]


def encode(text: str) -> list[int]:
    return [ord(letter) - 97 for letter in text]


def mixed(folder: Path, *, seed: int = 0, length: int = 8) -> Mixture:
    small = written(folder, "a.jsonl", tokens(0, 50, 4, language="de", kind="qa"))
    large = written(folder, "b.jsonl", tokens(50, 50, 6, language="fr"))
    sets = TextShare(small), TextShare(large, 3.0)
    return mix(Calibration(sets, tokens=160, length=length, seed=seed), encode, 100)


def test_sets_have_their_shares_of_the_tokens(tmp_path: Path) -> None:
    mixture = mixed(tmp_path)
    counts = np.bincount(mixture.windows.ravel(), minlength=100)
    assert mixture.windows.shape == (20, 8)
    assert counts[:50].sum() == 40
    assert counts[50:].sum() == 120
    assert mixture.balance == (
        BalanceRow("a.jsonl", "de", "qa", 10, 40),
        BalanceRow("b.jsonl", "fr", "?", 20, 120),
    )
    assert not mixture.remarks
    assert mixture.table()[1:] == (
        "a.jsonl  de        qa       10      40  25.0%",
        "b.jsonl  fr        ?        20     120  75.0%",
    )


def test_the_seed_alone_decides(tmp_path: Path) -> None:
    first = mixed(tmp_path)
    assert np.array_equal(first.windows, mixed(tmp_path).windows)
    assert not np.array_equal(first.windows, mixed(tmp_path, seed=1).windows)


def test_texts_stay_whole_in_the_order_of_the_mixture(tmp_path: Path) -> None:
    stream = mixed(tmp_path, length=1).windows.ravel()
    runs = np.split(stream, np.flatnonzero(np.diff(stream)) + 1)
    assert {len(run) for run in runs} == {4, 6}


def test_a_text_is_encoded_and_the_last_one_cut(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", [{"text": "abc"}, {"text": "abc"}])
    found = mix(Calibration((TextShare(file),), tokens=5, length=5), encode, 3)
    assert found.windows.tolist() == [[0, 1, 2, 0, 1]] or found.windows.tolist() == [
        [0, 1, 0, 1, 2]
    ]


def test_a_set_that_is_too_small_is_told(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", tokens(0, 2, 10))
    found = mix(Calibration((TextShare(file),), tokens=50, length=8), encode, 9)
    assert found.windows.shape == (2, 8)
    assert found.remarks == ("a.jsonl has 20 tokens, its share are 50",)


def test_tokens_of_another_vocabulary_are_told(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", [{"input_ids": [1, 9]}])
    with pytest.raises(
        GraphError, match="token 1 of the text is 9, and the model knows 9"
    ) as caught:
        mix(Calibration((TextShare(file),), tokens=9, length=2), encode, 9)
    assert caught.value.location.line == 1


def test_too_few_tokens_for_a_window_are_told(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", tokens(0, 1, 3))
    with pytest.raises(GraphError, match="have 3 tokens, fewer than a window of 4"):
        mix(Calibration((TextShare(file),), tokens=9, length=4), encode, 9)


@pytest.mark.parametrize(
    ("share", "count", "length"),
    [(1e308, 8, 4), (0.0, 8, 4), (float("nan"), 8, 4), (1.0, 10**400, 4), (1.0, 8, 0),
     (1.0, 8, 10**5000)],
    ids=["large", "zero", "nan", "tokens", "no-length", "length"],
)  # fmt: skip
def test_shares_and_numbers_of_tokens_that_are_none_are_refused(
    tmp_path: Path, share: float, count: int, length: int
) -> None:
    file = written(tmp_path, "a.jsonl", tokens(0, 4, 4))
    with pytest.raises(GraphError) as caught:
        mix(Calibration((TextShare(file, share),), tokens=count, length=length), encode, 100)
    assert caught.value.code == "bad-texts"
