"""Choose rows before what is computed of each row, not behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import Call, Expand, GatherRows, Input, Reshape, Slice, Transpose
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.chosen_rows import GIVEN, Choice, FindChoices, Results, chooses
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.serving_signature import REQUESTS

CHOSEN_ROWS = "chosen_rows"
_MOVES = (Expand, Reshape, Slice, Transpose)
"""What costs nothing, whose result may lie scattered in memory, though: rows are chosen before."""


@dataclass(frozen=True, slots=True)
class GatherEarlier(ProgramPass):
    """Moves the choice of one row per request to where other rows are still needed.

    ``f(x)[ids] = f(x[ids])`` for what treats every row by itself: then ``f`` is computed for
    ``requests`` rows instead of ``rows``. It moves through products, norms, rotations, routing with
    the experts behind it, and attention, of which query, position and request of a row are chosen;
    into functions, of which a copy for chosen rows is made; and no further than to what somebody
    reads for all rows, such as entries of caches. So the last layer of a chunk of a prompt, and the
    last draft layer of a step, do little more for most rows than write their entries.

    Operations that let rows meet stay as they are, and those that had to choose from several
    operands to save next to nothing.

    Fidelity: real. Each row is computed by the same operations; products of fewer rows may be
    summed in another order.
    """

    name: ClassVar[str] = "gather-earlier"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run(self, program: Program) -> PassResult:
        """Transform the entry and the functions that it calls."""
        rewriter = _Rewriter(program)
        main = rewriter.entry()
        if not rewriter.moved:
            return PassResult(program)
        copies = rewriter.copies
        recipes = dict(program.recipes)
        for graph, origin in copies.items():
            own = {key: each for key, each in program.recipes.items() if key[0] == origin}
            recipes |= {(graph, param): each for (_, param), each in own.items()}
        graphs = (main, *program.graphs[1:], *rewriter.graphs)
        statistics = {
            "operations on chosen rows": rewriter.moved,
            "functions for chosen rows": len(copies),
        }
        return PassResult(Program(graphs, recipes).pruned(), statistics)


class _Rewriter:
    """Builds the functions for chosen rows.

    Attributes:
        graphs: Built so far.
        copies: Name of each, and of the function that it is a copy of.
        moved: Operations that read chosen rows, each function counted once.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._choices = FindChoices(program)
        self._names: dict[tuple[str, Results], str] = {}
        self.graphs: list[Graph] = []
        self.copies: dict[str, str] = {}
        self.moved = 0

    def entry(self) -> Graph:
        main = self._program.main
        return self._build(main.name, main.name, (False,) * len(main.outputs))

    def inputs_of(self, origin: str, results: Results) -> tuple[bool, ...]:
        """Return which inputs of that function hold chosen rows."""
        return self._choices.of(origin, results).inputs

    def copy(self, origin: str, results: Results) -> str:
        """Return the name of the function that computes ``results`` for chosen rows."""
        key = origin, results
        if key not in self._names:
            taken = {*self._program.by_name, *self.copies}
            names = (f"{origin}_chosen{i or ''}" for i in range(len(taken) + 1))
            self._names[key] = name = next(each for each in names if each not in taken)
            self.copies[name] = origin
            self.graphs.append(self._build(origin, name, results))
        return self._names[key]

    def _build(self, origin: str, name: str, results: Results) -> Graph:
        choice = self._choices.of(origin, results)
        self.moved += len(choice.nodes)
        return _Copy(self, self._choices, self._program.by_name[origin], choice).run(name, results)


class _Copy:
    """Copies a graph; values of chosen rows stand beside, or instead of, those of all rows."""

    def __init__(
        self, rewriter: _Rewriter, choices: FindChoices, graph: Graph, choice: Choice
    ) -> None:
        self._rewriter = rewriter
        self._rows = choices.rows_of(graph.name)
        self._graph = graph
        self._choice = choice
        self._builder = GraphBuilder(graph.name)
        self._all: dict[Value, Value] = {}
        self._chosen: dict[tuple[Value, Value], Value] = {}

    def run(self, name: str, results: Results) -> Graph:
        graph, choice = self._graph, self._choice
        self._add_inputs(is_entry=name == graph.name)
        for position, node in enumerate(graph.nodes):
            if position in choice.live and not isinstance(node.op, Input):
                with self._builder.at(node.location):
                    self._copy(position, node)
        wanted = zip(graph.outputs, results, strict=True)
        outputs = [
            self._of_chosen(value, GIVEN) if chosen else self._all[value]
            for value, chosen in wanted
            if chosen is not None
        ]
        return replace(self._builder.build(*outputs), name=name)

    def _add_inputs(self, *, is_entry: bool) -> None:
        for value, own in zip(self._graph.inputs, self._choice.inputs, strict=True):
            op = self._graph.op_of(value)
            if own and isinstance(op, Input):
                chosen = Input(op.name, _of_requests(op.type))
                self._chosen[value, GIVEN] = self._builder.add(chosen)
            else:
                self._all[value] = self._builder.add(op)
        if not is_entry:
            ids = Input(CHOSEN_ROWS, TensorType(DType.I32, (REQUESTS,)))
            self._all[GIVEN] = self._builder.add(ids)

    def _copy(self, position: int, node: Node) -> None:
        results = [Value(position, i) for i in range(len(node.types))]
        if chooses(self._graph, node):
            self._all[results[0]] = self._of_chosen(*node.operands)
        elif position in self._choice.calls:
            self._call(position, node)
        elif position in self._choice.nodes:
            self._narrow(position, node, self._choice.nodes[position])
        else:
            added = self._builder.add_multi(node.op, *(self._all[v] for v in node.operands))
            self._all.update(zip(results, added, strict=True))

    def _narrow(self, position: int, node: Node, ids: Value) -> None:
        own = self._rows.row_operands(position) or ()
        operands = (
            self._of_chosen(value, ids) if i in own else self._all[value]
            for i, value in enumerate(node.operands)
        )
        added = self._builder.add_multi(node.op.substitute(_FEWER), *operands)
        for i, result in enumerate(added):
            self._chosen[Value(position, i), ids] = result

    def _call(self, position: int, node: Node) -> None:
        ids, results = self._choice.calls[position]
        call = node.op
        if not isinstance(call, Call):
            raise AssertionError("only calls are called")  # noqa: TRY004
        inputs = self._rewriter.inputs_of(call.callee, results)
        operands = [
            self._of_chosen(value, ids) if own else self._all[value]
            for value, own in zip(node.operands, inputs, strict=True)
        ]
        kept = [(i, chosen) for i, chosen in enumerate(results) if chosen is not None]
        types = tuple(_of_requests(node.types[i]) if own else node.types[i] for i, own in kept)
        op = replace(call, callee=self._rewriter.copy(call.callee, results), types=types)
        added = self._builder.add_multi(op, *operands, self._all[ids])
        for (i, chosen), result in zip(kept, added, strict=True):
            value = Value(position, i)
            if chosen:
                self._chosen[value, ids] = result
            else:
                self._all[value] = result

    def _of_chosen(self, value: Value, ids: Value) -> Value:
        """Return the chosen rows of a value, if it is of all rows by choosing them now."""
        if (value, ids) not in self._chosen:
            node = self._graph.nodes[value.node]
            moves = isinstance(node.op, _MOVES) and self._rows.row_operands(value.node) is not None
            if moves and self._rows.dispatch.get(value) is None:
                self._narrow(value.node, node, ids)
            else:
                found = self._builder.add(GatherRows(), self._all[value], self._all[ids])
                self._chosen[value, ids] = found
        return self._chosen[value, ids]


_FEWER: Mapping[str, Dim] = {"rows": REQUESTS}


def _of_requests(kind: TensorType) -> TensorType:
    return kind.substitute(_FEWER)
