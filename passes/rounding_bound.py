"""How far float64 interpretation of a program can be from real arithmetic: running error analysis.

Every value carries a bound of its absolute error, by the first-order rules in `rounding_rules`.
Decisions (sorting, comparing, choosing) are taken to be the same. Bounds are worst cases: they grow
by orders of magnitude per layer of a model, so compare layers one by one.
"""

from collections.abc import Mapping

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import Call, Histogram, Input, Param, Sort, Topk
from ascendfx.ir.program import Program
from ascendfx.passes.rounding_expansions import EXPANSIONS, Bounded, exact
from ascendfx.passes.rounding_rules import MOVES, RULES, movable


def rounding_bound(
    what: Graph | Program, tensors: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> tuple[Array, ...]:
    """Return the error bound of each output of ``interpret(what, tensors, sizes=sizes)``.

    A bound that is not known is infinite.
    """
    program = what if isinstance(what, Program) else Program((what,))
    bound_sizes = dict(sizes or {})
    for name, kind in program.main.input_types.items():
        for dim, size in zip(kind.shape, np.shape(tensors[name]), strict=True):
            bound_sizes.setdefault(str(dim), size)
    inputs = {name: exact(tensors[name]) for name in program.main.input_types}
    results = _Run(program, tensors, bound_sizes).graph(program.main, inputs, None)
    return tuple(error for _, error in results)


class _Run:
    def __init__(
        self, program: Program, tensors: Mapping[str, Array], sizes: Mapping[str, int]
    ) -> None:
        self._program = program
        self._tensors = tensors
        self._sizes = sizes

    def graph(
        self, graph: Graph, inputs: Mapping[str, Bounded], call: Call | None
    ) -> list[Bounded]:
        known: list[tuple[Bounded, ...]] = []
        for node in graph.nodes:
            operands = [known[v.node][v.result] for v in node.operands]
            match node.op:
                case Input(name=name):
                    known.append((inputs[name],))
                case Param(name=name):
                    known.append((self._param(graph, name, call),))
                case Call(callee=callee):
                    body = self._program.by_name[callee]
                    arguments = dict(zip(body.input_types, operands, strict=True))
                    known.append(tuple(self.graph(body, arguments, node.op)))
                case op:
                    known.append(bounded_step(op.substitute(self._sizes), *operands))
        return [known[v.node][v.result] for v in graph.outputs]

    def _param(self, graph: Graph, name: str, call: Call | None) -> Bounded:
        recipe = self._program.recipes.get((graph.name, name))
        if recipe is None:
            return exact(self._tensors[call.key_of(name) if call else name])
        return self.graph(Graph(graph.name, recipe.nodes, recipe.outputs), {}, call)[0]


def bounded_step(op: Op, *operands: Bounded) -> tuple[Bounded, ...]:
    """Return the results of one operation with bounds of their errors."""
    values = [value for value, _ in operands]
    errors = [error for _, error in operands]
    with np.errstate(all="ignore"):
        results = op.reference(*values)
        if type(op) in MOVES:
            moved = op.reference(*movable(op, values, errors))
            return tuple(
                (r, np.asarray(e, np.float64) if r.dtype.kind == "f" else np.zeros(r.shape))
                for r, e in zip(results, moved, strict=True)
            )
        if isinstance(op, Sort | Topk):
            axis = op.axis if isinstance(op, Sort) else -1
            return (
                (results[0], np.take_along_axis(errors[0], results[1], axis)),
                exact(results[1]),
            )
        if results[0].dtype.kind != "f" or not operands or isinstance(op, Histogram):
            return tuple(map(exact, results))
        error = _error(op, operands, results[0])
        known = np.nan_to_num(error, nan=np.inf, posinf=np.inf)
        return (results[0], np.broadcast_to(known, results[0].shape)), *map(exact, results[1:])


def _error(op: Op, operands: tuple[Bounded, ...], result: Array) -> Array:
    if type(op) in EXPANSIONS:
        return EXPANSIONS[type(op)](lambda inner, *v: bounded_step(inner, *v)[0], op, *operands)[1]
    values, errors = [value for value, _ in operands], [error for _, error in operands]
    return RULES[type(op)](op, values, errors, result)
