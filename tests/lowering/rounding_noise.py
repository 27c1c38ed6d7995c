"""How far a plan may be from the truth if every operation errs as much as its bound allows.

The program is interpreted in float64 while each result is moved by a random number of ulps within
the bound of its operation: for functions a few ``u`` of the result, one rounding to the element
format at the end, and for sums of ``k`` products ``sqrt(k + 1) u`` of the sum ``S`` of absolute
values. Each of the ``k`` partial sums and ``k`` products is rounded with an independent error of
mean zero, at most ``u S`` and in total ``u S``; so the variance of their sum is at most
``(k + 1) u^2 S^2`` (Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM
J. Sci. Comput. 41(5), 2019, section 3).
"""

import numpy as np

from ascendfx.ir import ops
from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.tensor_type import DType

FUNCTION_ULPS = 8
"""Roundings in one vector operation: a few instructions, each exact to one rounding."""

_MOVES = (
    *(ops.Argmax, ops.CacheRead, ops.CacheWrite, ops.Concat, ops.Constant, ops.DispatchExperts),
    *(ops.Expand, ops.GatherRows, ops.Iota, ops.Reshape, ops.Slice, ops.Transpose),
)


class ExpertsTooCloseError(Exception):
    """Rounding may choose other experts: no bound on the logits follows from this seed."""


class NoisyInterpreter(Evaluator):
    """Interprets a program with noise of a seed, or without; recipes of weights run without."""

    def __init__(self, program, tensors, sizes, seed, *, noisy):
        super().__init__(program)
        self.tensors, self.sizes, self.noisy = tensors, sizes, noisy
        self.random = np.random.default_rng(seed)
        self.experts = []

    def tensor(self, graph, key):
        return np.asarray(self.tensors[key], np.float64)

    def weight(self, recipe, call):
        noisy, self.noisy = self.noisy, False
        made = super().weight(recipe, call)
        self.noisy = noisy
        return made

    def step(self, node, operands):
        op, kind = node.op.substitute(self.sizes), node.types[0].dtype
        results = op.reference(*operands)
        if isinstance(op, ops.RouteTopk):
            self.experts.append(np.sort(results[1], axis=-1))
        if self.noisy and not isinstance(op, _MOVES) and kind in (DType.F32, DType.BF16):
            bound = _bound(op, operands, results[0], kind)
            moved = results[0] + bound * self.random.choice((-1, 1), results[0].shape)
            results = (moved, *results[1:])
        return results


def _bound(op, operands, result, dtype):
    u, rounding = DType.F32.unit_roundoff, dtype.unit_roundoff * np.abs(result)
    match op:
        case ops.Linear() | ops.HeadLinear():
            k = operands[0].shape[-1]
            return _sum(k) * op.reference(*map(np.abs, operands))[0] + rounding
        case ops.GroupedLinear():
            k = operands[0].shape[-1]
            absolute = op.reference(np.abs(operands[0]), np.abs(operands[1]), operands[2])[0]
            return _sum(k) * absolute + rounding
        case ops.CombineExperts():
            y, place, weights = operands
            absolute = op.reference(np.abs(y), place, np.abs(weights))[0]
            return _sum(weights.shape[1]) * absolute + rounding
        case ops.RmsNorm():
            functions = FUNCTION_ULPS * u
            return (_sum(operands[0].shape[-1]) + functions) * np.abs(result) + rounding
        case ops.Rotary():
            return FUNCTION_ULPS * u * np.max(np.abs(operands[0])) + rounding
        case ops.Add() | ops.Subtract():
            return u * (np.abs(operands[0]) + np.abs(operands[1])) + rounding
        case ops.RaggedAttention():
            return _attention_bound(op, operands, dtype) + rounding
        case _:
            return FUNCTION_ULPS * u * np.abs(result) + rounding


def _sum(k):
    """Return the relative error of a sum of ``k`` products in f32."""
    return np.sqrt(k + 1) * DType.F32.unit_roundoff


def _attention_bound(op, operands, dtype):
    """Scores err like sums; an error d of a score changes its weight by the factor exp(d).

    Weights are rounded to the element format before the second product.
    """
    queries, keys, v, *_ = op.roles(operands)
    u, values = DType.F32.unit_roundoff, np.max(np.abs(v))
    score = op.scale * sum(
        _sum(q.shape[-1]) * np.max(np.einsum("rhd,qtgd->rhqtg", np.abs(q), np.abs(k)))
        for q, k in zip(queries, keys, strict=True)
    )
    context = keys[0].shape[1]
    weights = 0.0 if dtype is DType.F32 else 2 * dtype.unit_roundoff
    return (2 * score + _sum(context) + FUNCTION_ULPS * u + weights) * values


def noise_bounds(program, tensors, inputs, sizes, seeds=range(8)):
    """Return the exact outputs and, for each, how far rounding may take its largest element.

    Rounding errors are independent with mean zero and bounded by ``b_i``; the noise is ``+-b_i``,
    so its variance ``s^2`` at an output bounds that of the error, and by Hoeffding's inequality an
    element errs by more than ``6 s`` with probability at most ``2 exp(-18)``, 3e-8 (Higham and
    Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41(5),
    2019).

    Raises:
        ExpertsTooCloseError: The noise changes which experts are chosen.
    """
    given = {name: _wide(value) for name, value in inputs.items()}
    named = {**_named(program, given), "context": sizes[2]}

    def outputs(seed, *, noisy):
        interpreter = NoisyInterpreter(program, tensors, named, seed, noisy=noisy)
        return interpreter.run(program.main, given), interpreter.experts

    exact, experts = outputs(0, noisy=False)
    squares = [0.0] * len(exact)
    for seed in seeds:
        moved, chosen = outputs(seed, noisy=True)
        for a, b in zip(experts, chosen, strict=True):
            if not np.array_equal(a, b):
                raise ExpertsTooCloseError
        squares = [s + (a - b) ** 2 for s, a, b in zip(squares, moved, exact, strict=True)]
    return exact, [6 * np.sqrt(np.max(each) / len(seeds)) for each in squares]


def _wide(value):
    value = np.asarray(value)
    return value.astype(np.int64 if value.dtype.kind in "iu" else np.float64)


def _named(program, given):
    sizes = {}
    for name, kind in program.main.input_types.items():
        sizes |= {str(d): n for d, n in zip(kind.shape, given[name].shape, strict=True)}
    return {name: size for name, size in sizes.items() if not name.isdecimal()}
