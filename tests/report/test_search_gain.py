"""Figures of search are told from other statistics, and said as a gain."""

from pathlib import Path

from ascendfx.runtime.report.overview import overview
from ascendfx.runtime.report.page_data import page_data
from ascendfx.runtime.report.read_whole_dump import read_whole_dump
from ascendfx.runtime.report.search_gain import gained_words, search_gain
from tests.report.small_dump import write_small_dump

STATISTICS = {
    "layer_0, chosen: nanoseconds": 800,
    "layer_0, chosen: bytes": 64,
    "layer_0, ordered: nanoseconds": 1000,
    "a, b, search: operations": 5,
    "layer_0: nodes of all forms": 9,
    "odd, chosen: bytes": "many",
}


def test_figures_are_told_from_other_statistics() -> None:
    gain, others = search_gain(STATISTICS)
    assert gain == {
        "layer_0": {
            "chosen": {"nanoseconds": 800.0, "bytes": 64.0},
            "ordered": {"nanoseconds": 1000.0},
        },
        "a, b": {"search": {"operations": 5.0}},
    }
    assert others == {"layer_0: nodes of all forms": 9, "odd, chosen: bytes": "many"}


def test_the_gain_is_against_the_fixed_order() -> None:
    gain, _ = search_gain(STATISTICS)
    assert gained_words(gain) == "@layer_0 -20.0 %"
    assert (
        gained_words({"g": {"ordered": {"nanoseconds": 0.0}, "chosen": {"nanoseconds": 1.0}}}) == ""
    )
    assert gained_words({}) == ""


def test_the_overview_says_what_search_gained(tmp_path: Path) -> None:
    replaced = {'"silu": 1': '"g, chosen: nanoseconds": 9, "g, ordered: nanoseconds": 10'}
    data = page_data(read_whole_dump(write_small_dump(tmp_path, replace=replaced)))
    assert "statistics" not in data["stages"][0]["versions"][1]
    (plan,) = overview(data).plans
    assert dict(plan.facts)["search"] == (
        "@g -10.0 % modelled time against the fixed order of rules"
    )
