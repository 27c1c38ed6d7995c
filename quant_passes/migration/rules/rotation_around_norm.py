"""Rotations keep lengths: they pass a norm without gain, and what turns back cancels."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Concat,
    Constant,
    Expand,
    Linear,
    Matmul,
    Multiply,
    RmsNorm,
    Slice,
    Transpose,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rotation_parameter import is_rotation
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _is_rotation(site: Site) -> bool:
    return is_rotation(site.graph, site.bound["r"])


_ROTATION = Precondition("not-a-rotation", _is_rotation, "the matrix is not known to be orthogonal")


def _unit(b: SideBuilder, h: Any) -> Value:
    return b.add(Expand((h.k,)), b.add(Constant(1.0, h.format)))


def _norm_lhs(b: SideBuilder, h: Any, x: Value, r: Value) -> Value:
    return b.add(RmsNorm(h.eps), b.add(Linear(), x, r), _unit(b, h))


def _norm_rhs(b: GraphBuilder, h: Any, x: Value, r: Value) -> Value:
    return b.add(Linear(), b.add(RmsNorm(h.eps), x, _unit(b, h)), r)


NORM = Rule(
    name="rotation-past-norm",
    identity="norm(x Rᵀ; 1)  =  norm(x; 1) Rᵀ, R orthogonal",
    source="|x Rᵀ| = |x|; Ashkboos et al., SliceGPT, arXiv 2401.15024, equation 2",
    operands={"x": "format: * k", "r": "format: k k"},
    spellings=(Spelling(_norm_lhs),),
    rhs=_norm_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"eps": 1e-5, "format": DType.F32},
    orthogonal={"r": "not-a-rotation"},
    when=(_ROTATION,),
)


def _back_lhs(b: SideBuilder, h: Any, x: Value, r: Value) -> Value:
    back = b.add(Transpose((1, 0)), r)
    return b.add(Linear(), b.add(Linear(), x, back), r)


def _cancel_rhs(b: GraphBuilder, h: Any, x: Value, r: Value) -> Value:
    return x


CANCEL = Rule(
    name="cancel-rotation",
    identity="(x R) Rᵀ  =  x, R orthogonal",
    source="definition of an orthogonal matrix",
    operands={"x": "* k", "r": "k k"},
    spellings=(Spelling(_back_lhs),),
    rhs=_cancel_rhs,
    fidelity=Fidelity.REAL,
    orthogonal={"r": "not-a-rotation"},
    when=(_ROTATION,),
)


def _joined_lhs(b: SideBuilder, h: Any, x: Value, y: Value, r: Value, w: Value) -> Value:
    rotated = (b.add(Linear(), each, r) for each in (x, y))
    return b.add(Linear(), b.add(Concat(h.last), *rotated), w)


def _joined_rhs(b: GraphBuilder, h: Any, x: Value, y: Value, r: Value, w: Value) -> Value:
    halves = (b.add(Slice(1, start, start + h.k), w) for start in (0, h.k))
    columns = (b.add(Matmul(), each, r) for each in halves)
    return b.add(Linear(), b.add(Concat(h.last), x, y), b.add(Concat(1), *columns))


JOINED = Rule(
    name="rotation-into-columns-of-joined",
    identity="[x Rᵀ | y Rᵀ] Wᵀ  =  [x | y] (W blockdiag(R, R))ᵀ",
    source="product of block matrices; eh_proj of draft layers",
    operands={"x": "* j", "y": "* j", "r": "k j", "w": "n 2*k"},
    spellings=(Spelling(_joined_lhs),),
    rhs=_joined_rhs,
    fidelity=Fidelity.REAL,
)


def _joined_scale_lhs(b: SideBuilder, h: Any, *operands: Value) -> Value:
    x, y, s, t, w = operands
    scaled = (b.add(Multiply(), *pair) for pair in ((x, s), (y, t)))
    return b.add(Linear(), b.add(Concat(h.last), *scaled), w)


def _joined_scale_rhs(b: GraphBuilder, h: Any, *operands: Value) -> Value:
    x, y, s, t, w = operands
    both = b.add(Concat(0), s, t)
    return b.add(Linear(), b.add(Concat(h.last), x, y), b.add(Multiply(), w, both))


JOINED_SCALES = Rule(
    name="channel-scale-into-joined",
    identity="[x diag(s) | y diag(t)] Wᵀ  =  [x | y] (W diag(s, t))ᵀ",
    source="product of block matrices; gains of both norms before eh_proj",
    operands={"x": "* j", "y": "* k", "s": "j", "t": "k", "w": "n j+k"},
    spellings=(Spelling(_joined_scale_lhs),),
    rhs=_joined_scale_rhs,
    fidelity=Fidelity.REAL,
)
