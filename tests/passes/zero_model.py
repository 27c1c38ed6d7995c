"""A model that adds a zero, and a pass that drops it."""

from typing import Any

import numpy as np

from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.ops import Add, Constant, GatherRows, Input, Param
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from tests.dumps import planted

ZERO_TOKENS = np.array([[0, 1, 2, 1]])
ZERO_TABLE = {"t": np.array([[0.0, -0.0], [-0.0, 1.0], [2.0, -3.0]])}


def zero_dropped() -> Any:
    """Return a `Simplify` that drops ``+ 0.0``, which makes ``+0.0`` of ``-0.0``."""
    bug = planted.Bug("simplifications.arithmetic", "{Add: -1.0, ", "{Add: 1.0, ", "Simplify")
    return planted.simplify_with(bug)()


def zero_model(zero: float) -> Program:
    """Return a model whose logits are a row of the table and a zero."""
    builder = GraphBuilder("model")
    kind = TensorType(DType.I64, (named_size("batch"), named_size("tokens")))
    ids = builder.add(Input("token_ids", kind))
    rows = builder.add(GatherRows(), builder.add(Param("t", TensorType(DType.F32, (3, 2)))), ids)
    return Program((builder.build(builder.add(Add(), rows, constant(builder, zero))),))


def constant(builder: GraphBuilder, number: float) -> Any:
    return builder.add(Constant(number, DType.F32))


def arithmetic(op: Any, number: float) -> Graph:
    builder = GraphBuilder("g")
    x = builder.add(Input("x", TensorType(DType.F32, (2,))))
    return builder.build(builder.add(op, x, constant(builder, number)))
