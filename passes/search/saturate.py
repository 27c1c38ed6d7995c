"""Add every form that the rules reach to one graph, without giving up the others."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Value
from ascendfx.passes.match import site_of
from ascendfx.passes.pattern import COMMUTATIVE, concrete_holes, patterns_of
from ascendfx.passes.rule import Rule, Site, as_tuple
from ascendfx.passes.search.compile_pattern import Query, query_of
from ascendfx.passes.search.egglog_matcher import EgglogMatcher, columns_of
from ascendfx.passes.search.egraph import EGraph, egraph_of


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Where saturation stops.

    Attributes:
        iterations: Rounds of matching.
        nodes: Nodes of all forms together.
        repeats: How often a rule may be applied to what it had a part in: with one, ``(x A) B`` is
            composed, but not the result with a third matrix. Rules with several results, which
            merge anything with anything, once in any case.
        seconds: Backstop, of processor time. A search that it stops depends on the machine, and
            says so.
    """

    iterations: int = 24
    nodes: int = 4000
    repeats: int = 1
    seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse limits that are none.

        Raises:
            GraphError: A limit is negative or no number.
        """
        for each in fields(self):
            if not (value := getattr(self, each.name)) >= 0:
                raise GraphError(
                    "bad-argument",
                    f"the limit `{each.name}` of a search is {value}, not a number of at least 0",
                    hint="leave it out for the default",
                )


DEFAULT_LIMITS = SearchLimits()


@dataclass(frozen=True, slots=True)
class Saturation:
    """All forms.

    Attributes:
        egraph: Nodes and classes.
        outputs: Classes of the outputs of the graph.
        applied: How often each rule made something new.
        iterations: Rounds that were needed.
        stopped: Why it ended before nothing new could be found; empty if it did not.
    """

    egraph: EGraph
    outputs: tuple[Value, ...]
    applied: Mapping[str, int]
    iterations: int
    stopped: str


def saturate(graph: Graph, rules: Sequence[Rule], limits: SearchLimits) -> Saturation:
    """Apply rules until nothing new is found, or a limit is reached.

    Raises:
        GraphError: egglog is missing, or a rule equates values of different types.
    """
    return _Saturating(graph, rules, limits).run()


class _Saturating:
    def __init__(self, graph: Graph, rules: Sequence[Rule], limits: SearchLimits) -> None:
        patterns = [pattern for rule in rules for pattern in patterns_of(rule)]
        self._queries = [query_of(each, f"found{i}") for i, each in enumerate(patterns)]
        self._engine = EgglogMatcher(self._queries)
        self._egraph, moved = egraph_of(graph)
        self._outputs = tuple(moved[value] for value in graph.outputs)
        self._limits = limits
        self._seen: set[tuple[object, ...]] = set()
        self._applied: Counter[str] = Counter()

    def run(self) -> Saturation:
        start = time.process_time()
        stopped, iteration = "", 0
        while self._send() and not stopped:
            if iteration == self._limits.iterations:
                stopped = f"{iteration} iterations"
                break
            iteration += 1
            self._engine.run()
            canonical, found = self._engine.read()
            self._egraph.adopt(canonical)
            stopped = self._apply_all(found, start)
        if stopped:
            self._settle()
        outputs = tuple(map(self._egraph.find, self._outputs))
        return Saturation(self._egraph, outputs, dict(self._applied), iteration, stopped)

    def _settle(self) -> None:
        """Restore congruence among what the last round added."""
        self._send()
        self._engine.run()
        self._egraph.adopt(self._engine.read()[0])

    def _send(self) -> bool:
        """Tell the engine what is new; return whether anything is."""
        egraph, nodes = self._egraph, self._egraph.nodes
        added, united = egraph.new_nodes, egraph.new_unions
        egraph.new_nodes, egraph.new_unions = [], []
        self._engine.add((position, nodes[position]) for position in added)
        self._engine.equate(united)
        return bool(added or united)

    def _apply_all(self, found: Sequence[Sequence[tuple[int, ...]]], start: float) -> str:
        """Apply what was found; return the limit that was reached."""
        snapshot = self._egraph.snapshot()
        for query, rows in zip(self._queries, found, strict=True):
            for row in rows:
                classes = self._classes(query, row)
                if self._is_known(query, row, classes):
                    continue
                if self._egraph.size >= self._limits.nodes:
                    return f"{self._limits.nodes} nodes"
                if time.process_time() - start > self._limits.seconds:
                    return f"{self._limits.seconds:g} seconds, so another run may differ"
                self._apply(query, row, classes, snapshot)
        return ""

    def _classes(self, query: Query, row: tuple[int, ...]) -> Mapping[Value, Value]:
        return {key: self._egraph.find(value) for key, value in columns_of(query, row).items()}

    def _is_known(self, query: Query, row: tuple[int, ...], classes: Mapping[Value, Value]) -> bool:
        """Return whether a row says nothing new; several results are taken in one order only."""
        ops = row[len(query.classes) :]
        key = (query.relation, tuple(classes.values()), ops)
        outputs = frozenset(classes[value] for value in query.pattern.outputs)
        if key in self._seen:
            return True
        self._seen.add(key)
        if len(query.pattern.outputs) == 1:
            return False
        unordered = (query.relation, outputs, tuple(sorted(classes.values())), tuple(sorted(ops)))
        known = unordered in self._seen
        self._seen.add(unordered)
        return known or len(outputs) < len(query.pattern.outputs)

    def _apply(
        self,
        query: Query,
        row: tuple[int, ...],
        classes: Mapping[Value, Value],
        snapshot: Graph,
    ) -> None:
        rule, egraph = query.pattern.rule, self._egraph
        places = self._places(query, row, classes, len(snapshot.nodes))
        if places is None:
            return
        ancestry = egraph.ancestry_of(frozenset(places.values()))
        repeats = ancestry.get(rule.name, 0)
        if repeats >= (self._limits.repeats if len(query.pattern.outputs) == 1 else 1):
            return
        have = {
            value: Value(places[value.node], value.result) if value.node in places else each
            for value, each in classes.items()
        }
        site = site_of(query.pattern, snapshot, have)
        if isinstance(site, Site):
            egraph.set_ancestry({**ancestry, rule.name: repeats + 1})
            self._replace(rule, site)

    def _replace(self, rule: Rule, site: Site) -> None:
        """Add the right side of a rule and declare it equal to the left one."""
        egraph = self._egraph
        size = egraph.size
        operands = [site.bound[name] for name in rule.operands]
        try:
            with egraph.at(site.graph.nodes[site.outputs[0].node].location):
                results = as_tuple(rule.rhs(egraph, concrete_holes(**site.holes), *operands))
        except GraphError:
            return  # the right side does not exist for these sizes
        news = [
            egraph.equate(output, result, rule.name)
            for output, result in zip(site.outputs, results, strict=True)
        ]
        if any(news) or egraph.size > size:
            self._applied[rule.name] += 1

    def _places(
        self, query: Query, row: tuple[int, ...], classes: Mapping[Value, Value], known: int
    ) -> Mapping[int, int] | None:
        """Return a node for each operation of a pattern, among the first ``known`` ones."""
        places: dict[int, int] = {}
        for position, number in zip(query.ops, row[len(query.classes) :], strict=True):
            operands = tuple(classes[value] for value in query.pattern.nodes[position].operands)
            op = self._engine.op_of(number)
            place = self._egraph.place_of(op, operands)
            if place is None and isinstance(op, COMMUTATIVE):
                place = self._egraph.place_of(op, operands[::-1])
            if place is None or place >= known:
                return None
            places[position] = place
        return places
