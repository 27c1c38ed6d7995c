"""The page as a document: whole, inert, small, the same each time."""

import base64
import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from ascendfx.find_bundled_model import bundled_model
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.report import write_page as module
from ascendfx.runtime.report.page_data import kernel_texts, page_data
from ascendfx.runtime.report.read_whole_dump import read_whole_dump
from ascendfx.runtime.report.write_page import SCRIPTS, STYLES, packed, page_script, page_text
from tests.report.poisoned_page import MODULE, NASTY, Document, poison
from tests.report.small_dump import write_small_dump


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_the_page_holds_the_data_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    dump = read_whole_dump(write_small_dump(tmp_path))
    document = Document(page_text(dump))
    assert unpacked(document.scripts[0]) == json.loads(json.dumps(page_data(dump)))
    assert unpacked(document.scripts[1]) == kernel_texts(dump)
    for tag, attributes in document.tags:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:,")), (tag, target)
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page_text(dump))


def test_the_policy_allows_our_script_alone(tmp_path: Path) -> None:
    document = Document(page_text(read_whole_dump(write_small_dump(tmp_path))))
    policy = next(
        attributes["content"] or ""
        for tag, attributes in document.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(document.scripts[2].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_ids_are_unique_and_labels_lead_somewhere(tmp_path: Path) -> None:
    document = Document(page_text(read_whole_dump(write_small_dump(tmp_path))))
    ids = [attributes["id"] for _, attributes in document.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for _, attributes in document.tags:
        for name in ("aria-controls", "aria-labelledby"):
            assert attributes.get(name, ids[0]) in ids


def test_whatever_a_dump_says_is_inert(tmp_path: Path) -> None:
    """Markup in names, remarks and texts changes words of the page, never its elements."""
    folder = write_small_dump(tmp_path)
    before = Document(page_text(read_whole_dump(folder)))
    poison(folder)
    text = page_text(read_whole_dump(folder))
    after = Document(text)
    assert [tag for tag, _ in after.tags] == [tag for tag, _ in before.tags]
    assert after.scripts[2] == before.scripts[2]
    assert "<img" not in text
    data = unpacked(after.scripts[0])
    assert data["facts"]["target"] == "ascend910b2" + NASTY
    assert ["input", NASTY, "", "f32[rows]"] in data["bodies"]
    assert [str(tmp_path / "model.py"), 30, f"{MODULE}.act"] in data["places"]
    assert unpacked(after.scripts[1])["decode"]["decode_silu"].endswith(NASTY)
    assert "ascend910b2" + NASTY.split("\u2028", maxsplit=1)[0] in "".join(after.words)


def test_data_survives_packing() -> None:
    data = {NASTY: [NASTY, None, 1.5, True, "\ud800"]}
    assert unpacked(packed(data)) == data
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed(data))
    with pytest.raises(ValueError, match="not JSON compliant"):
        packed(float("nan"))


def test_equal_dumps_give_equal_pages(tmp_path: Path) -> None:
    first = page_text(read_whole_dump(write_small_dump(tmp_path)))
    assert page_text(read_whole_dump(write_small_dump(tmp_path))) == first


def test_every_script_is_used_and_none_can_close_its_element() -> None:
    folder = Path(module.__file__).parent / "page"
    assert {path.name for path in folder.glob("*.js")} == set(SCRIPTS)
    assert {path.name for path in folder.glob("*.css")} == {*STYLES, "dark.css"}
    assert "</script" not in page_script().lower()
    assert "<!--" not in page_script()
    assert "innerHTML" not in page_script()
    for path in folder.iterdir():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path


def test_the_page_of_the_bundled_model_is_small(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="capturing the bundled model needs torch")
    compile_model(bundled_model(), dump_dir=tmp_path / "dump", trace_folder=trace_folder_of(None))
    text = page_text(read_whole_dump(tmp_path / "dump"))
    assert len(text.encode()) <= 3_000_000
    data = unpacked(Document(text).scripts[0])
    assert [stage["name"] for stage in data["stages"]] == ["serving", "decode", "prefill"]
    assert all(stage["plan"] for stage in data["stages"][1:])
    lowered = data["stages"][1]["plan"]["nodes"]["layer_1"]
    ops = {data["bodies"][body][0] for body, *_ in _nodes(data, "layer_1", set(map(int, lowered)))}
    assert {"linear", "rms_norm", "ragged_attention", "cache_write", "route_topk"} <= ops


def _nodes(data: dict[str, Any], name: str, positions: set[int]) -> list[list[Any]]:
    """Return the nodes of a graph of the last decode program."""
    numbers = data["stages"][1]["versions"][-1]["graphs"]
    graph = next(g for g in (data["graphs"][n] for n in numbers) if g["name"] == name)
    return [node for position, node in enumerate(graph["nodes"]) if position in positions]
