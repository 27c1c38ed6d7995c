"""Give requests that draft less fewer rows in the main model."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from ascendfx.ir import ops
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.packed_rows import PACKED_ROWS
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import CACHE_PREFIX, DRAFT_CACHE_PREFIX, SIZES
from ascendfx.passes.close_step import cache_inputs
from ascendfx.passes.drop_batch_axis import ROWS
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.shifted_convention import check_shifted_convention
from ascendfx.passes.step_inputs import is_packed, step_sizes

_PACKED = ("token_ids", "positions", "slots", "row_request")
"""Inputs whose rows `pack_rows` moves together, in the order of its results."""
_ROW_START, _SIZES = 4, 5
_KEPT_AT = 4
"""Which result of `align_drafts` has an element for each row of the main model."""
_FEWER = {str(ROWS): PACKED_ROWS}


@dataclass(frozen=True, slots=True)
class DropPlaceholders(ProgramPass):
    """Moves the rows of a decode step together, so that placeholders cost nothing.

    A closed step has ``1 + drafts`` rows for each place, whatever it drafts: `advance_requests`
    writes them there, and so does the host. `pack_rows` at the beginning of the step takes those
    with a draft, and tells the kernels behind it by ``sizes`` how many there are. They are
    ``packed_rows`` in all types of the main model, and of a single draft layer, which has its rows.
    The rows of several draft layers are those of `align_drafts`, which reach back over all drafts
    whatever is drafted now; they stay ``rows``, of which the host knows the number.

    The step returns the first row of each place behind tokens and logits, for those who look for
    one in them. Steps without drafts, with a tree of them, and prefills stay as they are.

    Fidelity: bitwise. Each row is computed as before; random numbers belong to positions of the
    request, not to rows.
    """

    name: ClassVar[str] = "drop-placeholders"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run(self, program: Program) -> PassResult:
        """Transform a closed decode step whose drafts are a chain, after `FuseMtp`."""
        verified = [n.op for n in program.main.nodes if isinstance(n.op, ops.VerifyDrafts)]
        if len(verified) != 1 or not verified[0].drafts or is_packed(program):
            return PassResult(program)
        packed = _Packed(program, verified[0].drafts).run()
        if any(name.startswith(DRAFT_CACHE_PREFIX) for name in packed.main.input_types):
            check_shifted_convention(packed)
        return PassResult(packed, {"drafts without rows of their own": verified[0].drafts})


class _Packed:
    """Rebuilds the entry, and the functions that packed rows run through."""

    def __init__(self, program: Program, drafts: int) -> None:
        self._program = program
        self._main = program.main
        self._drafts = drafts
        self._builder = GraphBuilder(self._main.name)
        self._apart = _behind_alignment(self._main)
        self._own: dict[Value, Value] = {}
        """Each value: of packed rows, or of those of draft layers."""
        self._whole: dict[Value, Value] = {}
        """Values of all rows, for what is not packed."""
        self._start = self._sizes = Value(-1)
        calls = (self._main.nodes[i].op for i in self._apart)
        self._kept_names = _callees(program, calls)
        self._functions: dict[str, Graph] = {}

    def run(self) -> Program:
        main, program = self._main, self._program
        self._add_inputs()
        for position, node in enumerate(main.nodes):
            if not isinstance(node.op, ops.Input):
                with self._builder.at(node.location):
                    self._copy(position, node)
        tokens, logits, *rest = (self._own[v] for v in main.outputs)
        first = len(rest) - len(cache_inputs(main))
        graph = self._builder.build(
            tokens, logits, self._start, *rest[:first], self._sizes, *rest[first:]
        )
        recipes = dict(program.recipes)
        graphs = {each.name: each for each in program.graphs[1:]}
        for origin, function in self._functions.items():
            graphs[function.name] = function
            own = {key: each for key, each in program.recipes.items() if key[0] == origin}
            recipes |= {(function.name, param): each for (_, param), each in own.items()}
        return Program((graph, *graphs.values()), recipes).pruned()

    def _add_inputs(self) -> None:
        inputs: dict[str, Value] = {}
        for name, kind in self._main.input_types.items():
            if name.startswith(CACHE_PREFIX) and SIZES not in inputs:
                inputs[SIZES] = self._builder.add(ops.Input(SIZES, step_sizes()))
            inputs[name] = self._builder.add(ops.Input(name, kind))
        pairs = {
            node.op.k
            for graph in self._program.graphs
            for node in graph.nodes
            if isinstance(node.op, ops.RouteTopk)
        }
        pack = ops.PackRows(self._drafts, PACKED_ROWS, max(pairs, default=0))
        operands = (inputs[name] for name in (*_PACKED[:3], "state", SIZES))
        made = self._builder.add_multi(pack, *operands)
        self._start, self._sizes = made[_ROW_START], made[_SIZES]
        moved: dict[str, Value] = dict(zip(_PACKED, made, strict=False))
        for value, name in zip(self._main.inputs, self._main.input_types, strict=True):
            self._whole[value] = inputs[name]
            self._own[value] = moved.get(name, inputs[name])

    def _copy(self, position: int, node: Node) -> None:
        op, operands = node.op, [self._own[v] for v in node.operands]
        match op:
            case ops.VerifyDrafts():
                op = replace(op, packed=True)
                operands.append(self._start)
            case ops.AlignDrafts():
                op = replace(op, packed=PACKED_ROWS)
                operands = [*map(self._of_all, node.operands), self._start]
            case _ if position in self._apart:
                operands = [self._of_all(v) for v in node.operands]
            case _:
                op = self._fewer(op)
        results = self._builder.add_multi(op, *operands)
        self._own.update((Value(position, i), each) for i, each in enumerate(results))

    def _fewer(self, op: Op) -> Op:
        """Return the operation on packed rows."""
        if isinstance(op, ops.Call):
            return replace(op.substitute(_FEWER), callee=self._function(op.callee))
        return op.substitute(_FEWER)

    def _function(self, name: str) -> str:
        """Return the function that does the same with packed rows."""
        if name not in self._functions:
            graph = self._program.by_name[name]
            taken = self._program.by_name
            fresh = (f"{name}_packed{i or ''}" for i in range(len(taken) + 1))
            new = next(each for each in fresh if each not in taken)
            builder = GraphBuilder(new if name in self._kept_names else name)
            moved: dict[Value, Value] = {}
            for position, node in enumerate(graph.nodes):
                with builder.at(node.location):
                    added = builder.add_multi(
                        self._fewer(node.op), *(moved[v] for v in node.operands)
                    )
                moved.update((Value(position, i), each) for i, each in enumerate(added))
            self._functions[name] = builder.build(*(moved[v] for v in graph.outputs))
        return self._functions[name].name

    def _of_all(self, value: Value) -> Value:
        """Return a value that draft layers read for all rows: an input, or made of nothing else."""
        if value in self._whole:
            return self._whole[value]
        kind, node = self._main.type_of(value), self._main.nodes[value.node]
        if value.node in self._apart or str(ROWS) not in kind.names:
            return self._own[value]
        if isinstance(node.op, ops.Call | ops.CacheWrite):
            message = "draft layers with rows of their own read none of the main model"
            raise AssertionError(message)  # noqa: TRY004
        added = self._builder.add_multi(node.op, *(self._of_all(v) for v in node.operands))
        self._whole.update((Value(value.node, i), each) for i, each in enumerate(added))
        return self._whole[value]


def _behind_alignment(main: Graph) -> frozenset[int]:
    """Return what has the rows of `align_drafts`, and what prepares the rows of the next step."""
    found: set[int] = set()
    for position, node in enumerate(main.nodes):
        made = (v for v in node.operands if v.node in found)
        reads = any(not _is_kept_at(main, v) for v in made)
        if reads or isinstance(node.op, ops.AlignDrafts | ops.AdvanceRequests):
            found.add(position)
    return frozenset(found)


def _is_kept_at(main: Graph, value: Value) -> bool:
    return isinstance(main.op_of(value), ops.AlignDrafts) and value.result == _KEPT_AT


def _callees(program: Program, operations: Iterable[Op]) -> frozenset[str]:
    """Return the functions that these operations run, and those in them."""
    found: set[str] = set()
    pending = [op.callee for op in operations if isinstance(op, ops.Call)]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            inner = (node.op for node in program.by_name[name].nodes)
            pending += [op.callee for op in inner if isinstance(op, ops.Call)]
    return frozenset(found)
