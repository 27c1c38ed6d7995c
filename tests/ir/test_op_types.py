"""The inferred type is the type of the result, for every operation."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    OPS,
    Call,
    Input,
    Param,
)
from ascendfx.ir.tensor_type import DType
from tests.ir.op_cases import BAD, GOOD, operand_types
from tests.ir.operand_arrays import operand


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
