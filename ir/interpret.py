"""Reference execution of a graph or program, node by node, in float64 or on symbols."""

from collections.abc import Callable, Mapping

import numpy as np
import sympy

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim

Observer = Callable[[Graph, int, tuple[Array, ...]], None]
"""Called with the graph, the node position and its results, for dumps and comparisons."""


def interpret(
    what: Graph | Program,
    tensors: Mapping[str, Array],
    *,
    sizes: Mapping[str, int] | None = None,
    observe: Observer | None = None,
) -> tuple[Array, ...]:
    """Compute the outputs of a graph, or of a program's entry graph.

    Args:
        what: What to compute.
        tensors: One array per `Input` and per checkpoint key, by name. Float arrays are widened to
            float64; arrays of SymPy expressions are accepted, the outputs are then expressions.
        sizes: Named sizes that no input's shape reveals.
        observe: Called after every node.

    Raises:
        GraphError: An input is missing or its shape does not fit.
    """
    program = what if isinstance(what, Program) else Program((what,))
    inputs = {name: _bound(program.main, tensors, name) for name in program.main.input_types}
    bound = dict(sizes or {})
    for name, kind in program.main.input_types.items():
        _solve(name, kind.shape, inputs[name].shape, bound)
    return _Interpreter(program, tensors, bound, observe).run(program.main, inputs)


class _Interpreter(Evaluator[Array]):
    def __init__(
        self,
        program: Program,
        tensors: Mapping[str, Array],
        sizes: Mapping[str, int],
        observe: Observer | None,
    ) -> None:
        super().__init__(program)
        self._tensors = tensors
        self._sizes = sizes
        self._observe = observe

    def step(self, node: Node, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        results = node.op.substitute(self._sizes).reference(*operands)
        return tuple(map(np.asarray, results))  # NumPy makes scalars of 0-d objects

    def tensor(self, graph: Graph, key: str) -> Array:
        return _bound(graph, self._tensors, key)

    def visit(self, graph: Graph, position: int, results: tuple[Array, ...]) -> None:
        if self._observe:
            self._observe(graph, position, results)


def _bound(graph: Graph, tensors: Mapping[str, Array], name: str) -> Array:
    if name not in tensors:
        raise GraphError(
            "missing-tensor",
            f"graph @{graph.name} needs `{name}`, which was not given",
            hint="pass it in `tensors`, under this name",
        )
    array = np.asarray(tensors[name])
    if array.dtype == object or array.dtype.kind in "biu":
        return array.astype(np.int64) if array.dtype.kind in "iu" else array
    return array.astype(np.float64)


def _solve(
    name: str, shape: tuple[Dim, ...], actual: tuple[int, ...], sizes: dict[str, int]
) -> None:
    if len(shape) != len(actual):
        raise GraphError(
            "input-shape",
            f"input `{name}` has {len(actual)} axes, not {len(shape)}",
            hint=f"pass an array of shape [{', '.join(map(str, shape))}]",
        )
    for stated, size in zip(shape, actual, strict=True):
        if isinstance(stated, sympy.Symbol):
            sizes.setdefault(stated.name, size)
        expected = stated if isinstance(stated, int) else sizes.get(str(stated), size)
        if expected != size:
            raise GraphError(
                "input-shape",
                f"input `{name}` has shape {actual}; {stated} should be {expected}",
                hint=f"pass an array of shape [{', '.join(map(str, shape))}]; a named size is the "
                "same in all inputs and in `sizes`",
            )
