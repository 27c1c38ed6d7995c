"""How one weight of a package is computed from the checkpoint and laid out in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.hardware_units import FRACTAL_ROW_BYTES, FRACTAL_ROWS, round_up
from ascendfx.codegen.ascendc.rows_of_recipe import parts_of_rows
from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.kept_roundings import narrow_to_odd, with_roundings
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Concat, Expand, Param, Reshape, Slice, Transpose
from ascendfx.ir.tensor_type import DType

_MOVES = (Concat, Expand, Reshape, Slice, Transpose)
"""Operations whose reference moves elements and computes nothing."""


@dataclass(frozen=True)
class WeightSpec:
    """One constant tensor of a package.

    Attributes:
        name: Name of the buffer in every plan that uses it; the checkpoint key where the weight
            is a checkpoint tensor as it stands.
        recipe: Graph with one output whose parameters are checkpoint keys.
        dtype: Element format in memory.
        layout: ``nd``: row-major. ``nz``: each matrix ``[n, k]`` of the last two axes as
            ``[ceil(k / k0), ceil16(n), k0]`` with k0 elements in 32 bytes, padding 0.
        shape: Shape before packing.
    """

    name: str
    recipe: Graph
    dtype: DType
    layout: str
    shape: tuple[int, ...]

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """Shape in memory."""
        return self.shape if self.layout == "nd" else nz_shape(self.shape, self.dtype)

    @property
    def keys(self) -> tuple[str, ...]:
        """Checkpoint keys the recipe reads."""
        ops = [self.recipe.op_of(value) for value in self.recipe.params]
        return tuple(dict.fromkeys(op.name for op in ops if isinstance(op, Param)))


def nz_shape(shape: Sequence[int], dtype: DType) -> tuple[int, ...]:
    """Return the shape of ``[*b, n, k]`` in fractals: ``[*b, ceil(k / k0), ceil16(n), k0]``."""
    *batch, n, k = shape
    k0 = FRACTAL_ROW_BYTES // dtype.bytes
    return (*batch, -(-k // k0), round_up(n, FRACTAL_ROWS), k0)


def pack_nz(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Return ``[*b, n, k]`` in fractals, padded with zeros.

    Element ``(n, k)`` goes to ``(k // k0, n, k % k0)``.
    Source: asc-devkit, matrix layouts, "NZ".
    """
    *batch, n, k = array.shape
    *_, columns, rows, k0 = packed_shape = nz_shape(array.shape, dtype)
    if (rows, columns * k0) == (n, k):
        padded = array
    else:
        padded = np.zeros((*batch, rows, columns * k0), array.dtype)
        padded[..., :n, :k] = array
    split = padded.reshape(*batch, rows, columns, k0)
    return np.ascontiguousarray(np.moveaxis(split, -2, -3)).reshape(packed_shape)


def evaluate_weight(spec: WeightSpec, tensors: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the weight as it lies in memory.

    A recipe that only moves elements runs on the checkpoint's own format; any other runs in
    float64, in parts where rows do not need each other, and is rounded once, to nearest even. Casts
    to a narrower format and back round, too.
    """
    arrays = {key: tensors[key] for key in spec.keys}
    nodes = spec.recipe.nodes
    if all(isinstance(node.op, (Param, *_MOVES)) for node in nodes):
        rounded = _round(_move(spec.recipe, arrays), spec.dtype)
    else:
        rounded = _computed(spec, arrays)
    return np.ascontiguousarray(rounded) if spec.layout == "nd" else pack_nz(rounded, spec.dtype)


def _computed(spec: WeightSpec, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    result: NDArray[Any] | None = None
    for rows, recipe in parts_of_rows(spec.recipe):
        part = {key: array[rows] for key, array in arrays.items()}
        made = _round(interpret(with_roundings(recipe), part)[0], spec.dtype)
        if result is None:
            result = np.empty(spec.shape, made.dtype)
        result[rows] = made
    if result is not None:
        return result
    return _round(interpret(with_roundings(spec.recipe), arrays)[0], spec.dtype)


def _move(recipe: Graph, arrays: dict[str, NDArray[Any]]) -> Array:
    values: list[Array] = []
    for node in recipe.nodes:
        if isinstance(node.op, Param):
            values.append(arrays[node.op.name])
        else:
            values.append(node.op.reference(*(values[v.node] for v in node.operands))[0])
    return values[recipe.outputs[0].node]


def _round(value: Array, dtype: DType) -> NDArray[Any]:
    if value.dtype == dtype.numpy:
        return value
    if dtype is DType.BF16 and value.dtype == np.float64:
        value = narrow_to_odd(value)
    return value.astype(dtype.numpy)
