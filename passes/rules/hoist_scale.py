"""Scale the result of a homogeneous operation instead of its operand."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import (
    Concat,
    GatherRows,
    GroupedLinear,
    HeadLinear,
    Linear,
    Matmul,
    Multiply,
    RaggedAttention,
    ReduceSum,
    Reshape,
    Rotary,
    Slice,
    Swiglu,
    Transpose,
)
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Spelling

HomogeneousFunction = Callable[..., Value]
"""``function(builder, holes, x, *others)``: what scales x, scales its result."""


def _lhs(
    b: SideBuilder, h: Any, x: Value, scale: Value, *others: Value, function: HomogeneousFunction
) -> Value:
    return function(b, h, b.add(Multiply(), x, scale), *others)


def _rhs(
    b: SideBuilder, h: Any, x: Value, scale: Value, *others: Value, function: HomogeneousFunction
) -> Value:
    return b.add(Multiply(), function(b, h, x, *others), scale)


def hoisting_rule(
    name: str,
    function: HomogeneousFunction,
    operands: Mapping[str, str],
    *,
    identity: str,
    source: str,
    holes: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {},
    below: Mapping[str, str] | None = None,
    when: tuple[Precondition, ...] = (),
) -> Rule:
    """Return the rule ``function(x · scale, others)  =  function(x, others) · scale``.

    Args:
        name: Of the rule.
        function: What it is about.
        operands: ``x``, ``scale``, and what else the function reads.
        identity: As in `Rule`.
        source: As in `Rule`.
        holes: As in `Rule`.
        below: As in `Rule`.
        when: Under which conditions.
    """
    return Rule(
        name=name,
        identity=identity,
        source=source,
        operands=operands,
        spellings=(Spelling(partial(_lhs, function=function)),),
        rhs=partial(_rhs, function=function),
        fidelity=Fidelity.REAL,
        holes=holes,
        below=below or {},
        proof=Proof.EXHAUSTIVE if below else Proof.SYMBOLIC,
        when=when,
    )


def _rule(
    name: str,
    function: HomogeneousFunction,
    x: str,
    *,
    others: Mapping[str, str] | None = None,
    holes: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {},
    below: Mapping[str, str] | None = None,
) -> Rule:
    return hoisting_rule(
        f"hoist-scale-from-{name}",
        function,
        {"x": x, "scale": "", **(others or {})},
        identity="f(s · x)  =  s · f(x), f homogeneous and s one number",
        source="definition of a homogeneous function",
        holes=holes,
        below=below,
    )


def _attention(b: SideBuilder, h: Any, v: Value, *others: Value) -> Value:
    q, k, positions, row_request = others
    return b.add(RaggedAttention(1, h.factor), q, k, v, positions, row_request)


LINEAR = _rule("linear", lambda b, h, x, w: b.add(Linear(), x, w), "* k", others={"w": "n k"})
LINEAR_WEIGHT = _rule(
    "linear-weight", lambda b, h, w, x: b.add(Linear(), x, w), "n k", others={"y": "* k"}
)
MATMUL = _rule("matmul", lambda b, h, x, c: b.add(Matmul(), x, c), "* m k", others={"c": "* k n"})
MATMUL_RIGHT = _rule(
    "matmul-right", lambda b, h, x, a: b.add(Matmul(), a, x), "* k n", others={"a": "* m k"}
)
HEAD_LINEAR = _rule(
    "head-linear", lambda b, h, x, w: b.add(HeadLinear(), x, w), "* g k", others={"w": "h n k"}
)
GROUPED_LINEAR = _rule(
    "grouped-linear",
    lambda b, h, x, w, ends: b.add(GroupedLinear(), x, w, ends),
    "p k",
    others={"w": "e n k", "ends": "i32: e"},
    below={"ends": "p"},
)
ROTARY = _rule(
    "rotary",
    lambda b, h, x, cos, sin: b.add(
        Rotary(interleaved_in=h.taken, interleaved_out=h.left), x, cos, sin
    ),
    "* 2*n",
    others={"cos": "* n", "sin": "* n"},
    holes=lambda _: {"taken": True, "left": False},
)
SWIGLU = _rule(
    "swiglu", lambda b, h, up, gate: b.add(Swiglu(), gate, up), "* k", others={"gate": "* k"}
)
ATTENTION = _rule(
    "attention-values",
    _attention,
    "b s g e",
    others={
        "q": "r h d",
        "k": "b s f d",
        "positions": "i32: r",
        "row_request": "i32: r",
    },
    holes=lambda _: {"factor": 0.5},
    below={"positions": "s", "row_request": "b"},
)
REDUCE_SUM = _rule(
    "reduce-sum",
    lambda b, h, x: b.add(ReduceSum(h.axes, h.keep), x),
    "* k",
    holes=lambda sizes: {"axes": (len(sizes["lead"]),), "keep": False},
)
RESHAPE = _rule(
    "reshape",
    lambda b, h, x: b.add(Reshape(h.shape), x),
    "* k n",
    holes=lambda sizes: {"shape": (*sizes["lead"], sizes["k"] * sizes["n"])},
)
TRANSPOSE = _rule(
    "transpose",
    lambda b, h, x: b.add(Transpose(h.permutation), x),
    "* k n",
    holes=lambda sizes: {
        "permutation": (*range(len(sizes["lead"])), len(sizes["lead"]) + 1, len(sizes["lead"]))
    },
)
SLICE = _rule(
    "slice",
    lambda b, h, x: b.add(Slice(h.axis, h.start, h.stop, h.step), x),
    "* k",
    holes=lambda sizes: {
        "axis": len(sizes["lead"]),
        "start": sizes["k"] // 2,
        "stop": sizes["k"],
        "step": 1,
    },
)
GATHER = _rule(
    "gather",
    lambda b, h, x, ids: b.add(GatherRows(), x, ids),
    "n k",
    others={"ids": "i32: m"},
    below={"ids": "n"},
)


def _concat_lhs(b: SideBuilder, h: Any, x: Value, y: Value, scale: Value) -> Value:
    scaled = (b.add(Multiply(), each, scale) for each in (x, y))
    return b.add(Concat(h.axis), *scaled)


def _concat_rhs(b: SideBuilder, h: Any, x: Value, y: Value, scale: Value) -> Value:
    return b.add(Multiply(), b.add(Concat(h.axis), x, y), scale)


CONCAT = Rule(
    name="hoist-scale-from-concat",
    identity="[s · x | s · y]  =  s · [x|y]",
    source="definition of a homogeneous function",
    operands={"x": "* k", "y": "* n", "scale": ""},
    spellings=(Spelling(_concat_lhs),),
    rhs=_concat_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"axis": len(sizes["lead"])},
)

RULES: tuple[Rule, ...] = (
    ATTENTION,
    CONCAT,
    GATHER,
    GROUPED_LINEAR,
    HEAD_LINEAR,
    LINEAR,
    LINEAR_WEIGHT,
    MATMUL,
    MATMUL_RIGHT,
    REDUCE_SUM,
    RESHAPE,
    ROTARY,
    SLICE,
    SWIGLU,
    TRANSPOSE,
)
