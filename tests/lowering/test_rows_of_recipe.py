"""Weights that are made in parts of rows are those that are made at once."""

import tracemalloc

import numpy as np
import pytest

from ascendfx.codegen.ascendc import rows_of_recipe
from ascendfx.codegen.ascendc.rows_of_recipe import parts_of_rows
from ascendfx.codegen.ascendc.weight_spec import WeightSpec, evaluate_weight
from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.ops import Concat, Multiply, Param, ReduceMax, Transpose
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.quant_passes.insertion.codes_of_weight import codes_recipe, scale_recipe

KINDS = [TensorType(DType.BF16, (7, 6, 40)), TensorType(DType.F32, (33, 8))]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(
    ("make", "layout"), [(codes_recipe, "nd"), (codes_recipe, "nz"), (scale_recipe, "nd")]
)
def test_parts_give_the_same_weight(monkeypatch, kind, make, layout):
    recipe = make("w", kind, 127)
    weight = np.random.default_rng(0).standard_normal(kind.shape).astype(kind.dtype.numpy)
    (result,) = recipe.output_types
    spec = WeightSpec("w", recipe, result.dtype, layout, result.shape)
    whole = evaluate_weight(spec, {"w": weight})
    monkeypatch.setattr(rows_of_recipe, "_PART", 2 * weight[0].size)
    parts = list(parts_of_rows(recipe))
    assert [rows.stop - rows.start for rows, _ in parts] == [2] * (len(weight) // 2) + [1]
    found = evaluate_weight(spec, {"w": weight})
    assert found.dtype == whole.dtype == result.dtype.numpy
    np.testing.assert_array_equal(found, whole)


def test_a_large_weight_needs_little_more_than_itself(monkeypatch):
    monkeypatch.setattr(rows_of_recipe, "_PART", 2**16)
    kind = TensorType(DType.F32, (64, 64, 1_024))
    weight = np.random.default_rng(0).standard_normal(kind.shape, np.float32)
    spec = WeightSpec("w", codes_recipe("w", kind, 127), DType.I8, "nd", kind.shape)
    tracemalloc.start()
    codes = evaluate_weight(spec, {"w": weight})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert codes.nbytes < peak < codes.nbytes + 2**23  # at once: 32 MiB for each of some steps


@pytest.mark.parametrize("what", ["other rows", "another order", "rows of the whole"])
def test_rows_that_need_others_are_made_at_once(monkeypatch, what):
    monkeypatch.setattr(rows_of_recipe, "_PART", 1)
    b = GraphBuilder("recipe")
    w = b.add(Param("w", TensorType(DType.F32, (8, 8))))
    made = {
        "other rows": lambda: b.add(Concat(1), w, b.add(Param("v", TensorType(DType.F32, (8, 2))))),
        "another order": lambda: b.add(Multiply(), w, b.add(Transpose((1, 0)), w)),
        "rows of the whole": lambda: b.add(Multiply(), w, b.add(ReduceMax((0,)), w)),
    }[what]()
    assert not list(parts_of_rows(b.build(made)))
