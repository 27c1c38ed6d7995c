"""The e-graph in egglog: terms, congruence and e-matching.

Every value has the term ``(node n)``, where ``n`` numbers it, and every class the smallest number
of its values, ``(num term)``. Matches come back as rows of numbers; Python judges them.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Node, Value
from ascendfx.ir.op import Op
from ascendfx.passes.search.compile_pattern import (
    Query,
    constructor_of,
    constructors_of,
    declarations,
)

_RESULTS = 64
"""More than any operation has: numbers a result by ``node * _RESULTS + result``."""

_PRELUDE = """
(sort V)
(function num (V) i64 :merge (min old new))
(function node (i64) V :no-merge)
(ruleset match)
(ruleset forget)
"""


def load_egglog() -> ModuleType:
    """Return the bindings of egglog, which only a search needs.

    Raises:
        GraphError: egglog is not installed.
    """
    try:
        from egglog import bindings  # noqa: PLC0415  # an extra; imported by who searches
    except ImportError as error:
        raise GraphError(
            code="missing-egglog",
            reason="the search for the cheapest form needs egglog, which is not installed",
            hint="pip install 'ascendfx[compile]', or compile with strategy=\"ordered\"",
        ) from error
    return bindings


class EgglogMatcher:
    """Finds all places of patterns, up to equality."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._egraph: Any = load_egglog().EGraph()
        self._queries = queries
        self._asleep = dict(enumerate(queries))
        """Queries with an operation that no node has yet: egglog need not compile them."""
        self._constructors: set[str] = set()
        self._ops: dict[Op, int] = {}
        self._by_number: list[Op] = []
        self._execute([_PRELUDE])

    def add(self, nodes: Iterable[tuple[int, Node]]) -> None:
        """Add nodes with their positions; operands must have been added before."""
        text: list[str] = []
        for position, node in nodes:
            name = constructor_of(node.op, len(node.operands))
            text += self._declare(name, len(node.operands))
            read = " ".join(_term(value) for value in node.operands)
            for result in range(len(node.types)):
                number = _number(Value(position, result))
                term = f"({name} {self._number_of(node.op)} {result} {read})"
                text += [f"(set (node {number}) {term})", f"(set (num {term}) {number})"]
        self._execute(text + self._woken())

    def _woken(self) -> list[str]:
        """Return the declarations of queries that could match from now on."""
        ready = [
            i
            for i, query in self._asleep.items()
            if constructors_of(query.pattern) <= self._constructors
        ]
        return [line for i in ready for line in declarations(self._asleep.pop(i))]

    def equate(self, pairs: Iterable[tuple[Value, Value]]) -> None:
        """Declare values equal."""
        self._execute([f"(union {_term(left)} {_term(right)})" for left, right in pairs])

    def run(self) -> None:
        """Restore congruence, then find the places that were not there before."""
        self._execute(["(run match 1)"])

    def read(self) -> tuple[dict[Value, Value], list[list[tuple[int, ...]]]]:
        """Return which value stands for each value, and the new rows of each query in order."""
        frozen = self._egraph.freeze()
        integer = self._egraph.value_to_i64
        smallest = {row.inputs[0]: integer(row.output) for row in frozen.functions["num"].rows}
        canonical = {
            value_of(integer(row.inputs[0])): value_of(smallest[row.output])
            for row in frozen.functions["node"].rows
        }
        found = [
            sorted(
                tuple(integer(each) for each in row.inputs)
                for row in frozen.functions[query.relation].rows
            )
            if i not in self._asleep
            else []
            for i, query in enumerate(self._queries)
        ]
        self._execute(["(run forget 1)"])
        return canonical, found

    def op_of(self, number: int) -> Op:
        """Return the operation with a number."""
        return self._by_number[number]

    def _number_of(self, op: Op) -> int:
        if op not in self._ops:
            self._ops[op] = len(self._ops)
            self._by_number.append(op)
        return self._ops[op]

    def _declare(self, name: str, operands: int) -> list[str]:
        if name in self._constructors:
            return []
        self._constructors.add(name)
        return [f"(constructor {name} (i64 i64{' V' * operands}) V)"]

    def _execute(self, text: Sequence[str]) -> None:
        if text:
            self._egraph.run_program(*self._egraph.parse_program("\n".join(text)))


def value_of(number: int) -> Value:
    """Return the value with a number."""
    return Value(*divmod(number, _RESULTS))


def columns_of(query: Query, row: Mapping[int, int] | Sequence[int]) -> Mapping[Value, Value]:
    """Return, for each value of a pattern, the class it was found at."""
    return {value: value_of(row[i]) for i, value in enumerate(query.classes)}


def _number(value: Value) -> int:
    return value.node * _RESULTS + value.result


def _term(value: Value) -> str:
    return f"(node {_number(value)})"
