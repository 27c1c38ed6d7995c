"""Recognise the sigmoid, what is gated by itself, and the rectifier."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Add,
    Constant,
    Divide,
    Exp,
    Maximum,
    Multiply,
    Negate,
    Power,
    Reciprocal,
    Relu,
    Sigmoid,
    Silu,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling


def _shifted(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Add(), b.add(Exp(), b.add(Negate(), x)), b.add(Constant(1.0, h.format)))


def _reciprocal(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Reciprocal(), _shifted(b, h, x))


def _quotient(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Divide(), b.add(Constant(1.0, h.format)), _shifted(b, h, x))


def _sigmoid(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Sigmoid(), x)


SIGMOID = Rule(
    name="sigmoid-of-exponential",
    identity="1 / (1 + e^-x)  =  sigmoid(x)",
    source="definition",
    operands={"x": "format: * k"},
    spellings=(Spelling(_reciprocal), Spelling(_quotient)),
    rhs=_sigmoid,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"format": DType.F32},
)


def _gated(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Multiply(), x, b.add(Sigmoid(), x))


def _divided(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Divide(), x, _shifted(b, h, x))


def _silu(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Silu(), x)


SILU = Rule(
    name="silu-of-sigmoid",
    identity="x · sigmoid(x)  =  silu(x)",
    source="definition; Ramachandran et al., arXiv 1710.05941, eq. 1",
    operands={"x": "format: * k"},
    spellings=(Spelling(_gated), Spelling(_divided)),
    rhs=_silu,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"format": DType.F32},
)


def _positive_part(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Maximum(), x, b.add(Constant(h.zero, h.format)))


def _relu(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Relu(), x)


def _is_zero(site: Site) -> bool:
    return site.holes["zero"] == 0


RELU = Rule(
    name="maximum-with-zero",
    identity="max(x, 0)  =  relu(x)",
    source="definition",
    operands={"x": "format: * k"},
    spellings=(Spelling(_positive_part),),
    rhs=_relu,
    fidelity=Fidelity.BITWISE,
    holes=lambda _: {"format": DType.F32, "zero": 0.0},
    proof=Proof.CASES,
    when=(Precondition("another-bound", _is_zero, "the bound is not zero, below which relu cuts"),),
)


def _squared(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Power(), x, b.add(Constant(2.0, h.format)))


def _product(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Multiply(), x, x)


SQUARE = Rule(
    name="square-as-product",
    identity="x²  =  x · x",
    source="definition",
    operands={"x": "format: * k"},
    spellings=(Spelling(_squared),),
    rhs=_product,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"format": DType.F32},
)
