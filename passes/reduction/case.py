"""A small program with its values, and what a pass makes wrong of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Constant, Input, Param
from ascendfx.ir.program import Program
from ascendfx.ir.verify import verify_program
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.same_bits import same_in_format
from ascendfx.passes.verification.run_with_noise import NoisyRunner, tolerance, undisturbed
from ascendfx.passes.verification.verify_pass import PassVerifier, Rewritten

FAILURES = (
    GraphError,
    AssertionError,
    AttributeError,
    LookupError,
    ValueError,
    TypeError,
    ArithmeticError,
    RecursionError,
)
"""What a pass or a program may raise on a candidate that makes no sense."""


@dataclass(frozen=True)
class Case:
    """What a pass is given.

    Attributes:
        program: Before the pass.
        tensors: Inputs of the entry and parameters, by name.
        sizes: Named sizes.
        tokens: Ids ``[1, tokens]`` if the program is run on tokens, step by step: for passes that
            change what the entry takes. None: the entry is run once, on ``tensors``.
        after: What the pass made, if the pass itself cannot be run.
    """

    program: Program
    tensors: Mapping[str, Array]
    sizes: Mapping[str, int]
    tokens: Array | None = None
    after: Program | None = None

    @property
    def nodes(self) -> int:
        """Number of nodes that compute something."""
        return computing_nodes(self.program)


@dataclass(frozen=True, slots=True)
class Observed:
    """How far the program after is from the program before.

    Attributes:
        max: Largest absolute difference.
        bound: What rounding explains.
    """

    max: float
    bound: float


def computing_nodes(program: Program) -> int:
    """Return the number of nodes without inputs, parameters and constants."""
    return sum(
        not isinstance(node.op, Input | Param | Constant)
        for graph in program.graphs
        for node in graph.nodes
    )


def observe(case: Case, after: Program, fidelity: Fidelity) -> Observed | None:
    """Return how far ``after`` is from the program of ``case``, or None within its fidelity.

    Raises:
        GraphError: A program does not run on the case.
    """
    if case.tokens is not None:
        verifier = PassVerifier(case.program, case.tensors, case.tokens)
        check = verifier.check("", Rewritten("", fidelity, case.program, after))
        return Observed(check.error.max, check.error.bound) if check.broken else None
    if case.program.main.input_types.keys() != after.main.input_types.keys():
        raise GraphError(
            "other-inputs",
            "the programs take different inputs",
            hint="compare programs of one dump, before and after a pass",
        )
    before = _outputs(case.program, case)
    try:
        verify_program(after)
        results = before, _outputs(after, case)
    except FAILURES:
        return Observed(math.inf, 0.0)
    worst: Observed | None = None
    exact = fidelity is Fidelity.BITWISE
    for one, other, kind in zip(*results, after.main.output_types, strict=True):
        bound = 0.0 if exact else tolerance(one) + tolerance(other)
        found = _gap(one[0], other[0])
        same = same_in_format(kind.dtype, one[0], other[0]) if exact else found <= bound
        if not same and (worst is None or found > worst.max):
            worst = Observed(found, bound)
    return worst


def _outputs(program: Program, case: Case) -> tuple[tuple[Array, Array], ...]:
    runner = NoisyRunner(program, case.tensors, case.sizes)
    inputs = {name: undisturbed(case.tensors[name]) for name in program.main.input_types}
    return runner.entry(inputs).outputs


def _gap(one: Array, other: Array) -> float:
    if one.shape != other.shape:
        return math.inf
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.nan_to_num(gap, nan=np.inf, posinf=np.inf).max(initial=0.0))


@dataclass(frozen=True)
class Judge:
    """Runs the pass on candidates.

    Attributes:
        rewrite: The pass; None if cases have the program after it.
        fidelity: What it promises.
    """

    rewrite: Callable[[Program], Program] | None
    fidelity: Fidelity

    def after(self, case: Case) -> Program:
        """Return the program after the pass."""
        if self.rewrite is not None:
            return self.rewrite(case.program)
        return case.after or case.program

    def observe(self, case: Case) -> Observed | None:
        """Return the difference that the pass makes, or None if it makes none or cannot run."""
        try:
            verify_program(case.program)
            after = self.after(case)
            return None if after is case.program else observe(case, after, self.fidelity)
        except FAILURES:
            return None
