"""The inferred type is the type of the result, for every operation."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import (
    OPS,
    CacheRead,
    Call,
    GatherRows,
    Input,
    Param,
    RaggedAttention,
    ScatterAlong,
    ScatterRows,
    TakeAlong,
)
from ascendfx.ir.tensor_type import DType, TensorType
from tests.ir.op_cases import BAD, GOOD, operand_types


def operand(op: Op, index: int, types: tuple[TensorType, ...], seed: int) -> Array:
    random = np.random.default_rng([seed, index])
    kind = types[index]
    shape = [int(d) for d in kind.shape]
    if kind.dtype.is_float:
        return random.uniform(0.1, 2.0, shape)
    if kind.dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    if isinstance(op, GatherRows | TakeAlong | ScatterAlong | ScatterRows | CacheRead):
        axis = getattr(op, "axis", 0)
        return random.integers(0, int(types[0].shape[axis]), shape)
    if op.mnemonic == "grouped_linear":
        return np.sort(random.integers(0, int(types[0].shape[0]) + 1, shape))
    if op.mnemonic == "combine_experts":
        return random.permutation(int(types[0].shape[0]))
    if isinstance(op, RaggedAttention) and index == 2 * op.parts + 2:
        return np.zeros(shape, np.int64)
    if isinstance(op, RaggedAttention) and index == 2 * op.parts + 3:
        return random.choice([0, 1, 3, 5], shape)  # of two tokens or three
    return random.integers(1, 3, shape)


@pytest.mark.parametrize(("op", "text"), GOOD, ids=lambda each: getattr(each, "mnemonic", None))
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_the_inferred_type_is_that_of_the_result(op: Op, text: str, seed: int) -> None:
    types = operand_types(text)
    inferred = op.infer(*types)
    if isinstance(op, Input | Param):
        return
    results = op.reference(*(operand(op, i, types, seed) for i in range(len(types))))
    assert [r.shape for r in results] == [t.shape for t in inferred]
    for result, kind in zip(results, inferred, strict=True):
        expected = "f" if kind.dtype.is_float else "b" if kind.dtype is DType.BOOL else "i"
        assert result.dtype.kind == expected


@pytest.mark.parametrize(("op", "text"), BAD, ids=lambda each: getattr(each, "mnemonic", None))
def test_what_does_not_fit_is_refused(op: Op, text: str) -> None:
    with pytest.raises(OpTypeError, match=f"^{op.mnemonic}: "):
        op.infer(*operand_types(text))


def test_every_operation_has_a_case() -> None:
    covered = {type(op) for op, _ in GOOD}
    assert set(OPS) - covered == {Call}


def test_operations_are_frozen_and_listed_once() -> None:
    assert len({op.mnemonic for op in OPS}) == len(OPS)
    assert [op.__name__ for op in OPS] == sorted(op.__name__ for op in OPS)
    for op in OPS:
        assert dataclasses.is_dataclass(op)
        assert op.__dataclass_params__.frozen  # pyright: ignore[reportAttributeAccessIssue]
