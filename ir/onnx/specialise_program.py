"""A program with named sizes bound and floats in one format, before it is written as ONNX."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.op import Op
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType


def specialise_program(
    program: Program, *, sizes: Mapping[str, int], float_dtype: DType | None
) -> Program:
    """Return the program with sizes replaced and, if asked, all floats in one format.

    Raises:
        GraphError: A number does not fit an operation.
    """
    if not sizes and float_dtype is None:
        return program

    def change(op: Op) -> Op:
        bound = op.substitute(sizes)
        return bound if float_dtype is None else _with_floats(bound, float_dtype)

    def rebuild(graph: Graph) -> Graph:
        builder = GraphBuilder(graph.name)
        for node in graph.nodes:
            with builder.at(node.location):
                builder.add_multi(change(node.op), *node.operands)
        return builder.build(*graph.outputs)

    recipes = {key: rebuild(recipe) for key, recipe in program.recipes.items()}
    return Program(tuple(map(rebuild, program.graphs)), recipes)


def _with_floats(op: Op, dtype: DType) -> Op:
    changed = {
        field.name: after
        for field in dataclasses.fields(op)
        if (after := _replaced(before := getattr(op, field.name), dtype)) != before
    }
    return dataclasses.replace(op, **changed) if changed else op


def _replaced(value: Any, dtype: DType) -> Any:  # whatever an attribute can hold
    match value:
        case DType() if value.is_float:
            return dtype
        case TensorType() if value.dtype.is_float:
            return TensorType(dtype, value.shape)
        case tuple():
            return tuple(_replaced(each, dtype) for each in value)
        case _:
            return value
