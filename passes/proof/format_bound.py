"""Bounds of rounding errors in the formats of a graph, for operands that are rounded themselves.

As `rounding_bound`, with three differences. Each operation rounds in its format (single precision
inside, bf16 and f16 once more at the store). Operands carry the error of one rounding, so that the
bound of a stable side is about the condition of what it computes. And units are scaled down
together, by 2^-29: bounds are then of first order in the unit, as the analysis supposes. A value
that overflows its format has no bound.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, sections 1.5 and 1.6
(backward stability: an error that perturbed operands explain).
"""

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import Cast, Input
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.rounding_bound import bounded_step
from ascendfx.passes.rounding_expansions import Bounded
from ascendfx.passes.rounding_rules import MOVES

SCALE = 2.0**-29
"""Units are multiplied by it: f32 is analysed with the unit of f64."""
_LARGEST: Mapping[DType, float] = {
    DType.F64: float(np.finfo(np.float64).max),
    DType.F32: float(np.finfo(np.float32).max),
    DType.F16: float(np.finfo(np.float16).max),
    DType.BF16: float(ml_dtypes.finfo(ml_dtypes.bfloat16).max),
}


def format_bound(graph: Graph, tensors: Mapping[str, Array]) -> tuple[Bounded, ...]:
    """Return the outputs of a graph without named sizes, each with its error in scaled units."""
    values: list[tuple[Bounded, ...]] = []
    for node in graph.nodes:
        kinds = [each.dtype for each in node.types]
        if isinstance(node.op, Input):
            values.append((_operand(tensors[node.op.name], kinds[0]),))
            continue
        operands = [values[v.node][v.result] for v in node.operands]
        inner = (DType.F64 if DType.F64 in kinds else DType.F32).unit_roundoff * SCALE
        results = bounded_step(node.op, *operands, unit=inner)
        values.append(
            tuple(_stored(node.op, each, d) for each, d in zip(results, kinds, strict=True))
        )
    return tuple(values[v.node][v.result] for v in graph.outputs)


def _operand(value: Array, dtype: DType) -> Bounded:
    return value, dtype.unit_roundoff * SCALE * np.abs(np.asarray(value, np.float64))


def _stored(op: Op, result: Bounded, dtype: DType) -> Bounded:
    value, error = result
    if not dtype.is_float:
        return result
    if isinstance(op, Cast) or (dtype in (DType.BF16, DType.F16) and not isinstance(op, MOVES)):
        error = error + dtype.unit_roundoff * SCALE * np.abs(np.nan_to_num(value))
    overflows = np.isfinite(value) & (np.abs(value) > _LARGEST[dtype])
    return value, np.where(overflows, np.inf, error)
