"""What a pass is and what it returns."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.program import Program
from ascendfx.passes.remark import Remark
from ascendfx.passes.result_parts import check_parts


class Fidelity(enum.Enum):
    """How equal the program is before and after."""

    BITWISE = "bitwise"
    """Same bits in every format, signs of zeros included; see `ascendfx.passes.same_bits`."""
    REAL = "real"
    """Equal over the reals; rounding differs because sums or products are reordered."""
    LOSSY = "lossy"
    """Other numbers, within a budget that the pass states."""


@dataclass(frozen=True, slots=True)
class PassResult:
    """The new program and what was done to obtain it.

    Attributes:
        program: The result; the same object if nothing applied.
        statistics: Counts by name, for the report.
        remarks: One per missed opportunity: where, and why not.
    """

    program: Program
    statistics: Mapping[str, int] = field(default_factory=dict[str, int])
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramPass(ABC):
    """A pure function from program to program; its parameters are the fields of the dataclass.

    A pass keeps no state between runs and reads no global configuration: equal passes map equal
    programs to equal programs.
    """

    name: ClassVar[str]
    fidelity: ClassVar[Fidelity]

    @abstractmethod
    def run(self, program: Program) -> PassResult:
        """Transform ``program``."""


@dataclass(frozen=True, slots=True)
class GraphResult:
    """As `PassResult`, for one graph."""

    graph: Graph
    statistics: Mapping[str, int] = field(default_factory=dict[str, int])
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphPass(ProgramPass):
    """A pass that looks at one graph at a time: each distinct layer is transformed once.

    Inputs and outputs of the graph must keep their number, order and types.
    """

    @abstractmethod
    def run_graph(self, graph: Graph) -> GraphResult:
        """Transform ``graph``; return the same object if nothing applies."""

    def run(self, program: Program) -> PassResult:
        """Transform every graph of the program.

        Raises:
            GraphError: `run_graph` returned something else than a `GraphResult`.
        """
        results = [_checked(self.name, self.run_graph(graph)) for graph in program.graphs]
        if all(r.graph is g for r, g in zip(results, program.graphs, strict=True)):
            return PassResult(program, {}, tuple(each for r in results for each in r.remarks))
        statistics: dict[str, int] = {}
        for result in results:
            for what, count in result.statistics.items():
                statistics[what] = statistics.get(what, 0) + count
        changed = Program(tuple(r.graph for r in results), program.recipes).pruned()
        return PassResult(changed, statistics, tuple(each for r in results for each in r.remarks))


def _checked(name: str, result: Any) -> GraphResult:
    if isinstance(result, GraphResult) and isinstance(result.graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        check_parts(name, result.statistics, result.remarks)
        return result
    found = result.graph if isinstance(result, GraphResult) else result
    raise GraphError(
        "pass-result",
        f"pass `{name}` returned `{type(found).__name__}` from run_graph",
        hint="run_graph returns GraphResult(graph), with the graph it was given if nothing "
        "applied; a pass over whole programs has run, which returns PassResult(program)",
    )
