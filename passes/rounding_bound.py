"""How far float64 interpretation of a program can be from real arithmetic: running error analysis.

Every value carries a bound of its absolute error, by the first-order rules in `rounding_rules`.
Decisions (sorting, comparing, choosing) are taken to be the same. Bounds are worst cases: they grow
by orders of magnitude per layer of a model, so compare layers one by one.
"""

from collections.abc import Mapping

import numpy as np

from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import Histogram, Sort, Topk
from ascendfx.ir.program import Program
from ascendfx.passes.rounding_expansions import EXPANSIONS, Bounded, exact
from ascendfx.passes.rounding_rules import MOVES, RULES, UNIT, movable


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
    results = _Bounds(program, tensors, bound_sizes).run(program.main, inputs)
    return tuple(error for _, error in results)


class _Bounds(Evaluator[Bounded]):
    def __init__(
        self, program: Program, tensors: Mapping[str, Array], sizes: Mapping[str, int]
    ) -> None:
        super().__init__(program)
        self._tensors = tensors
        self._sizes = sizes

    def step(self, node: Node, operands: tuple[Bounded, ...]) -> tuple[Bounded, ...]:
        return bounded_step(node.op.substitute(self._sizes), *operands)

    def tensor(self, graph: Graph, key: str) -> Bounded:
        return exact(self._tensors[key])


def bounded_step(op: Op, *operands: Bounded, unit: float = UNIT) -> tuple[Bounded, ...]:
    """Return the results of one operation with bounds of their errors.

    Args:
        op: The operation.
        operands: Values and bounds of their errors.
        unit: Unit roundoff of the arithmetic; float64 unless said otherwise.
    """
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
        error = _error(op, operands, results[0], unit)
        known = np.nan_to_num(error, nan=np.inf, posinf=np.inf)
        return (results[0], np.broadcast_to(known, results[0].shape)), *map(exact, results[1:])


def _error(op: Op, operands: tuple[Bounded, ...], result: Array, unit: float) -> Array:
    if type(op) in EXPANSIONS:

        def step(inner: Op, *values: Bounded) -> Bounded:
            return bounded_step(inner, *values, unit=unit)[0]

        return EXPANSIONS[type(op)](step, op, *operands)[1]
    values, errors = [value for value, _ in operands], [error for _, error in operands]
    return RULES[type(op)](op, values, errors, result, unit)
