"""What is read of sets of texts, and what is said of sets that hold something else."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from ascendfx import bundled_model
from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.calibration.text_sets import CalibrationText, read_texts


def facts(text: CalibrationText) -> tuple[object, ...]:
    return text.content, text.language, text.kind, text.location.line


def test_lines_of_json_are_texts_or_tokens(tmp_path: Path) -> None:
    rows = [
        {"text": "a", "language": "de", "kind": "qa"},
        {"inputs_pretokenized": "b"},
        {"input_ids": [3, 4]},
        {"text": ""},
    ]
    file = tmp_path / "set.jsonl"
    file.write_text("\n\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert [facts(each) for each in read_texts(file)] == [
        ("a", "de", "qa", 1),
        ("b", "?", "?", 3),
        ((3, 4), "?", "?", 5),
    ]


def test_plain_texts_have_empty_lines_between_them(tmp_path: Path) -> None:
    file = tmp_path / "set.txt"
    file.write_text("one\ntwo\n\n \n\nthree", encoding="utf-8")
    assert [facts(each)[::3] for each in read_texts(file)] == [("one\ntwo", 1), ("three", 6)]


def test_tokens_are_rows_of_tensors(tmp_path: Path) -> None:
    file = tmp_path / "set.safetensors"
    save_file({"b": np.arange(4).reshape(2, 2), "a": np.array([7], np.int32)}, file)
    assert [each.content for each in read_texts(file)] == [(7,), (0, 1), (2, 3)]


def test_columns_need_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "set.parquet"
    file.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(GraphError, match="needs the package `pyarrow`"):
        read_texts(file)


def test_columns_are_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "set.parquet"
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "language": ["de", None]}), file)
    assert [facts(each)[:2] for each in read_texts(file)] == [("a", "de"), ("b", "?")]


def test_the_texts_of_the_bundled_model_are_read() -> None:
    texts = read_texts(bundled_model() / "texts" / "calibration.jsonl")
    assert len({text.language for text in texts}) == 12
    assert {text.kind for text in texts} == {"code", "docs", "math", "prose", "qa"}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("set.csv", b"a", "is of no known kind"),
        ("set.txt", b"\n \n", "holds no text"),
        ("set.txt", b"\xff", "is no text in UTF-8"),
        ("set.jsonl", b'{"text": "a"}\n{', "set.jsonl:2"),
        ("set.jsonl", b"[1]", "no JSON object"),
        ("set.jsonl", b'{"txt": "a"}', "the row has `txt`"),
        ("set.jsonl", b'{"text": 3}', "`text` is no text"),
        ("set.jsonl", b'{"input_ids": [1, true]}', "neither `text` nor `input_ids`"),
        ("set.safetensors", b"12", "no safetensors file"),
    ],
)
def test_something_else_is_told(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GraphError, match="bad-texts") as caught:
        read_texts(tmp_path / name)
    assert words in str(caught.value)


@pytest.mark.parametrize("ending", ["jsonl", "txt", "safetensors", "parquet"])
def test_a_set_that_is_not_there_is_told(tmp_path: Path, ending: str) -> None:
    with pytest.raises(GraphError, match="bad-texts"):
        read_texts(tmp_path / f"set.{ending}")


def test_numbers_are_no_tokens(tmp_path: Path) -> None:
    file = tmp_path / "set.safetensors"
    save_file({"a": np.zeros(3)}, file)
    with pytest.raises(GraphError, match="token ids are integers"):
        read_texts(file)


def test_a_mark_of_byte_order_is_no_part_of_the_text(tmp_path: Path) -> None:
    lines, plain = tmp_path / "a.jsonl", tmp_path / "a.txt"
    lines.write_text('{"text": "a"}', encoding="utf-8-sig")
    plain.write_text("a", encoding="utf-8-sig")
    assert [read_texts(file)[0].content for file in (lines, plain)] == ["a", "a"]


def test_a_line_of_nested_lists_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(GraphError, match="the line is no JSON") as caught:
        read_texts(file)
    assert caught.value.code == "bad-texts"


def test_tensors_of_formats_that_numpy_lacks_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    header = b'{"a":{"dtype":"F8_E4M3","shape":[1,2],"data_offsets":[0,2]}}'
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    with pytest.raises(GraphError, match="is F8_E4M3") as caught:
        read_texts(file)
    assert caught.value.code == "bad-texts"


@pytest.mark.parametrize("name", ["a\0.txt", "a\0.jsonl", "\ud800.txt"], ids=ascii)
def test_names_that_no_file_can_have_are_refused(name: str) -> None:
    with pytest.raises(GraphError, match="cannot be read") as caught:
        read_texts(Path(name))
    assert caught.value.code == "bad-texts"
