"""The logic of the page's script, without a browser; cases are drawn here, one process runs all."""

import random
from pathlib import Path
from typing import Any

from ascendfx.runtime.report.page_data import page_data
from ascendfx.runtime.report.read_whole_dump import read_whole_dump
from tests.report.run_script import run_script
from tests.report.small_dump import KERNEL_TEXT, write_small_dump

SEED = random.Random(7)  # noqa: S311
WORDS = ["f32", "[", "rows", ", ", "8", "]", "{", "eps=", "1e-06", "}", " ", "é", "🙂", '"', "\\"]


def text() -> str:
    return "".join(SEED.choices(WORDS, k=SEED.randrange(12)))


def test_word_diffs_put_together_are_the_texts() -> None:
    cases = [(text(), text()) for _ in range(300)] + [("", ""), ("a b", "a b")]
    for (before, after), (old, new) in zip(
        cases, run_script("wordDiff(it[0], it[1])", cases), strict=True
    ):
        assert "".join(piece for piece, _ in old) == before
        assert "".join(piece for piece, _ in new) == after
        kept = ["".join(p for p, changed in side if not changed) for side in (old, new)]
        assert kept[0] == kept[1]
        assert (before == after) == (not any(changed for _, changed in [*old, *new]))


def test_long_texts_are_compared_at_their_ends() -> None:
    before, after = "a " * 3000 + "x " * 3000, "a " * 3000 + "y " * 3000
    ((old, new),) = run_script("wordDiff(it[0], it[1])", [(before, after)])
    assert old == [["a " * 3000, False], ["x " * 2999 + "x", True], [" ", False]]
    assert new[1][1]


def test_rows_show_every_line_once_and_folding_hides_only_the_same(tmp_path: Path) -> None:
    data = page_data(read_whole_dump(write_small_dump(tmp_path)))
    change = data["stages"][0]["versions"][1]["changes"][0]
    ((rows, counts),) = run_script(
        "[diffRows(it.change, it.graphs), diffCounts(it.change, it.graphs)]",
        [{"change": change, "graphs": data["graphs"]}],
    )
    assert [(row["kind"], row["before"], row["after"]) for row in rows] == [
        ("same", 0, 0),
        ("replaced", 1, 1),
        ("removed", 2, None),
        ("edited", 3, 2),
    ]
    assert counts == {"added": 1, "removed": 2, "edited": 1}
    kinds = [SEED.choices(["same"] * 9 + ["added"], k=40) for _ in range(50)]
    cases = [
        [{"kind": kind, "before": k, "after": k} for k, kind in enumerate(row)] for row in kinds
    ]
    for rows, folded in zip(cases, run_script("foldRows(it)", cases), strict=True):
        flat = [r for row in folded for r in (row["rows"] if row["kind"] == "folded" else [row])]
        assert flat == rows
        for row in folded:
            if row["kind"] == "folded":
                assert len(row["rows"]) > 1
                assert {each["kind"] for each in row["rows"]} == {"same"}
                assert row["what"] == "unchanged"
    ((folded),) = run_script("foldRows(it)", [[{"kind": "added", "after": k} for k in range(40)]])
    assert [row["kind"] for row in folded] == ["added"] * 8 + ["folded"] + ["added"] * 8
    assert (folded[8]["what"], len(folded[8]["rows"])) == ("added", 24)


def test_edited_lines_mark_operands_that_are_others_not_renumbered_ones() -> None:
    line = {"op": "add", "name": "", "attributes": "", "types": "f32[2]"}
    case = {
        "before": line | {"operands": [3, 4]},
        "after": line | {"operands": [5, 9], "types": "f32[3]"},
        "moved": [[3, 5], [4, 6]],
    }
    ((old, new),) = run_script("lineDiff(it.before, it.after, new Map(it.moved))", [case])
    assert old["operands"] == [False, True]
    assert new["operands"] == [False, True]
    assert new["types"] == [["f32[", False], ["3", True], ["]", False]]
    assert not old["op"]


def drawing() -> dict[str, Any]:
    """Return a random graph, cycles and self-loops included."""
    size = SEED.randrange(1, 14)
    items = [
        {"id": k, "width": SEED.choice([8, 60, 180]), "height": SEED.choice([0, 42])}
        for k in range(size)
    ]
    for item in items[:2]:
        if SEED.random() < 0.3:
            item["first" if item["id"] == 0 else "last"] = True
    edges = [
        {"from": SEED.randrange(size), "to": SEED.randrange(size)}
        for _ in range(SEED.randrange(2 * size))
    ]
    return {"items": items, "edges": edges}


def test_boxes_never_overlap_and_edges_join_their_ends() -> None:
    cases = [drawing() for _ in range(200)]
    placed = run_script(
        "(({at, ...rest}) => ({...rest, at: [...at]}))(layeredLayout(it.items, it.edges))", cases
    )
    for case, result in zip(cases, placed, strict=True):
        at = dict(result["at"])
        boxes = [(at[item["id"]], item) for item in case["items"]]
        for place, item in boxes:
            assert place["x"] >= -1e-6
            assert place["x"] + item["width"] <= result["width"] + 1e-6
            assert place["y"] + item["height"] <= result["height"] + 1e-6
        for k, (a, one) in enumerate(boxes):
            for b, other in boxes[:k]:
                apart = (
                    a["x"] + one["width"] <= b["x"] + 1e-6
                    or b["x"] + other["width"] <= a["x"] + 1e-6
                    or a["y"] + one["height"] <= b["y"] + 1e-6
                    or b["y"] + other["height"] <= a["y"] + 1e-6
                )
                assert apart, (case, result)
        for edge, line in zip(case["edges"], result["lines"], strict=True):
            if edge["from"] == edge["to"]:
                continue
            ends = {item["id"]: item for item in case["items"]}
            for end, (x, _) in ((edge["from"], line[0]), (edge["to"], line[-1])):
                left = at[end]["x"]
                assert left - 1e-6 <= x <= left + ends[end]["width"] + 1e-6


def test_drawings_are_the_same_each_time() -> None:
    cases = [drawing() for _ in range(20)]
    once = run_script("layeredLayout(it.items, it.edges).lines", cases)
    assert run_script("layeredLayout(it.items, it.edges).lines", cases) == once


def test_modules_open_and_close(tmp_path: Path) -> None:
    data = page_data(read_whole_dump(write_small_dump(tmp_path)))
    number = data["stages"][0]["versions"][0]["graphs"][1]
    draw = (
        "((tree) => [groupsOf(tree).map((g) => g.id), [[], ['/act']].map((open) => {"
        " const d = nestedLayout(tree, new Set(open));"
        " return [d.boxes.map((b) => [b.item.id, b.open]),"
        " d.edges.map((e) => [e.from, e.targets, e.arrow])];"
        " })])(moduleTree(it, it.graphs[it.number], false))"
    )
    ((groups, (closed, opened)),) = run_script(draw, [data | {"number": number}])
    assert groups == ["/act"]
    assert sorted(map(str, closed[0])) == sorted(
        map(str, [[0, False], [3, False], ["/act", False]])
    )
    assert sorted(map(str, closed[1])) == sorted(
        map(str, [[0, [3], True], [0, ["/act"], True], ["/act", [3], True]])
    )
    assert [1, False] in opened[0]
    assert ["/act", True] in opened[0]


def test_many_inputs_of_a_family_are_one_box_and_parameters_join_their_reader() -> None:
    names = [f"cache.{k}.0" for k in range(6)] + ["x"]
    bodies = [["input", name, "", "f32[2]"] for name in names]
    bodies += [["param", "w", "", "f32[2]"], ["linear", "", "", "f32[2]"]]
    nodes = [[k, -1] for k in range(8)] + [[8, 0, *range(8)]]
    places = [["m.py", 1, "layers.0.proj"], ["m.py", 2, "layers.0"]]
    bodies.append(["add", "", "", "f32[2]"])
    nodes.append([9, 1, 8, 6])
    data = {"bodies": bodies, "places": places, "graph": {"name": "g", "nodes": nodes}}
    look = (
        "[false, true].map((shown) => ((tree) => [groupsOf(tree).map((g) => g.id),"
        " tree.leaves.map((l) => [l.part.op, l.tail])])(moduleTree(it, it.graph, shown)))"
    )
    ((without, with_parameters),) = run_script(look, [data])
    assert without == [
        ["/cache inputs"],
        [["input", ""], ["linear", "proj"], ["add", ""]],
    ]
    assert with_parameters[1] == [
        ["input", ""],
        ["param", ""],
        ["linear", "proj"],
        ["add", ""],
    ]


def test_coloured_sources_are_the_sources() -> None:
    odd = [
        "",
        "\n",
        'x = "a // b";\n/* open',
        "#define A 0x1F // c\n",
        '\'\\n\' "\\"" 1e-6f',
        "é🙂\n\n",
    ]
    sources = [KERNEL_TEXT, *odd]
    for source, lines in zip(sources, run_script("cppLines(it)", sources), strict=True):
        joined = "\n".join("".join(part for _, part in line) for line in lines)
        assert joined == source.removesuffix("\n") or joined == source
    (lines,) = run_script("cppLines(it)", [KERNEL_TEXT])
    assert lines[0] == [["comment", "// y = silu(x)"]]
    assert lines[1] == [["macro", '#include "kernel_operator.h"']]
    assert ["keyword", "constexpr"] in lines[2]
    assert ["amount", "16"] in lines[2]


def test_search_needs_every_word() -> None:
    entries = [
        {"kind": "kernel", "text": "decode_matmul", "more": "matmul", "link": []},
        {"kind": "node", "text": "@main %3 linear", "more": "decode model.layers.0", "link": []},
        {"kind": "pass", "text": "decode / 01 simplify", "more": "@main", "link": []},
    ]
    questions = ["", "  ", "main", "MATMUL decode", "layers node", "nothing"]
    found = run_script(
        "findEntries(it[1], it[0]).map((e) => e.kind)", [[text, entries] for text in questions]
    )
    assert found == [[], [], ["node", "pass"], ["kernel"], ["node"], []]
