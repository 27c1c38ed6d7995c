"""Whether every token of the vocabulary has a row in the tables that are read by token id."""

from collections.abc import Iterator, Sequence

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.location import Location
from ascendfx.ir.ops import Call, Cast, GatherRows, Input, Reshape
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim


def small_table(program: Program, vocabulary: int) -> tuple[int, Location] | None:
    """Return the rows of a table that is too short for the vocabulary, and where it is read.

    Only tables that are read by the very ids count: a model may also choose rows by numbers that it
    makes of them.

    Args:
        program: Its entry has the input ``token_ids``.
        vocabulary: Number of token ids.
    """
    return next(((rows, at) for rows, _, at in _tables(program) if rows < vocabulary), None)


def _tables(program: Program) -> Iterator[tuple[int, Dim, Location]]:
    """Yield rows and columns of each table that is read by token id, and where it is read."""
    main = program.main
    return _read(program, main, [value for value in main.inputs if _is_ids(main, value)])


def _is_ids(graph: Graph, value: Value) -> bool:
    op = graph.op_of(value)
    return isinstance(op, Input) and op.name == "token_ids"


def _read(
    program: Program, graph: Graph, ids: Sequence[Value]
) -> Iterator[tuple[int, Dim, Location]]:
    known = set(ids)
    for position, node in enumerate(graph.nodes):
        match node.op:
            case Cast() | Reshape() if node.operands[0] in known:
                known.add(Value(position))
            case GatherRows() if node.operands[1] in known:
                rows, *columns = graph.type_of(node.operands[0]).shape
                if isinstance(rows, int):
                    yield rows, columns[-1] if columns else 1, node.location
            case Call(callee=callee) if known.intersection(node.operands):
                called = next(each for each in program.graphs if each.name == callee)
                pairs = zip(called.inputs, node.operands, strict=True)
                yield from _read(program, called, [formal for formal, v in pairs if v in known])
            case _:
                pass


def check_vocabulary(program: Program) -> None:
    """Check that a model can read every token that it may answer with, and answers with tokens.

    Raises:
        GraphError: Its embedding has fewer rows than there are logits; or what it returns is as
            wide as a row of the embedding and not as its vocabulary: hidden states.
    """
    vocabulary = program.main.output_types[0].shape[-1]
    small = small_table(program, vocabulary) if isinstance(vocabulary, int) else None
    if small:
        rows, place = small
        raise GraphError(
            "small-embedding",
            f"the model gives {vocabulary} tokens logits, but looks up {rows} token ids",
            place,
            hint="it could not read its own answer; give the embedding a row for every token",
        )
    for rows, columns, place in _tables(program):
        if columns == vocabulary < rows:
            raise GraphError(
                "no-logits",
                f"the model returns {vocabulary} numbers for each token, which is the width of its "
                f"hidden states, while it looks up {rows} token ids",
                place,
                hint="pass the module with the output head, for example the "
                "`...ForCausalLM` whose `model` this is",
            )
