"""Leave out a choice whose alternatives are one value."""

from collections.abc import Callable
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import LogicalAnd, LogicalOr, Maximum, Minimum, Relu, Select
from ascendfx.ir.tensor_type import broadcast
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling


def _itself(b: GraphBuilder, h: Any, x: Value, *others: Value) -> Value:
    return x


def _selected(b: SideBuilder, h: Any, x: Value, condition: Value) -> Value:
    return b.add(Select(), condition, x, x)


def _condition_does_not_widen(site: Site) -> bool:
    shape = site.type_of("x").shape
    return broadcast(shape, site.type_of("condition").shape) == shape


SELECT = Rule(
    name="select-of-equal",
    identity="x where c else x  =  x",
    source="definition",
    operands={"x": "*", "condition": "bool: *"},
    spellings=(Spelling(_selected),),
    rhs=_itself,
    fidelity=Fidelity.BITWISE,
    holes=lambda _: {"two": 2},
    below={"condition": "two"},
    proof=Proof.EXHAUSTIVE,
    when=(
        Precondition(
            "condition-widens",
            _condition_does_not_widen,
            "the condition has axes that the value lacks",
        ),
    ),
)


def _rule(name: str, lhs: Callable[..., Value], operands: str, proof: Proof) -> Rule:
    return Rule(
        name=name,
        identity="f(x, x)  =  x, f idempotent",
        source="definition",
        operands={"x": operands},
        spellings=(Spelling(lhs),),
        rhs=_itself,
        fidelity=Fidelity.BITWISE,
        holes=lambda _: {"two": 2},
        below={"x": "two"} if proof is Proof.EXHAUSTIVE else {},
        proof=proof,
    )


def _maximum(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Maximum(), x, x)


def _minimum(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Minimum(), x, x)


def _and(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(LogicalAnd(), x, x)


def _or(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(LogicalOr(), x, x)


IDEMPOTENT: tuple[Rule, ...] = (
    _rule("maximum-of-equal", _maximum, "* k", Proof.SYMBOLIC),
    _rule("minimum-of-equal", _minimum, "* k", Proof.SYMBOLIC),
    _rule("and-of-equal", _and, "bool: * k", Proof.EXHAUSTIVE),
    _rule("or-of-equal", _or, "bool: * k", Proof.EXHAUSTIVE),
)


def _twice(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Relu(), b.add(Relu(), x))


def _once(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Relu(), x)


RELU_TWICE = Rule(
    name="relu-twice",
    identity="relu(relu(x))  =  relu(x)",
    source="definition",
    operands={"x": "* k"},
    spellings=(Spelling(_twice),),
    rhs=_once,
    fidelity=Fidelity.BITWISE,
    proof=Proof.CASES,
)
