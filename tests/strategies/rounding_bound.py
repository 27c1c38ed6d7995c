"""How far float64 interpretation of a program can be from real arithmetic: running error analysis.

Every value carries a bound of its absolute error. First-order rules of Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition: sections 3.1 (sums and products), 3.5 (matrix
products), 1.6 (condition of a function). Decisions (sorting, comparing) are taken to be the same.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array, Op, as_float64
from ascendfx.ir.ops import (
    Add,
    Attention,
    CacheRead,
    CacheWrite,
    Call,
    Cast,
    Concat,
    Cos,
    CumulativeSum,
    Divide,
    Exp,
    Expand,
    GatherRows,
    GroupedLinear,
    HeadLinear,
    Histogram,
    Input,
    Linear,
    Log,
    Matmul,
    Maximum,
    Minimum,
    Multiply,
    Negate,
    Param,
    Power,
    Reciprocal,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Relu,
    Reshape,
    Rsqrt,
    ScatterAlong,
    ScatterRows,
    Select,
    Sigmoid,
    Silu,
    Sin,
    Slice,
    Softmax,
    Sort,
    Sqrt,
    Subtract,
    TakeAlong,
    Topk,
    Transpose,
)
from ascendfx.ir.program import Program
from tests.strategies.fused_rounding_bound import EXPANSIONS, Bounded

UNIT = float(np.finfo(np.float64).eps) / 2
"""Unit roundoff of float64."""


def rounding_bound(
    what: Graph | Program, tensors: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> tuple[Array, ...]:
    """Return the error bound of each output of ``interpret(what, tensors)``."""
    program = what if isinstance(what, Program) else Program((what,))
    bound_sizes = dict(sizes or {})
    for name, kind in program.main.input_types.items():
        for dim, size in zip(kind.shape, np.shape(tensors[name]), strict=True):
            bound_sizes.setdefault(str(dim), size)

    def run(graph: Graph, inputs: Mapping[str, Bounded], call: Call | None) -> list[Bounded]:
        known: list[tuple[Bounded, ...]] = []
        for node in graph.nodes:
            operands = [known[v.node][v.result] for v in node.operands]
            match node.op:
                case Input(name=name):
                    known.append((inputs[name],))
                case Param(name=name) if recipe := program.recipes.get((graph.name, name)):
                    made = Graph(graph.name, recipe.nodes, recipe.outputs)
                    known.append(tuple(run(made, {}, call)))
                case Param(name=name):
                    tensor = np.asarray(tensors[call.key_of(name) if call else name])
                    known.append(((tensor, np.zeros(tensor.shape)),))
                case Call(callee=callee):
                    body = program.by_name[callee]
                    arguments = dict(zip(body.input_types, operands, strict=True))
                    known.append(tuple(run(body, arguments, node.op)))
                case op:
                    known.append(_step(op.substitute(bound_sizes), operands))
        return [known[v.node][v.result] for v in graph.outputs]

    inputs = {
        name: (np.asarray(tensors[name]), np.zeros(np.shape(tensors[name])))
        for name in program.main.input_types
    }
    return tuple(error for _, error in run(program.main, inputs, None))


def assert_equal_up_to_rounding(
    before: Graph | Program,
    after: Graph | Program,
    tensors: Mapping[str, Array],
    *,
    telling: bool = False,
) -> None:
    """Assert that both programs agree on ``tensors`` within twice the bound of the first.

    The second has its own error; it takes the same steps, fewer or joined, so that the bound of
    the first holds for it, too. With ``telling`` the bound must be below a millionth of the result:
    worst-case bounds grow by orders of magnitude per layer when weights are large.
    """
    bounds = rounding_bound(before, tensors)
    results = interpret(before, tensors), interpret(after, tensors)
    for first, second, bound in zip(*results, bounds, strict=True):
        assert first.shape == second.shape
        both = np.isfinite(as_float64(first)) & np.isfinite(as_float64(second))
        same = np.where(both, 0, as_float64(first) != as_float64(second))
        assert not np.any(same & ~(np.isnan(first) & np.isnan(second)))
        if telling:
            assert bound.max() <= 1e-6 * np.abs(first).max(), "choose calmer tensors"
        gap = np.abs(np.where(both, as_float64(first) - as_float64(second), 0))
        assert np.all(gap <= 2 * bound), f"{gap.max()} exceeds {2 * bound.max()}"


def step_bound(op: Op, values: Sequence[Array]) -> tuple[Array, ...]:
    """Return the error bound of each result of one operation on exact operands."""
    operands = [(value, np.zeros(value.shape)) for value in values]
    return tuple(error for _, error in _step(op, operands))


def _step(op: Op, operands: list[Bounded]) -> tuple[Bounded, ...]:
    values = [value for value, _ in operands]
    errors = [error for _, error in operands]
    with np.errstate(all="ignore"):
        results = op.reference(*values)
        if type(op) in _MOVES:
            moved = op.reference(*_movable(op, values, errors))
            return tuple(
                (r, np.asarray(e, np.float64) if r.dtype.kind == "f" else np.zeros(r.shape))
                for r, e in zip(results, moved, strict=True)
            )
        if isinstance(op, Sort):
            return (
                (results[0], np.take_along_axis(errors[0], results[1], op.axis)),
                (results[1], np.zeros(results[1].shape)),
            )
        if isinstance(op, Topk):
            return (
                (results[0], np.take_along_axis(errors[0], results[1], -1)),
                (results[1], np.zeros(results[1].shape)),
            )
        if results[0].dtype.kind != "f" or not operands or isinstance(op, Histogram):
            return tuple((r, np.zeros(r.shape)) for r in results)
        if type(op) in EXPANSIONS:
            _, error = EXPANSIONS[type(op)](lambda o, *v: _step(o, list(v))[0], op, *operands)
        else:
            error = _RULES[type(op)](op, values, errors, results[0])
        return (
            (
                results[0],
                np.broadcast_to(np.nan_to_num(error, nan=np.inf, posinf=np.inf), results[0].shape),
            ),
            *((r, np.zeros(r.shape)) for r in results[1:]),
        )


_MOVES = (
    CacheRead,
    CacheWrite,
    Cast,
    Concat,
    Expand,
    GatherRows,
    Negate,
    Reshape,
    ScatterAlong,
    ScatterRows,
    Select,
    Slice,
    TakeAlong,
    Transpose,
)


def _movable(op: Op, values: list[Array], errors: list[Array]) -> list[Array]:
    """Return the operands with data replaced by its error and indices kept."""
    kept: dict[type[Op], tuple[int, ...]] = {
        CacheRead: (1,),
        CacheWrite: (1,),
        GatherRows: (1,),
        TakeAlong: (1,),
        ScatterAlong: (1,),
        ScatterRows: (1,),
        Select: (0,),
    }
    if isinstance(op, Negate):
        return [-errors[0]]
    return [values[i] if i in kept.get(type(op), ()) else errors[i] for i in range(len(values))]


_Rule = Callable[[Op, list[Array], list[Array], Array], Array]


def _product(multiply: Callable[[Array, Array], Array], terms: int) -> _Rule:
    def rule(_op: Op, v: list[Array], e: list[Array], _y: Array) -> Array:
        a, c = np.abs(v[0]), np.abs(v[1])
        whole = multiply(a + e[0], c + e[1]) - multiply(a, c)
        return whole + (terms + np.shape(v[0])[-1]) * UNIT * multiply(a, c)

    return rule


def _grouped(op: Op, v: list[Array], e: list[Array], _y: Array) -> Array:
    (exact,) = op.reference(np.abs(v[0]), np.abs(v[1]), *v[2:])
    (high,) = op.reference(np.abs(v[0]) + e[0], np.abs(v[1]) + e[1], *v[2:])
    return high - exact + (v[0].shape[-1] + 1) * UNIT * exact


def _summed(op: Op, v: list[Array], e: list[Array], y: Array) -> Array:
    (total,) = op.reference(np.abs(v[0]))
    (error,) = op.reference(e[0])
    return error + (v[0].size // max(y.size, 1) + 2) * UNIT * total


def _cumulated(op: Op, v: list[Array], e: list[Array], y: Array) -> Array:
    return op.reference(e[0])[0] + y.shape[0] * UNIT * op.reference(np.abs(v[0]))[0]


def _softmax(op: Op, v: list[Array], e: list[Array], y: Array) -> Array:
    axis = op.axis  # type: ignore[attr-defined]
    finite = np.where(np.isfinite(v[0]), v[0], 0)
    worst = np.max(np.where(y > 0, e[0] + UNIT * np.abs(finite), 0), axis=axis, keepdims=True)
    return y * (np.expm1(2 * worst) + (v[0].shape[axis] + 6) * UNIT)


def _attention(op: Op, v: list[Array], e: list[Array], y: Array) -> Array:
    parts: int = op.parts  # type: ignore[attr-defined]
    scale = abs(op.scale)  # type: ignore[attr-defined]
    heads = v[0].shape[2]
    scores: Array = np.zeros(())
    inner = sum(each.shape[-1] for each in v[:parts]) + 3
    for q, k, eq, ek in zip(v[:parts], v[parts:], e[:parts], e[parts:], strict=False):
        wide = np.repeat(np.abs(k), heads // k.shape[2], axis=2)
        exact = np.einsum("bthd,bshd->bhts", np.abs(q), wide)
        more = np.repeat(ek, heads // ek.shape[2], axis=2)
        high = np.einsum("bthd,bshd->bhts", np.abs(q) + eq, wide + more)
        scores = scores + scale * (high - exact + inner * UNIT * exact)
    if getattr(op, "masked", False):
        mask = v[2 * parts + 1]
        scores = scores + np.where(np.abs(mask) < 1e30, e[2 * parts + 1] + UNIT * np.abs(mask), 0)
    worst = np.max(scores, axis=-1, keepdims=True)
    values = np.abs(v[2 * parts]) + e[2 * parts]
    top = np.max(values, axis=1)
    relative = np.expm1(2 * worst) + (2 * values.shape[1] + 8) * UNIT
    per_head = np.repeat(top, heads // top.shape[1], axis=1)
    error = np.max(e[2 * parts]) + relative[..., 0][..., None] * per_head[:, :, None]
    return np.swapaxes(error, 1, 2)


_RULES: dict[type[Op], _Rule] = {
    Add: lambda _, v, e, y: e[0] + e[1] + UNIT * np.abs(y),
    Attention: _attention,
    Cos: lambda _, v, e, y: e[0] + 2 * UNIT,
    CumulativeSum: _cumulated,
    Divide: lambda _, v, e, y: (
        (e[0] + np.abs(y) * e[1]) / np.maximum(np.abs(v[1]) - e[1], 0) + UNIT * np.abs(y)
    ),
    Exp: lambda _, v, e, y: y * (np.expm1(e[0]) + 2 * UNIT),
    GroupedLinear: _grouped,
    HeadLinear: _grouped,
    Linear: _product(lambda a, c: a @ c.T, 1),
    Log: lambda _, v, e, y: e[0] / np.maximum(np.abs(v[0]) - e[0], 0) + 2 * UNIT * np.abs(y),
    Matmul: _product(lambda a, c: a @ c, 1),
    Maximum: lambda _, v, e, y: np.maximum(*np.broadcast_arrays(*e)),
    Minimum: lambda _, v, e, y: np.maximum(*np.broadcast_arrays(*e)),
    Multiply: lambda _, v, e, y: (
        np.abs(v[0]) * e[1] + np.abs(v[1]) * e[0] + e[0] * e[1] + UNIT * np.abs(y)
    ),
    Power: lambda _, v, e, y: (
        2 * np.abs(v[1]) * np.abs(v[0]) ** np.maximum(v[1] - 1, 0) * e[0] + 3 * UNIT * np.abs(y)
    ),
    Reciprocal: lambda _, v, e, y: (
        np.abs(y) * e[0] / np.maximum(np.abs(v[0]) - e[0], 0) + UNIT * np.abs(y)
    ),
    ReduceMax: lambda op, v, e, y: op.reference(e[0])[0],
    ReduceMean: _summed,
    ReduceSum: _summed,
    Relu: lambda _, v, e, y: e[0],
    Rsqrt: lambda _, v, e, y: y * e[0] / v[0] + 3 * UNIT * y,
    Sigmoid: lambda _, v, e, y: e[0] / 4 + 4 * UNIT,
    Silu: lambda _, v, e, y: 1.1 * e[0] + 5 * UNIT * np.abs(v[0]),
    Sin: lambda _, v, e, y: e[0] + 2 * UNIT,
    Softmax: _softmax,
    Sqrt: lambda _, v, e, y: e[0] / np.maximum(y, UNIT) + UNIT * y,
    Subtract: lambda _, v, e, y: e[0] + e[1] + UNIT * np.abs(y),
}
