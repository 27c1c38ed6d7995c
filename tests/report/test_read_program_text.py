"""Reading lines of the text form without the table of operations."""

from pathlib import Path

import pytest
from hypothesis import given

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.ir.program import Program
from ascendfx.ir.text.located import print_located
from ascendfx.runtime.report.read_program_text import read_program_text
from tests.report.small_dump import AFTER
from tests.strategies.graphs import graphs

FILE = Path("01-fuse.ir")


@given(graph=graphs())
def test_it_sees_what_the_printer_printed(graph: Graph) -> None:
    (read,) = read_program_text(print_located(Program((graph,))), file=FILE)
    assert read.name == graph.name
    assert [node.body.op for node in read.nodes] == [node.op.mnemonic for node in graph.nodes]
    assert [node.operands for node in read.nodes] == [node.operands for node in graph.nodes]
    assert [node.body.types for node in read.nodes] == [
        ", ".join(map(str, node.types)) for node in graph.nodes
    ]
    assert list(read.outputs) == list(graph.outputs)


def test_comments_say_where_the_following_lines_came_from() -> None:
    main, layer = read_program_text(AFTER.replace("{source}", "/m/model.py"), file=FILE)
    assert [node.place for node in main.nodes] == [
        UNKNOWN,
        Location("/m/model.py", 10, "embed"),
        Location("/m/model.py", 20, "layers.0"),
    ]
    assert layer.nodes[0].place == UNKNOWN
    assert layer.nodes[2].place == Location("/m/model.py", 31, "layers.0")


def test_operations_of_a_user_and_odd_names_are_read() -> None:
    text = (
        'graph @g {\n  %0 = param "a\\"b </script> : f32[2]" : f32[2]\n'
        '  %1 = my_op %0, %0.1 {note="{} : %9"} : f32[2], i32[2]\n  return %1.1\n}\n'
        '\nrecipe @g "w \\"x" {\n  %0 = param "w" : f32[2]\n  return %0\n}\n'
    )
    graph, recipe = read_program_text(text, file=FILE)
    assert graph.nodes[0].body.name == 'a\\"b </script> : f32[2]'
    assert graph.nodes[1].body.attributes == '{note="{} : %9"}'
    assert graph.nodes[1].operands == ((0, 0), (0, 1))
    assert graph.outputs == ((1, 1),)
    assert recipe.name == 'g "w \\"x"'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense\n",
        "graph @g {\n",
        "graph @g {\n  %0 = relu : f32[2]\n",
        "graph @g {\n  %0 = relu : f32[2]\n  return %0\n",
        "graph @g {\n  %1 = relu : f32[2]\n  return %0\n}\n",
        "graph @g {\n  %0 = relu %0 : f32[2]\n  return %0\n}\n",
        "graph @g {\n  return %0\n}\n",
        "graph @g {\n  %0 = relu : f32[2]\n  return %0\n  %1 = relu : f32[2]\n}\n",
    ],
)
def test_anything_else_is_one_error_with_its_line(text: str) -> None:
    with pytest.raises(GraphError) as caught:
        read_program_text(text, file=FILE)
    assert caught.value.code == "damaged-dump"
    assert caught.value.location.file == str(FILE)
