"""Every operation as ONNX computes its reference."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir import ops
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.onnx.device_only import device_only
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.onnx.translators import LEAVES, TRANSLATIONS
from ascendfx.ir.op import Op
from ascendfx.ir.ops import OPS
from ascendfx.ir.program import Program
from tests.ir.op_cases import GOOD, Case, operand_types
from tests.ir.operand_arrays import operand
from tests.onnx.assert_agrees import assert_graph_agrees


def graph_of(op: Op, text: str) -> Graph:
    builder = GraphBuilder("g")
    if isinstance(op, ops.Input | ops.Param):
        return builder.build(builder.add(op))
    inputs = [builder.add(ops.Input(f"x{i}", kind)) for i, kind in enumerate(operand_types(text))]
    return builder.build(*builder.add_multi(op, *inputs))


def translated(case: Case) -> bool:
    return type(case[0]) in LEAVES or TRANSLATIONS[type(case[0])].translate is not device_only


@pytest.mark.parametrize(
    ("op", "text"), [*filter(translated, GOOD)], ids=lambda each: getattr(each, "mnemonic", None)
)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=5)
def test_each_operation_computes_its_reference(op: Op, text: str, seed: int) -> None:
    types = operand_types(text)
    tensors = {f"x{i}": operand(op, i, types, seed) for i in range(len(types))}
    if isinstance(op, ops.Input | ops.Param):
        tensors = {op.name: np.random.default_rng(seed).standard_normal(2)}
    assert_graph_agrees(graph_of(op, text), tensors)


def test_every_operation_is_translated() -> None:
    assert set(TRANSLATIONS) | set(LEAVES) == set(OPS)
    assert not set(TRANSLATIONS) & set(LEAVES)
    assert list(TRANSLATIONS) == [op for op in OPS if op not in LEAVES]


@pytest.mark.parametrize(
    ("op", "text"),
    [*itertools.filterfalse(translated, GOOD)],
    ids=lambda each: getattr(each, "mnemonic", None),
)
def test_what_prepares_the_next_step_is_refused(op: Op, text: str) -> None:
    with pytest.raises(GraphError, match=r"error\[onnx-unsupported\].*on the device"):
        to_onnx(Program((graph_of(op, text),)))
