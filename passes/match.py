"""Find the left side of a rule in a graph."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import Constant, GroupedLinear, Linear
from ascendfx.ir.size import named_size, names_in, substitute_size
from ascendfx.passes.pattern import COMMUTATIVE, Pattern
from ascendfx.passes.rule import Site

_ROLES = {("power", 1): "the exponent", ("add", 1): "the addend", ("multiply", 1): "the factor"}


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a pattern does not fit.

    Attributes:
        matched: How many operations had fitted before.
        reason: What differs.
        position: The node that differs.
    """

    matched: int
    reason: str
    position: int


def match_at(pattern: Pattern, graph: Graph, root: Value) -> Site | Miss:
    """Return the site rooted at ``root``, or the attempt that went furthest."""
    attempt = _Attempt(pattern, graph)
    for found in attempt.solve(((pattern.outputs[0], root, "", 0),), _Found({}, {}, {}, ())):
        for whole in attempt.with_siblings(found):
            site = attempt.finish(whole)
            if isinstance(site, Site):
                return site
            attempt.note(site)
    return attempt.best


def site_of(pattern: Pattern, graph: Graph, have: Mapping[Value, Value]) -> Site | Miss:
    """Return the site where each value of the pattern is the given value of the graph.

    For a matcher of its own, over classes of equal values: what a matched node reads is not
    compared, as an equal value may stand for it.

    Args:
        pattern: A left side.
        graph: Contains every value.
        have: Every operand of the pattern and every result it uses, operands first.
    """
    return _Attempt(pattern, graph).given(have)


@dataclass(frozen=True, slots=True)
class _Found:
    nodes: Mapping[int, int]
    bound: Mapping[str, Value]
    holes: Mapping[str, Any]
    deferred: tuple[tuple[str, Any, Any, int], ...]


_Goal = tuple[Value, Value, str, int]
"""Wanted pattern value, actual value, mnemonic of the reader and the place among its operands."""


class _Attempt:
    def __init__(self, pattern: Pattern, graph: Graph) -> None:
        self._pattern = pattern
        self._graph = graph
        self.best = Miss(-1, "", 0)

    def note(self, miss: Miss) -> None:
        if miss.matched > self.best.matched:
            self.best = miss

    def solve(self, goals: tuple[_Goal, ...], found: _Found) -> Iterator[_Found]:
        """Yield every way to meet all goals."""
        if not goals:
            yield found
            return
        (wanted, have, reader, place), *rest = goals
        node = self._pattern.nodes[wanted.node]
        after = (
            self._operand(node.op, have, found)
            if isinstance(node.op, str)
            else self._node(node.op, wanted, have, found, (reader, place))
        )
        if isinstance(after, str):
            self.note(Miss(len(found.nodes), after, have.node))
            return
        if isinstance(node.op, str) or wanted.node in found.nodes:
            yield from self.solve(tuple(rest), after)
            return
        actual = self._graph.nodes[have.node].operands
        orders = [node.operands]
        if isinstance(node.op, COMMUTATIVE):
            orders.append(node.operands[::-1])
        for order in orders:
            more = tuple(
                (w, h, node.op.mnemonic, i)
                for i, (w, h) in enumerate(zip(order, actual, strict=True))
            )
            yield from self.solve((*more, *rest), after)

    def given(self, have: Mapping[Value, Value]) -> Site | Miss:
        """Check attributes, axes and conditions where the place of everything is known."""
        found = _Found({}, {}, {}, ())
        for wanted, value in have.items():
            op = self._pattern.nodes[wanted.node].op
            after = (
                self._operand(op, value, found)
                if isinstance(op, str)
                else self._node(op, wanted, value, found, ("", 0))
            )
            if isinstance(after, str):
                return Miss(len(found.nodes), after, value.node)
            found = after
        return self.finish(found)

    def with_siblings(self, found: _Found) -> Iterator[_Found]:
        """Yield every way to meet the results that are no operands of the first one.

        Such a result is looked for among the readers of what it shares with the others.
        """
        wanted = next((v for v in self._pattern.outputs if v.node not in found.nodes), None)
        if wanted is None:
            yield found
            return
        for position in self._readers(wanted, found):
            for after in self.solve(((wanted, Value(position, wanted.result), "", 0),), found):
                yield from self.with_siblings(after)

    def _readers(self, wanted: Value, found: _Found) -> list[int]:
        shared: list[Value] = []
        for each in self._pattern.nodes[wanted.node].operands:
            op = self._pattern.nodes[each.node].op
            if isinstance(op, str) and op in found.bound:
                shared.append(found.bound[op])
            elif each.node in found.nodes:
                shared.append(Value(found.nodes[each.node], each.result))
        readers = {position for value in shared for position in self._graph.uses.get(value, ())}
        return sorted(readers - set(found.nodes.values()))

    def _operand(self, name: str, have: Value, found: _Found) -> _Found | str:
        if name in found.bound:
            same = found.bound[name] == have
            return found if same else f"operand `{name}` would be two different values"
        form, kind = self._pattern.forms[name], self._graph.type_of(have)
        if kind.rank < len(form.axes) or (kind.rank > len(form.axes) and not form.rest):
            return f"operand `{name}` has {kind.rank} axes, not {len(form.axes)}"
        pairs: list[tuple[str, Any, Any]] = [
            (f"axis of `{name}`", want, size)
            for want, size in zip(form.axes, kind.shape[kind.rank - len(form.axes) :], strict=True)
        ]
        if form.format is not None:
            hole = named_size(form.format) if isinstance(form.format, str) else form.format
            pairs.append((f"format of `{name}`", hole, kind.dtype))
        first = name == next(iter(self._pattern.forms))
        last = named_size("last" if first else f"last_{name}")
        pairs.append((f"last axis of `{name}`", last, kind.rank - 1))
        after = self._unify(pairs, found, have.node)
        return (
            after if isinstance(after, str) else replace(after, bound={**found.bound, name: have})
        )

    def _node(
        self, op: Op, wanted: Value, have: Value, found: _Found, read: tuple[str, int]
    ) -> _Found | str:
        if wanted.result != have.result:
            return f"result {have.result} is used, not {wanted.result}"
        if wanted.node in found.nodes:
            same = found.nodes[wanted.node] == have.node
            return found if same else f"two different {op.mnemonic} where one is expected"
        actual = self._graph.nodes[have.node]
        if type(actual.op) is not type(op):
            return f"{actual.op.mnemonic} stands where {op.mnemonic} is expected"
        if isinstance(op, Linear | GroupedLinear) and self._multiplies_codes(actual):
            return f"{op.mnemonic} multiplies codes: rules are proved for products of one format"
        if len(actual.operands) != len(self._pattern.nodes[wanted.node].operands):
            return f"{op.mnemonic} has {len(actual.operands)} operands"
        subject = _subject(op, read)
        pairs = [
            (subject(each.name), getattr(op, each.name), getattr(actual.op, each.name))
            for each in dataclasses.fields(op)
        ]
        after = self._unify(pairs, found, have.node)
        if isinstance(after, str):
            return after
        return replace(after, nodes={**found.nodes, wanted.node: have.node})

    def _multiplies_codes(self, node: Node) -> bool:
        """Return whether sums have another format than what is multiplied; see `projection`."""
        return node.types[0].dtype is not self._graph.type_of(node.operands[0]).dtype

    def _unify(
        self, pairs: list[tuple[str, Any, Any]], found: _Found, position: int
    ) -> _Found | str:
        holes = dict(found.holes)
        deferred = list(found.deferred)
        for subject, want, have in pairs:
            for part, actual in _parts(want, have):
                reason = _bind(subject, part, actual, holes)
                if reason is None:
                    deferred.append((subject, part, actual, position))
                elif reason:
                    return reason
        return replace(found, holes=holes, deferred=tuple(deferred))

    def finish(self, found: _Found) -> Site | Miss:
        """Check what had to wait for all holes, then the preconditions."""
        holes = {**self._pattern.spelling.fixed, **found.holes}
        count, root = len(found.nodes), found.nodes[self._pattern.outputs[0].node]
        for subject, want, have, position in found.deferred:
            if reason := _bind(subject, want, have, holes):
                return Miss(count, reason, position)
        if reason := _too_small(self._pattern, holes):
            return Miss(self._pattern.size, reason, root)
        outputs = tuple(Value(found.nodes[v.node], v.result) for v in self._pattern.outputs)
        interior = frozenset(found.nodes.values())
        site = Site(self._graph, found.bound, holes, interior, outputs)
        site = replace(site, holes={**holes, **self._pattern.rule.derive(site)})
        for condition in self._pattern.rule.when:
            if not condition.holds(site):
                return Miss(self._pattern.size, condition.otherwise, root)
        return site


def _too_small(pattern: Pattern, holes: Mapping[str, Any]) -> str:
    """Return which axis has no elements; named sizes are positive."""
    letters = {n for form in pattern.forms.values() for axis in form.axes for n in names_in(axis)}
    for letter in sorted(letters & holes.keys()):
        if isinstance(holes[letter], int) and holes[letter] < 1:
            return f"the axis `{letter}` has no elements, of which the rule says nothing"
    return ""


def _subject(op: Op, read: tuple[str, int]) -> Any:
    if isinstance(op, Constant):
        role = _ROLES.get(read, f"operand {read[1]} of {read[0]}")
        return lambda name: role if name == "value" else f"{name} of {role}"
    return lambda name: f"{name} of {op.mnemonic}"


def _parts(want: Any, have: Any) -> list[tuple[Any, Any]]:
    if isinstance(want, tuple) and isinstance(have, tuple) and len(want) == len(have):  # pyright: ignore[reportUnknownArgumentType]
        return [pair for w, h in zip(want, have, strict=True) for pair in _parts(w, h)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return [(want, have)]


def _bind(subject: str, want: Any, have: Any, holes: dict[str, Any]) -> str | None:
    """Return "" if equal, None if a hole is still open, else the difference."""
    if isinstance(want, sympy.Symbol):
        expected = holes.setdefault(want.name, have)
    elif isinstance(want, sympy.Expr):
        names = names_in(want)
        if not names <= holes.keys():
            return None
        expected = substitute_size(want, {name: holes[name] for name in names})
    else:
        expected = want
    if expected != have:
        return f"{subject} is {_shown(have)}, not {_shown(expected)}"
    return ""


def _shown(value: Any) -> str:
    return str(getattr(value, "value", value))
