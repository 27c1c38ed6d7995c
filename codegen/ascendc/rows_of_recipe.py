"""Recipes of weights whose rows can be made one after the other, in little memory."""

from collections.abc import Iterator

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Negate,
    PackCodes,
    Param,
    ReduceMax,
    ReduceSum,
    Reshape,
    Round,
    Subtract,
)

_ELEMENTWISE: tuple[type[Op], ...] = (
    *(Add, Cast, Divide, Maximum, Minimum, Multiply, Negate, PackCodes, Round, Subtract),
)
_PART = 2**22
"""Elements of the largest parameter that are taken at a time: 32 MiB in float64."""


def parts_of_rows(recipe: Graph) -> Iterator[tuple[slice, Graph]]:
    """Yield rows and how they are made of the same rows of every parameter.

    Rows are indices of the first axis. Yields nothing if a row needs others, and if all of them are
    few elements.
    """
    kinds = [recipe.type_of(value) for value in recipe.params]
    rows = recipe.output_types[0].shape[0] if recipe.output_types[0].shape else 1
    if not isinstance(rows, int) or not kinds or any(kind.shape[:1] != (rows,) for kind in kinds):
        return
    if not all(_keeps_rows(recipe, node, rows) for node in recipe.nodes):
        return
    largest = max(_elements(kind.shape) for kind in kinds)
    step = max(1, _PART * rows // largest)
    if step >= rows:
        return
    for start in range(0, rows, step):
        count = min(step, rows - start)
        yield slice(start, start + count), _with_rows(recipe, count)


def _keeps_rows(recipe: Graph, node: Node, rows: int) -> bool:
    shapes = [recipe.type_of(value).shape for value in node.operands]
    match node.op:
        case Param() | Constant():
            return True
        case Reshape():
            return shapes[0][:1] == node.types[0].shape[:1] == (rows,)
        case ReduceMax() | ReduceSum():
            return 0 not in node.op.axes and shapes[0][:1] == (rows,)
        case _ if isinstance(node.op, _ELEMENTWISE):
            rank = node.types[0].rank
            return all(not shape or (len(shape) == rank and shape[0] == rows) for shape in shapes)
        case _:
            return False


def _with_rows(recipe: Graph, rows: int) -> Graph:
    builder = GraphBuilder(recipe.name)
    made: list[Value] = []
    for node in recipe.nodes:
        op = node.op
        if isinstance(op, Param):
            op = Param(op.name, op.type.with_shape((rows, *op.type.shape[1:])))
        elif isinstance(op, Reshape):
            op = Reshape((rows, *op.shape[1:]))
        made.append(builder.add(op, *(made[value.node] for value in node.operands)))
    return builder.build(made[recipe.outputs[0].node])


def _elements(shape: tuple[object, ...]) -> int:
    count = 1
    for size in shape:
        count *= size if isinstance(size, int) else 1
    return count
