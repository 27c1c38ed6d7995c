"""Arrays for operands of an operation."""

import numpy as np

from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import (
    CacheRead,
    GatherRows,
    RaggedAttention,
    ScatterAlong,
    ScatterRows,
    TakeAlong,
)
from ascendfx.ir.tensor_type import DType, TensorType


def operand(op: Op, index: int, types: tuple[TensorType, ...], seed: int) -> Array:
    random = np.random.default_rng([seed, index])
    kind = types[index]
    shape = [int(d) for d in kind.shape]
    if kind.dtype.is_float:
        step = {"pack_codes": 1.0, "split_codes": 14.9}.get(op.mnemonic)
        return step * random.integers(-8, 8, shape) if step else random.uniform(0.1, 2.0, shape)
    if kind.dtype in (DType.BOOL, DType.I4X2):
        top = 2 if kind.dtype is DType.BOOL else 256
        return random.integers(0, top, shape).astype(bool if top == 2 else np.int64)
    if isinstance(op, GatherRows | TakeAlong | ScatterAlong | ScatterRows | CacheRead):
        axis = getattr(op, "axis", 0)
        return random.integers(0, int(types[0].shape[axis]), shape)
    if op.mnemonic == "row_groups" or (op.mnemonic == "grouped_linear" and index == 2):
        return np.sort(random.integers(0, int(types[0].shape[0]) + 1, shape))
    if op.mnemonic == "combine_experts":
        return random.permutation(int(types[0].shape[0]))
    if isinstance(op, RaggedAttention) and index == 2 * op.parts + 2:
        return np.zeros(shape, np.int64)
    if isinstance(op, RaggedAttention) and index == 2 * op.parts + 3:
        return random.choice([0, 1, 3, 5], shape)  # of two tokens or three
    return random.integers(1, 3, shape)
