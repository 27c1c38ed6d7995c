"""A recorded left side as a query of egglog."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from ascendfx.ir.graph import Value
from ascendfx.ir.op import Op
from ascendfx.passes.pattern import COMMUTATIVE, Pattern


@dataclass(frozen=True, slots=True)
class Query:
    """A pattern and the relation in which egglog writes where it was found.

    Attributes:
        pattern: The left side.
        relation: Its name.
        classes: Values of the pattern, operands first: one column each, the number of a class.
        ops: Positions of the operations of the pattern: one column each, the number of an `Op`.
    """

    pattern: Pattern
    relation: str
    classes: tuple[Value, ...]
    ops: tuple[int, ...]


def query_of(pattern: Pattern, relation: str) -> Query:
    """Return the columns of a pattern."""
    operands = [Value(i) for i, node in enumerate(pattern.nodes) if isinstance(node.op, str)]
    ops = [i for i, node in enumerate(pattern.nodes) if not isinstance(node.op, str)]
    used = {value for node in pattern.nodes for value in node.operands} | set(pattern.outputs)
    results = [value for value in sorted(used) if value.node in set(ops)]
    return Query(pattern, relation, (*operands, *results), tuple(ops))


def constructor_of(op: Op, operands: int) -> str:
    """Return the name of the terms of an operation: number of the op, of the result, operands."""
    return f"{op.mnemonic}_{operands}"


def constructors_of(pattern: Pattern) -> frozenset[str]:
    """Return the constructors that a match of a pattern consists of."""
    return frozenset(
        constructor_of(node.op, len(node.operands))
        for node in pattern.nodes
        if not isinstance(node.op, str)
    )


def declarations(query: Query) -> Iterator[str]:
    """Yield the relation, and rules: one per order of the operands of commutative operations."""
    columns = " ".join(["i64"] * (len(query.classes) + len(query.ops)))
    yield f"(relation {query.relation} ({columns}))"
    row = " ".join(f"c{i}" for i in range(len(query.classes) + len(query.ops)))
    fact = f"({query.relation} {row})"
    yield f"(rule ({fact}) ((delete {fact})) :ruleset forget)"
    pattern = query.pattern
    orders = [
        (False, True) if isinstance(pattern.nodes[i].op, COMMUTATIVE) else (False,)
        for i in query.ops
    ]
    turns = (dict(zip(query.ops, turned, strict=True)) for turned in product(*orders))
    yield from dict.fromkeys(_rule(query, each) for each in turns)  # x * x has one order


def _rule(query: Query, turned: Mapping[int, bool]) -> str:
    facts: list[str] = []
    for value in query.classes:
        node = query.pattern.nodes[value.node]
        if not isinstance(node.op, str):
            operands = node.operands[::-1] if turned[value.node] else node.operands
            name = constructor_of(node.op, len(operands))
            read = " ".join(_variable(each) for each in operands)
            facts.append(f"(= {_variable(value)} ({name} a{value.node} {value.result} {read}))")
        facts.append(f"(= n{_variable(value)} (num {_variable(value)}))")
    found = [f"n{_variable(value)}" for value in query.classes] + [f"a{i}" for i in query.ops]
    return f"(rule ({' '.join(facts)}) (({query.relation} {' '.join(found)})) :ruleset match)"


def _variable(value: Value) -> str:
    return f"v{value.node}_{value.result}"
