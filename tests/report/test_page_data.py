"""What the page is told about a dump."""

import json
from pathlib import Path
from typing import Any

import pytest

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.runtime.report.map_memory import live_bytes, live_ranges
from ascendfx.runtime.report.overview import overview
from ascendfx.runtime.report.page_data import kernel_texts, page_data, plain
from ascendfx.runtime.report.read_whole_dump import read_whole_dump
from ascendfx.runtime.report.source_lines import SourceLines, source_lines
from ascendfx.runtime.report.units import binary_bytes, decimal, digits, duration
from tests.report.small_dump import ERROR, KERNEL_TEXT, SOURCE, small_plan, write_small_dump


def data_of(tmp_path: Path, **options: Any) -> dict[str, Any]:
    return page_data(read_whole_dump(write_small_dump(tmp_path, **options)))


def test_every_graph_and_body_is_stored_once(tmp_path: Path) -> None:
    data = data_of(tmp_path)
    versions = data["stages"][0]["versions"]
    assert [version["graphs"] for version in versions] == [[0, 1], [0, 2], [0, 2]]
    assert [graph["name"] for graph in data["graphs"]] == ["main", "layer_0", "layer_0"]
    bodies = [tuple(body) for body in data["bodies"]]
    assert len(set(bodies)) == len(bodies)
    silu = data["graphs"][2]["nodes"][1]
    assert data["bodies"][silu[0]] == ["silu", "", "", "f32[rows]"]
    assert data["places"][silu[1]] == [str(tmp_path / "model.py"), 30, "layers.0.act"]
    assert silu[2:] == [0]
    assert data["graphs"][2]["nodes"][0][1] == -1


def test_a_pass_lists_the_functions_it_changed(tmp_path: Path) -> None:
    _, fuse, simplify = data_of(tmp_path)["stages"][0]["versions"]
    assert fuse["changes"] == [
        {
            "name": "layer_0",
            "before": 1,
            "after": 2,
            "runs": [[0, 0, 1]],
            "edited": [[3, 2]],
            "outputs": True,
        }
    ]
    assert simplify["changes"] == []
    assert (fuse["seconds"], simplify["seconds"]) == ([0.25, 0.5], [0.125, 0.0])
    assert fuse["remarks"] == ["relu: nothing to do"]
    assert fuse["error"]["max"] == 2e-6
    assert "error" not in simplify


def test_a_plan_links_nodes_launches_and_kernels(tmp_path: Path) -> None:
    plan = data_of(tmp_path)["stages"][0]["plan"]
    assert plan["nodes"] == {"main": {1: (0,)}, "layer_0": {1: (1,), 2: (2,)}}
    assert plan["labels"] == ["embed: cast", "layers.0: silu", "layers.0: add"]
    assert plan["launches"] == [[0, 0, 0, 1], [0, 1, 1, 2], [0, 2, 2, 3]]
    assert plan["places"] == {"arena": 128, "weight": 0, "cache": 0, "control": 128}
    assert plan["ranges"] == [[1, 0, 0, 1], [2, 64, 1, 2]]
    assert plan["used"] == [64, 128, 64]


def test_buffers_that_name_no_node_are_no_links(tmp_path: Path) -> None:
    plan = data_of(tmp_path, replace={"layers.0.silu.1": "layers.0.silu.3"})["stages"][0]["plan"]
    assert plan["nodes"] == {"main": {1: (0,)}}
    plan = data_of(tmp_path, replace={"layers.0.silu.1": "layers.7.silu.1"})["stages"][0]["plan"]
    assert plan["nodes"] == {"main": {1: (0,)}}


def test_another_place_is_another_graph_but_no_change(tmp_path: Path) -> None:
    dump = write_small_dump(tmp_path)
    last = dump / "decode" / "02-simplify.ir"
    last.write_text(last.read_text(encoding="utf-8").replace("model.py:31", "model.py:32"))
    data = page_data(read_whole_dump(dump))
    _, fuse, simplify = data["stages"][0]["versions"]
    assert simplify["changes"] == []
    assert (fuse["graphs"], simplify["graphs"]) == ([0, 2], [0, 3])


def test_live_ranges_cover_what_launches_touch() -> None:
    plan: LaunchPlan = small_plan()
    ranges = live_ranges(plan)
    assert [(each.buffer.name, each.first, each.last) for each in ranges] == [
        ("cast.1", 0, 1),
        ("layers.0.silu.1", 1, 2),
    ]
    for number, used in enumerate(live_bytes(plan)):
        alive = [each for each in ranges if each.first <= number <= each.last]
        assert used == sum(each.buffer.bytes for each in alive) <= plan.arena_bytes


def test_the_models_source_is_quoted_where_it_is_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where `model.py` would be found
    data = data_of(tmp_path)
    lines = SOURCE.splitlines()
    assert data["sources"] == {str(tmp_path / "model.py"): [[4, lines[3:37]]]}
    model, missing = str(tmp_path / "model.py"), str(tmp_path / "no.py")
    places = [(model, 2), (model, 40), (model, 999), ("model.py", 3), (missing, 3), ("/a\0b", 1)]
    found = source_lines(places)
    assert found == {
        str(tmp_path / "model.py"): (
            SourceLines(1, tuple(lines[:8])),
            SourceLines(34, tuple(lines[33:])),
        )
    }


def test_another_machine_shows_the_same_page_without_source_lines(tmp_path: Path) -> None:
    dump = read_whole_dump(write_small_dump(tmp_path))
    here = page_data(dump)
    (tmp_path / "model.py").unlink()
    assert page_data(dump) == here | {"sources": {}}


def test_timing_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    for broken in ('"seconds": null', '"seconds": "x"', '"second": 1'):
        data = data_of(tmp_path, replace={'"seconds": 0.25': broken})
        assert [each["seconds"] for each in data["stages"][0]["versions"]] == [
            None,
            None,
            [0.125, 0.0],
        ]
    data = data_of(tmp_path, replace={'"passes": {"decode"': '"passes": {"other"'})
    assert [each["seconds"] for each in data["stages"][0]["versions"]] == [None] * 3


def test_numbers_that_json_has_no_word_for_are_text(tmp_path: Path) -> None:
    assert plain({"a": [float("nan"), float("inf"), 1.5, None, "x"]}) == {
        "a": ["nan", "inf", 1.5, None, "x"]
    }
    data = data_of(tmp_path, error={"max": float("nan"), "rms": float("inf"), "bound": 1.0})
    json.dumps(data, allow_nan=False)
    (row, _) = overview(data).stages[0].rows
    assert (row.error, row.broken) == ("nan", True)


def test_only_the_verifier_says_what_is_broken(tmp_path: Path) -> None:
    """A lossy pass may go beyond what rounding explains, and bits may differ within it."""
    fine = data_of(tmp_path, broken=None)
    assert [row.broken for row in overview(fine).stages[0].rows] == [False, False]
    assert not overview(fine).notices
    bits = "it is declared bitwise, and bits differ"
    found = overview(data_of(tmp_path, error=ERROR | {"max": 0.0}, broken=bits))
    assert [row.broken for row in found.stages[0].rows] == [True, False]
    assert found.notices == (f"decode / fuse is declared real, but {bits}",)


def test_texts_of_kernels_are_apart(tmp_path: Path) -> None:
    dump = read_whole_dump(write_small_dump(tmp_path))
    assert kernel_texts(dump) == {"decode": {"decode_silu": KERNEL_TEXT}}
    assert "kernel_operator" not in json.dumps(page_data(dump))


def test_the_overview_needs_no_script(tmp_path: Path) -> None:
    found = overview(data_of(tmp_path))
    assert found.title == tmp_path.name
    assert ("limits", "max batch 16") in found.facts
    (plan,) = found.plans
    assert plan.headline == "9.5 µs"
    assert ("largest", "decode_silu, 100 %") in plan.facts
    (stage,) = found.stages
    assert stage.summary == "2 passes, 1 changed the program, 375 ms"
    assert [row.start for row in stage.rows] == ["0.0000", "0.6667"]
    assert [row.broken for row in stage.rows] == [True, False]
    data = data_of(tmp_path)
    data["stages"][0]["versions"].append(data["stages"][0]["versions"][1])
    assert [row.start for row in overview(data).stages[0].rows] == ["0.0000", "0.4000", "0.6000"]
    assert found.durations == (("lower decode", "1.5 s"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (digits(0), "0"),
        (digits(1234.5), "1,234"),
        (digits(0.5), "0.5"),
        (digits(1e-9), "1.00e-09"),
        (binary_bytes(1023), "1,023 B"),
        (binary_bytes(1536), "1.5 KiB"),
        (binary_bytes(3 * 2**40), "3 TiB"),
        (decimal(999), "999"),
        (decimal(1.5e9), "1.5 G"),
        (duration(2), "2 s"),
        (duration(2e-3), "2 ms"),
        (duration(2e-6), "2 µs"),
    ],
)
def test_units(text: str, expected: str) -> None:
    assert text == expected
