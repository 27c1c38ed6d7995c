"""The pass that stores latent caches as codes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.quant_passes.insertion.cache_form import CacheLine, cache_form_of
from ascendfx.quant_passes.insertion.cache_of_codes import CachesOfCodes, CallOfCodes
from ascendfx.quant_passes.insertion.latent_caches import (
    LatentCache,
    latent_caches,
    rotated_remarks,
)

_Caches = tuple[LatentCache, ...]
"""What is stored as codes in one copy of a function."""


@dataclass(frozen=True, slots=True)
class QuantizeCache(ProgramPass):
    r"""Stores the vectors that are keys and values at once as ``i8`` with a scale per token.

    Found by structure: rows of a cache of which attention makes keys and values, one vector per
    token, no part of it rotated (`latent_caches`). New rows are quantized before they are stored,
    ``c = round(x / s)`` with ``s = max |x| / 127``, and ``c s`` is what every reader sees, those of
    the same step as well. The same scale serves keys and values; rotated keys keep their format.
    The scales are one cache more per layer, behind the others.

    Fidelity: lossy. A number of a token is off by at most ``s / 2``, and by the rounding to its
    format.

    Attributes:
        lines: Asked in order, for each cache; one that none fits keeps its format.
    """

    name: ClassVar[str] = "quantize-cache"
    fidelity: ClassVar[Fidelity] = Fidelity.LOSSY

    lines: tuple[CacheLine, ...]

    def run(self, program: Program) -> PassResult:
        """Transform every function that has such a cache, and what calls it."""
        rewriter = _Rewriter(program, self.lines)
        graphs = rewriter.graphs()
        remarks = tuple(each for graph in program.graphs for each in rotated_remarks(graph))
        if not rewriter.statistics:
            return PassResult(program, {}, remarks)
        changed = Program(graphs, rewriter.recipes).pruned()
        return PassResult(changed, rewriter.statistics, remarks)


@dataclass
class _Rewriter:
    program: Program
    lines: tuple[CacheLine, ...]
    recipes: dict[tuple[str, str], Graph] = field(default_factory=dict[tuple[str, str], Graph])
    statistics: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self.recipes.update(self.program.recipes)
        self._latents = {graph.name: latent_caches(graph) for graph in self.program.graphs}

    def graphs(self) -> tuple[Graph, ...]:
        """Return the entry, and the functions in the order in which it calls them."""
        main = self.program.main
        made: dict[tuple[str, _Caches], Graph] = {}
        calls: dict[Call, CallOfCodes] = {}
        for call in _calls(main):
            caches = self._chosen(call)
            if (call.callee, caches) not in made:
                made[call.callee, caches] = self._made(call.callee, caches, made)
            to = made[call.callee, caches]
            changed = replace(call, callee=to.name, types=to.output_types)
            if changed != call:
                names = list(self.program.by_name[call.callee].input_types)
                given = sorted(names.index(cache.name) for cache in caches)
                calls[call] = CallOfCodes(changed, tuple(given))
        own = tuple(
            cache
            for cache in self._latents[main.name]
            if cache_form_of(self.lines, cache.parameter) is not None
        )
        if own:
            self._count("caches of codes", len(own))
        if not own and not calls:
            return self.program.graphs
        called = {callee for callee, _ in made}
        others = (graph for graph in self.program.graphs[1:] if graph.name not in called)
        return (CachesOfCodes(main, own, calls).graph(), *made.values(), *others)

    def _chosen(self, call: Call) -> _Caches:
        return tuple(
            cache
            for cache in self._latents[call.callee]
            if cache_form_of(self.lines, _key(call, cache.parameter)) is not None
        )

    def _made(
        self, callee: str, caches: _Caches, made: Mapping[tuple[str, _Caches], Graph]
    ) -> Graph:
        graph, taken = self.program.by_name[callee], {each.name for each in made.values()}
        name = callee
        if name in taken:
            numbers = (f"{callee}_cache{i}" for i in range(1, len(taken) + 2))
            name = next(n for n in numbers if n not in taken and n not in self.program.by_name)
            own = {key: each for key, each in self.program.recipes.items() if key[0] == callee}
            self.recipes |= {(name, parameter): each for (_, parameter), each in own.items()}
            self._count("functions split")
        if caches:
            self._count("caches of codes", len(caches))
            graph = CachesOfCodes(graph, caches).graph()
        return replace(graph, name=name)

    def _count(self, what: str, number: int = 1) -> None:
        self.statistics[what] = self.statistics.get(what, 0) + number


def _key(call: Call, parameter: str) -> str:
    return dict(call.keys).get(parameter, parameter)


def _calls(main: Graph) -> Iterator[Call]:
    """Yield the calls of the entry: functions with caches are called by no other graph."""
    for node in main.nodes:
        if isinstance(node.op, Call):
            yield node.op
