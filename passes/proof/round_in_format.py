"""Evaluate a graph as hardware does: every operation in its format, sums one term after another.

The arithmetic inside an operation is single precision (double for f64), term by term in index
order; the result is rounded to the format of its type. This is what the vector and the cube unit do
with f32, bf16 and f16 (codegen/ascendc: "computed in f32, rounded once at the store"), up to the
order of a sum. A rule that reorders sums therefore changes bits here, as it may on the chip.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Input
from ascendfx.ir.tensor_type import DType


def round_to(values: Any, dtype: DType) -> Array:
    """Return float64 values rounded to a format, as float64; integers stay as they are."""
    if not dtype.is_float:
        return np.asarray(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, np.float64).astype(dtype.numpy).astype(np.float64)


def evaluate_rounded(graph: Graph, tensors: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the outputs of a graph without named sizes, floats as float64."""
    values: list[tuple[Array, ...]] = []
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if isinstance(node.op, Input):
                values.append((round_to(tensors[node.op.name], node.op.type.dtype),))
                continue
            wide = DType.F64 if any(t.dtype is DType.F64 for t in node.types) else DType.F32
            operands = [_as_numbers(values[v.node][v.result], wide) for v in node.operands]
            results = node.op.reference(*operands)
            values.append(
                tuple(_stored(r, t.dtype) for r, t in zip(results, node.types, strict=True))
            )
    return tuple(values[v.node][v.result] for v in graph.outputs)


def _as_numbers(array: Array, wide: DType) -> Array:
    """Return floats as an object array of NumPy numbers: their arithmetic rounds each step."""
    if array.dtype.kind != "f":
        return array
    kind = np.float64 if wide is DType.F64 else np.float32
    result = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        result[place] = kind(array[place])
    return result


def _stored(array: Array, dtype: DType) -> Array:
    if dtype.is_float:
        return round_to(array, dtype)
    if dtype is DType.BOOL:
        return array.astype(bool)
    with np.errstate(invalid="ignore"):
        return array.astype(np.int64).astype(dtype.numpy).astype(np.int64)
