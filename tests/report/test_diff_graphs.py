"""Which lines correspond: numbering never matters, meaning always does."""

import itertools
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ascendfx.runtime.report.diff_graphs import diff_graphs
from ascendfx.runtime.report.read_program_text import (
    Body,
    TextGraph,
    TextNode,
    Value,
    read_program_text,
)
from tests.report.small_dump import AFTER, BEFORE


@st.composite
def text_graphs(draw: Any, ops: str = "abc", size: int = 14) -> TextGraph:
    """Return a graph whose lines are often equal."""
    nodes: list[TextNode] = []
    for position in range(draw(st.integers(0, size))):
        body = Body(
            op=draw(st.sampled_from(ops)),
            name="",
            attributes=draw(st.sampled_from(["", "{k=1}"])),
            types=draw(st.sampled_from(["f32[2]", "f32[3]"])),
        )
        values = st.tuples(st.integers(0, position - 1), st.just(0)) if position else st.nothing()
        operands = draw(st.lists(values, max_size=2)) if position else []
        nodes.append(TextNode(body, tuple(operands)))
    outputs = ((len(nodes) - 1, 0),) if nodes else ()
    return TextGraph("g", tuple(nodes), outputs)


def inserted(graph: TextGraph, at: int, body: Body) -> TextGraph:
    """Return the graph with a line of its own at ``at``; all later lines get another number."""

    def moved(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple((node + (node >= at), result) for node, result in values)

    nodes = [TextNode(node.body, moved(node.operands)) for node in graph.nodes]
    nodes.insert(at, TextNode(body, ()))
    return TextGraph(graph.name, tuple(nodes), moved(graph.outputs))


@given(graph=text_graphs())
def test_a_graph_is_the_same_as_itself(graph: TextGraph) -> None:
    diff = diff_graphs(graph, graph)
    assert diff.same == tuple((i, i) for i in range(len(graph.nodes)))
    assert diff.edited == ()
    assert diff.outputs_same


@given(before=text_graphs(), after=text_graphs())
def test_pairs_increase_and_mean_what_they_say(before: TextGraph, after: TextGraph) -> None:
    diff = diff_graphs(before, after)
    pairs = sorted([*diff.same, *diff.edited])
    for (a, b), (c, d) in itertools.pairwise(pairs):
        assert a < c
        assert b < d
    moved = dict(pairs)
    for i, j in diff.same:
        assert before.nodes[i].body == after.nodes[j].body
        assert [(moved[n], r) for n, r in before.nodes[i].operands] == list(after.nodes[j].operands)
    for i, j in diff.edited:
        assert before.nodes[i].body.op == after.nodes[j].body.op


@given(graph=text_graphs(), data=st.data())
def test_one_line_more_is_one_line_added(graph: TextGraph, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(graph.nodes)))
    diff = diff_graphs(graph, inserted(graph, at, Body("new", "", "", "f32[2]")))
    assert diff.same == tuple((i, i + (i >= at)) for i in range(len(graph.nodes)))
    assert diff.edited == ()
    assert diff.outputs_same


@given(graph=text_graphs(), data=st.data())
def test_one_line_less_is_one_line_removed(graph: TextGraph, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(graph.nodes)))
    diff = diff_graphs(inserted(graph, at, Body("old", "", "", "f32[2]")), graph)
    assert diff.same == tuple((i + (i >= at), i) for i in range(len(graph.nodes)))
    assert diff.edited == ()


@given(graph=text_graphs(), data=st.data())
def test_another_attribute_is_one_line_edited(graph: TextGraph, data: st.DataObject) -> None:
    if not graph.nodes:
        return
    at = data.draw(st.integers(0, len(graph.nodes) - 1))
    nodes = list(graph.nodes)
    body = nodes[at].body
    nodes[at] = TextNode(Body(body.op, "", "{k=2}", body.types), nodes[at].operands)
    diff = diff_graphs(graph, TextGraph("g", tuple(nodes), graph.outputs))
    assert diff.edited
    assert len(diff.same) + len(diff.edited) == len(graph.nodes)


def test_a_reader_of_something_else_is_edited_not_same() -> None:
    a, b, f = Body("a", "", "", "t"), Body("b", "", "", "t"), Body("f", "", "", "t")
    leaves = (TextNode(a, ()), TextNode(b, ()))
    before = TextGraph("g", (*leaves, TextNode(f, ((0, 0),))), ((2, 0),))
    after = TextGraph("g", (*leaves, TextNode(f, ((1, 0),))), ((2, 0),))
    diff = diff_graphs(before, after)
    assert diff.same == ((0, 0), (1, 1))
    assert diff.edited == ((2, 2),)


def lines(*said: tuple[str, str, tuple[int, ...]]) -> TextGraph:
    """Return a graph of ``(op, attributes, operands)``."""
    nodes = [
        TextNode(Body(op, "", attributes, "t"), tuple((node, 0) for node in operands))
        for op, attributes, operands in said
    ]
    return TextGraph("g", tuple(nodes), ())


def test_an_equal_body_is_worth_more_than_one_alike() -> None:
    before = lines(("c", "", ()), ("f", "", (0,)))
    after = lines(("d", "", ()), ("f", "{k=2}", (0,)), ("f", "", (0,)))
    assert diff_graphs(before, after).edited == ((1, 2),)


def test_an_equal_past_is_worth_more_than_an_equal_body() -> None:
    leaves = (("p", "", ()), ("q", "", ()))
    before = lines(*leaves, ("f", "", (0,)))
    after = lines(*leaves, ("f", "", (1,)), ("f", "", (0,)), ("f", "", (0,)))
    diff = diff_graphs(before, after)
    assert diff.same == ((0, 0), (1, 1), (2, 3))
    assert diff.edited == ()


def test_a_fused_pair_leaves_its_neighbours_alone() -> None:
    before = read_program_text(BEFORE, file=Path("a"))[1]
    after = read_program_text(AFTER, file=Path("b"))[1]
    diff = diff_graphs(before, after)
    assert diff.same == ((0, 0),)
    assert diff.edited == ((3, 2),)  # the addition reads the fused operation now
    assert diff.outputs_same


def test_long_gaps_are_compared_too() -> None:
    def graph(op: str, size: int) -> TextGraph:
        nodes = [TextNode(Body(op, str(k), "", "t"), ()) for k in range(size)]
        nodes[size // 2 :] = [TextNode(Body("same", str(k), "", "t"), ((0, 0),)) for k in range(9)]
        return TextGraph("g", tuple(nodes), ())

    diff = diff_graphs(graph("a", 2400), graph("b", 2402))
    assert len(diff.edited) == 9
