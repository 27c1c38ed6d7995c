"""Choose one node per class so that the whole costs least; what is read twice is paid once.

The best choice of a graph with shared nodes is NP-hard (Stepp, 2011, section 6). Here: the best
choice found bottom-up, in which the nodes below an operand are a set and sets are united; then
local improvement. One move makes one class by another node, or takes up a node together with every
class of the form that is a view of it: two products that would share a merged one change together.
What is guaranteed: no single move improves the result further, and it never costs more than any
form that was given to start from. Ties go to fewer nodes, then to the older node.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import Input
from ascendfx.passes.search.candidates import Candidates

Choice = Mapping[Value, Value]
"""For each class the value that is computed for it."""

_Total = tuple[int, int]
"""Femtoseconds and number of nodes."""


@dataclass(frozen=True, slots=True)
class Form:
    """A choice for every class the outputs need.

    Attributes:
        choice: The choice.
        femtoseconds: What its nodes cost together, each once.
        nodes: How many they are.
    """

    choice: Choice
    femtoseconds: int
    nodes: int

    @property
    def total(self) -> _Total:
        """What is minimised."""
        return self.femtoseconds, self.nodes


def extract(candidates: Candidates, starts: Iterable[Choice] = ()) -> Form | None:
    """Return the cheapest form found, or None if no form has kernels for all its operations.

    Args:
        candidates: The choices.
        starts: Forms that the result must not be worse than.
    """
    extraction = _Extraction(candidates)
    forms = [form for start in starts if (form := extraction.form(start)) is not None]
    bottom_up = extraction.form(extraction.alone)
    if bottom_up is not None:
        forms.append(bottom_up)
    if not forms:
        return None
    best = min(forms, key=lambda form: form.total)
    return extraction.improve(best)


@dataclass(frozen=True, slots=True)
class BuiltForm:
    """A form as a graph.

    Attributes:
        graph: With the inputs of the original, every node at the line it came from.
        origins: For each chosen node of the graph its position among the candidates.
    """

    graph: Graph
    origins: Mapping[int, int]


def build_form(candidates: Candidates, form: Form, original: Graph) -> BuiltForm:
    """Return a form as a graph."""
    builder = GraphBuilder(original.name)
    chosen = {value.node for value in form.choice.values()}
    order = _ordered(candidates, form.choice, chosen)
    moved: dict[Value, Value] = {}
    inputs = [node for node in original.nodes if isinstance(node.op, Input)]
    for node in inputs:
        with builder.at(node.location):
            builder.leaf(node.op)
    for position in order:
        node = candidates.nodes[position]
        operands = tuple(moved[form.choice[value]] for value in node.operands)
        with builder.at(node.location):
            if isinstance(node.op, Input):
                results = (builder.leaf(node.op),)
            else:
                results = builder.add_multi(node.op, *operands)
        moved.update((Value(position, i), result) for i, result in enumerate(results))
    graph = builder.build(*(moved[form.choice[value]] for value in candidates.outputs))
    return BuiltForm(graph, {new.node: old.node for old, new in moved.items()})


def _ordered(candidates: Candidates, choice: Choice, chosen: set[int]) -> list[int]:
    """Return the chosen nodes after what they read, else by age."""
    done: dict[int, None] = {}
    for start in sorted(chosen):
        pending = [start]
        while pending:
            position = pending[-1]
            missing = [
                choice[value].node
                for value in candidates.nodes[position].operands
                if choice[value].node not in done
            ]
            if missing:
                pending += reversed(missing)
            else:
                done.setdefault(pending.pop())
    return list(done)


@dataclass(frozen=True, slots=True)
class _Best:
    total: _Total
    value: Value
    below: int
    """Nodes of the form that makes it, as a set of bits."""


class _Extraction:
    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._home = {value: each for each, made in candidates.makers.items() for value in made}
        self._order = sorted(self._home)
        self._siblings: dict[Value, int] = {
            each: sum(1 << node for node in {value.node for value in made})
            for each, made in candidates.makers.items()
        }
        self._views: dict[Value, list[Value]] = {}
        for value in self._order:
            operands = candidates.nodes[value.node].operands
            if len(operands) == 1 and not candidates.femtoseconds[value.node]:
                self._views.setdefault(operands[0], []).append(value)
        self.alone = self.choose()
        """For every class the form that is cheapest for itself."""

    def form(self, choice: Choice) -> Form | None:
        """Return what the outputs need of a choice, or None if it is no form."""
        nodes = self._candidates.nodes
        state: dict[Value, bool] = {}
        pending: list[tuple[Value, bool]] = [(each, False) for each in self._candidates.outputs]
        while pending:
            each, after = pending.pop()
            if after:
                state[each] = True
                continue
            if each in state:
                if not state[each]:
                    return None  # it would be computed from itself
                continue
            if each not in choice or choice[each].node not in self._candidates.femtoseconds:
                return None
            state[each] = False
            pending.append((each, True))
            pending += [(value, False) for value in nodes[choice[each].node].operands]
        used = {each: choice[each] for each in state}
        chosen = {value.node for value in used.values()}
        cost = sum(self._candidates.femtoseconds[position] for position in chosen)
        return Form(used, cost, len(chosen))

    def choose(self) -> Choice:
        """Return the choice found bottom-up."""
        best: dict[Value, _Best] = {}
        totals: dict[int, _Total] = {}
        changed = True
        while changed:
            changed = False
            for value in self._order:
                made = self._best_of(value, best, totals)
                each = self._home[value]
                if made is not None and (each not in best or made.total < best[each].total):
                    best[each] = made
                    changed = True
        return {each: made.value for each, made in best.items()}

    def _best_of(
        self,
        value: Value,
        best: Mapping[Value, _Best],
        totals: dict[int, _Total],
    ) -> _Best | None:
        below = 1 << value.node
        for operand in self._candidates.nodes[value.node].operands:
            made = best.get(operand)
            if made is None:
                return None
            below |= made.below
        own = self._siblings[self._home[value]] & ~(1 << value.node)
        if below & own:
            return None  # another node of the same class: it would be computed from itself
        if below not in totals:
            totals[below] = self._total(below)
        return _Best(totals[below], value, below)

    def _total(self, nodes: int) -> _Total:
        cost = count = 0
        rest = nodes
        while rest:
            low = rest & -rest
            cost += self._candidates.femtoseconds[low.bit_length() - 1]
            count += 1
            rest ^= low
        return cost, count

    def improve(self, form: Form) -> Form:
        """Return a form that no single move improves."""
        while True:
            better = next((other for other in self._moves(form) if other.total < form.total), None)
            if better is None:
                return form
            form = better

    def _moves(self, form: Form) -> Iterator[Form]:
        """Yield the neighbours of a form: the change of one class, or of all that a node serves."""
        choice = {**self.alone, **form.choice}
        chosen = {value.node for value in form.choice.values()}
        for value in self._order:
            if value.node in chosen:
                continue
            changed = {self._home[value]: value}
            if self._candidates.femtoseconds[value.node]:
                changed = self._served(value, form.choice)
            if any(each in form.choice for each in changed):
                other = self.form({**choice, **changed})
                if other is not None:
                    yield other

    def _served(self, value: Value, wanted: Choice) -> Choice:
        """Return how to make classes of a form from a value and free views of it."""
        made = {self._home[value]: value}
        pending = [self._home[value]]
        while pending:
            for view in self._views.get(pending.pop(), ()):
                each = self._home[view]
                if each not in made:
                    made[each] = view
                    pending.append(each)
        return {each: each_value for each, each_value in made.items() if each in wanted} | {
            self._home[value]: value
        }
