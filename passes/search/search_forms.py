"""Rewrite every distinct layer into the cheapest form that the rules reach."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.remark import Remark
from ascendfx.passes.rule import Rule
from ascendfx.passes.search.candidates import candidates_of
from ascendfx.passes.search.figure import CHOSEN, FOUND, GIVEN, ORDERED, figures_of
from ascendfx.passes.search.form_with_kernel import FoundForm, form_with_kernel
from ascendfx.passes.search.op_cost import Cost, OpCost, Refusal
from ascendfx.passes.search.saturate import DEFAULT_LIMITS, SearchLimits, saturate
from ascendfx.passes.simplify import Simplify


@dataclass(frozen=True, slots=True)
class SearchForms(ProgramPass):
    """Equality saturation per distinct layer, and the form that costs least on the target.

    The costs of operations guide the choice; what is told, and what decides between the searched
    form, the form of the fixed order and the given one, is the cost of the whole layer as it is
    lowered. So the result is never worse than either, by the model.

    Attributes:
        rules: Equalities.
        costs: The cost model, for one kind of step.
        ordered: The fixed order to compare with.
        limits: Where saturation stops.
        rounds: How often the search starts again from the form it found.
    """

    name: ClassVar[str] = "search-forms"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    rules: tuple[Rule, ...]
    costs: OpCost
    ordered: tuple[ProgramPass, ...] = ()
    limits: SearchLimits = DEFAULT_LIMITS
    rounds: int = 2

    def run(self, program: Program) -> PassResult:
        """Search every graph that calls no other: the layers.

        Raises:
            GraphError: egglog is missing, or a rule is wrong.
        """
        ordered = program
        for each in self.ordered:
            ordered = each.run(ordered).program
        graphs: list[Graph] = []
        statistics: dict[str, int] = {}
        remarks: list[Remark] = []
        for graph in program.graphs:
            if any(isinstance(node.op, Call) for node in graph.nodes):
                graphs.append(graph)
                continue
            result = self._search(graph, ordered.by_name[graph.name])
            graphs.append(result.graph)
            for what, count in result.statistics.items():
                statistics[what] = statistics.get(what, 0) + count
            remarks += result.remarks
        if all(new is old for new, old in zip(graphs, program.graphs, strict=True)):
            return PassResult(program, statistics, tuple(remarks))
        return PassResult(
            Program(tuple(graphs), program.recipes).pruned(), statistics, tuple(remarks)
        )

    def _search(self, given: Graph, ordered: Graph) -> "_Searched":
        remarks: list[Remark] = []
        statistics: dict[str, int] = {}
        found = self._found(given, remarks, statistics)
        forms = {FOUND: found.graph, ORDERED: Simplify().run_graph(ordered).graph, GIVEN: given}
        costs = {FOUND: found.cost}
        costs |= {name: self.costs.of_graph(forms[name]) for name in (ORDERED, GIVEN)}
        known = {name: cost for name, cost in costs.items() if isinstance(cost, Cost)}
        for name, cost in costs.items():
            if isinstance(cost, Refusal) and (name == FOUND or not known):
                told = f"@{given.name}: the {name} form has no kernel: {cost.reason}"
                remarks.append(Remark(told))
        for name, cost in known.items():
            statistics |= figures_of(given.name, name, cost)
        if not known:
            return _Searched(given, statistics, tuple(dict.fromkeys(remarks)))
        best = min(known, key=lambda name: known[name].femtoseconds)
        if best != FOUND:
            why = "search found no better one" if FOUND in known else "that of search has no kernel"
            remarks.append(Remark(f"@{given.name}: the {best} form is chosen, {why}"))
        statistics |= figures_of(given.name, CHOSEN, known[best])
        return _Searched(forms[best], statistics, tuple(dict.fromkeys(remarks)))

    def _found(self, given: Graph, remarks: list[Remark], statistics: dict[str, int]) -> FoundForm:
        """Return the cheapest form of all rounds; without a kernel, that of the last one."""
        rounds: list[FoundForm] = []
        last = given
        for _ in range(self.rounds):
            better = self._round(last, remarks, statistics)
            if better is None:
                break
            rounds.append(better)
            if better.graph == last:
                break
            last = better.graph
        known = [(form.cost.femtoseconds, form) for form in rounds if isinstance(form.cost, Cost)]
        if known:
            return min(known, key=lambda each: each[0])[1]
        return rounds[-1] if rounds else FoundForm(given, self.costs.of_graph(given), ())

    def _round(
        self, graph: Graph, remarks: list[Remark], statistics: dict[str, int]
    ) -> FoundForm | None:
        saturation = saturate(graph, self.rules, self.limits)
        if saturation.stopped:
            told = f"@{graph.name}: search stopped early at {saturation.stopped}"
            remarks.append(Remark(told))
        candidates = candidates_of(saturation, self.costs)
        form = form_with_kernel(candidates, self.costs, graph)
        key = f"{graph.name}: nodes of all forms"
        statistics[key] = max(statistics.get(key, 0), saturation.egraph.size)
        for rule, count in saturation.applied.items():
            applied = f"applied {rule}"
            statistics[applied] = statistics.get(applied, 0) + count
        if form is None:
            remarks += [Remark(f"@{graph.name}: {reason}") for reason in candidates.refused]
            return None
        remarks += form.remarks
        return form


@dataclass(frozen=True, slots=True)
class _Searched:
    graph: Graph
    statistics: Mapping[str, int]
    remarks: tuple[Remark, ...]
