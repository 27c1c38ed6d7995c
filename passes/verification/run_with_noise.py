"""Run a program twice at once: clean, and with rounding noise of derived size at every operation.

The rounding error of one operation has a rigorous bound (`passes.rounding_rules`), but bounds that
are propagated as worst cases grow by orders of magnitude within a layer, so that they hide small
mistakes. Here each result of the noisy run is moved by its local bound with a random sign, and the
program itself propagates that. If local errors are independent of each other, with any sizes up to
their bounds, then the sum of their effects exceeds ``FACTOR`` times the observed noise with
probability below ``2 exp(-FACTOR**2 / 2)``.

Source of the bound: Hoeffding's inequality; of the idea: Parker, Monte Carlo Arithmetic, 1997;
Higham and Mary, A new approach to probabilistic rounding error analysis, 2019.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import Call, Sort, Topk
from ascendfx.ir.program import Program
from ascendfx.passes.rounding_bound import bounded_step
from ascendfx.passes.rounding_expansions import EXPANSIONS, exact
from ascendfx.passes.rounding_rules import MOVES, RULES, UNIT

FACTOR = 8.0
"""Observed noise to tolerance: exceeded by chance once in 4e13."""

Noisy = tuple[Array, Array]
"""A value without and with noise; the same object if nothing was disturbed."""

NoisyObserver = Callable[[Graph, int, tuple[Noisy, ...]], None]
"""Called with the graph, the position of the node and its results."""

Follow = Callable[[int, tuple[Noisy, ...]], tuple[Noisy, ...]]
"""Given the number of a call of the entry and its results, returns what to continue with."""

_RunCall = Callable[[Call, tuple[Noisy, ...]], tuple[Noisy, ...]]


@dataclass(frozen=True)
class CallRun:
    """One call of the entry.

    Attributes:
        position: Of the node in the entry.
        call: The operation.
        inputs: What was passed.
        outputs: What came out, before `Follow` changed it.
    """

    position: int
    call: Call
    inputs: tuple[Noisy, ...]
    outputs: tuple[Noisy, ...]


@dataclass(frozen=True)
class Run:
    """One execution of an entry.

    Attributes:
        calls: In order.
        outputs: Of the entry.
    """

    calls: tuple[CallRun, ...]
    outputs: tuple[Noisy, ...]


@dataclass
class NoisyRunner:
    """Executes graphs of a program; holds the values of one function at a time.

    Attributes:
        program: The program.
        tensors: The checkpoint by key; read where a parameter is used.
        sizes: All named sizes.
        noise: Whether to run with noise, too; it takes twice the time.
    """

    program: Program
    tensors: Mapping[str, Array]
    sizes: Mapping[str, int]
    noise: bool = True

    def __post_init__(self) -> None:
        self._signs = np.random.default_rng(0)

    def entry(
        self,
        inputs: Mapping[str, Noisy],
        follow: Follow = lambda _, outputs: outputs,
        observe: NoisyObserver | None = None,
        observe_call: Callable[[int], NoisyObserver] | None = None,
    ) -> Run:
        """Run the entry; ``observe`` sees its own nodes, ``observe_call(i)`` those of call i."""
        main = self.program.main
        positions = [i for i, node in enumerate(main.nodes) if isinstance(node.op, Call)]
        calls: list[CallRun] = []

        def call(op: Call, operands: tuple[Noisy, ...]) -> tuple[Noisy, ...]:
            number = len(calls)
            inside = observe_call(number) if observe_call else None
            results = self.function(op, operands, inside)
            calls.append(CallRun(positions[number], op, operands, results))
            return follow(number, results)

        outputs = _Walk(self, observe, call).run(main, inputs)
        return Run(tuple(calls), outputs)

    def function(
        self, op: Call, operands: Sequence[Noisy], observe: NoisyObserver | None = None
    ) -> tuple[Noisy, ...]:
        """Run one call."""
        body = self.program.by_name[op.callee]
        inputs = dict(zip(body.input_types, operands, strict=True))
        return _Walk(self, observe, self.function).run(body, inputs, op)

    def step(self, op: Op, operands: tuple[Noisy, ...]) -> tuple[Noisy, ...]:
        """Run one operation, its sizes being numbers."""
        if not self.noise:
            with np.errstate(all="ignore"):
                return tuple(map(undisturbed, op.reference(*(clean for clean, _ in operands))))
        with np.errstate(all="ignore"):
            results, error = _local_error(op, [clean for clean, _ in operands])
            calm = all(clean is noisy for clean, noisy in operands)
            moved = results if calm else op.reference(*(noisy for _, noisy in operands))
            first = moved[0]
            if first.dtype.kind == "f" and error.any():
                signs = self._signs.choice((-1.0, 1.0), first.shape)
                first = first + signs * np.where(np.isfinite(error), error, 0)
        # Decisions (what is chosen, counted or compared) are taken to be the same.
        noisy = (first, *moved[1:])
        return tuple(
            (clean, other if clean.dtype.kind == "f" else clean)
            for clean, other in zip(results, noisy, strict=True)
        )


class _Walk(Evaluator[Noisy]):
    """One graph of a runner; every call is a walk of its own, and recipes are not observed."""

    def __init__(
        self, runner: NoisyRunner, observe: NoisyObserver | None, run_call: _RunCall
    ) -> None:
        super().__init__(runner.program)
        self._runner, self._observe, self._run_call = runner, observe, run_call

    def step(self, node: Node, operands: tuple[Noisy, ...]) -> tuple[Noisy, ...]:
        return self._runner.step(node.op.substitute(self._runner.sizes), operands)

    def call(self, op: Call, operands: tuple[Noisy, ...]) -> tuple[Noisy, ...]:
        return self._run_call(op, operands)

    def visit(self, graph: Graph, position: int, results: tuple[Noisy, ...]) -> None:
        if self._observe:
            self._observe(graph, position, results)

    def weight(self, recipe: Graph, call: Call | None) -> Noisy:
        return _Walk(self._runner, None, self._run_call).run(recipe, {}, call)[0]

    def tensor(self, graph: Graph, key: str) -> Noisy:
        if key not in self._runner.tensors:
            raise GraphError(
                "missing-tensor",
                f"the weights have no `{key}`, which @{graph.name} reads",
                hint="they belong to another model",
            )
        return undisturbed(_widened(self._runner.tensors[key]))


def _widened(array: Array) -> Array:
    kind = np.asarray(array).dtype.kind
    if kind == "b":
        return array
    return array.astype(np.int64 if kind in "iu" else np.float64)


def undisturbed(value: Array) -> Noisy:
    """Return a value without noise."""
    return value, value


def concatenated(values: Sequence[Noisy]) -> Noisy:
    """Return values one after the other along their first axis; there is at least one."""
    clean, noisy = (np.concatenate([each[i] for each in values]) for i in (0, 1))
    return clean, noisy


def tolerance(value: Noisy) -> float:
    """Return how far rounding can move any element of ``value``."""
    clean, noisy = value
    if clean is noisy or clean.dtype.kind != "f":
        return 0.0
    with np.errstate(invalid="ignore"):
        moved = np.abs(noisy - clean)
    known = moved[np.isfinite(moved)]
    return FACTOR * float(known.max()) if known.size else 0.0


def _local_error(op: Op, operands: Sequence[Array]) -> tuple[tuple[Array, ...], Array]:
    """Return the results, and the rounding bound of the first for exact operands.

    An operation without a rounding rule is given one unit roundoff of the largest result.
    """
    ruled = type(op) in RULES or type(op) in EXPANSIONS or type(op) in MOVES
    if ruled or not operands or isinstance(op, Sort | Topk):
        bounded = bounded_step(op, *map(exact, operands))
        return tuple(value for value, _ in bounded), bounded[0][1]
    results = op.reference(*operands)
    largest = np.abs(results[0][np.isfinite(results[0])]).max(initial=0.0)
    return results, np.full(results[0].shape, UNIT * float(largest))
