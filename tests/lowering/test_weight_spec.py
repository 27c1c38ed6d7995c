from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from ascendfx.codegen.ascendc.weight_spec import WeightSpec, evaluate_weight, nz_shape, pack_nz
from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.ops import Cast, Concat, Constant, Multiply, Param, Subtract, Transpose
from ascendfx.ir.tensor_type import DType, TensorType


def spec(build, dtype=DType.F32, shape=(3, 5), layout="nd"):
    builder = GraphBuilder("recipe")
    weight = builder.add(Param("w", TensorType(dtype, (3, 5))))
    return WeightSpec("w", builder.build(build(builder, weight)), dtype, layout, shape)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([DType.F32, DType.BF16]))
def test_every_element_of_a_fractal_weight_is_where_the_cube_unit_reads_it(n, k, dtype):
    matrix = np.arange(n * k).reshape(n, k).astype(np.float32)
    k0 = 32 // dtype.bytes
    packed = pack_nz(matrix, dtype)
    assert packed.shape == nz_shape((n, k), dtype) == (-(-k // k0), -(-n // 16) * 16, k0)
    for row, column in ((0, 0), (n - 1, k - 1), (n // 2, k // 3)):
        assert packed[column // k0, row, column % k0] == matrix[row, column]
    assert packed.sum() == matrix.sum()


def test_each_matrix_of_a_batch_is_packed_by_itself():
    batch = np.random.default_rng(0).standard_normal((3, 20, 9)).astype(np.float32)
    packed = pack_nz(batch, DType.F32)
    for matrix, alone in zip(packed, batch, strict=True):
        np.testing.assert_array_equal(matrix, pack_nz(alone, DType.F32))


@given(st.floats(-3.0e38, 3.0e38, allow_nan=False))
def test_weights_are_rounded_to_bf16_once(number):
    scaled = spec(
        lambda b, w: b.add(Multiply(), w, b.add(Constant(1.0, DType.BF16))), dtype=DType.BF16
    )
    array = np.full((3, 5), number, np.float64)
    rounded = float(evaluate_weight(scaled, {"w": array})[0, 0])
    for neighbour in (-1, 1):
        bits = np.asarray(rounded, bfloat16).view(np.uint16).astype(int) + neighbour
        other = float(np.asarray(bits, np.uint16).view(bfloat16))
        if np.isfinite(other) and np.isfinite(rounded):
            error = abs(Fraction(number) - Fraction(rounded))
            assert error <= abs(Fraction(number) - Fraction(other))


def test_a_midpoint_below_f32_resolution_goes_to_the_right_side():
    number = 1 + 2**-8 + 2**-40  # just above the middle of 1 and its bf16 neighbour
    scaled = spec(
        lambda b, w: b.add(Multiply(), w, b.add(Constant(1.0, DType.BF16))), dtype=DType.BF16
    )
    weight = evaluate_weight(scaled, {"w": np.full((3, 5), number)})
    assert float(weight[0, 0]) == 1 + 2**-7


def test_a_plain_parameter_is_not_copied():
    tensor = np.ones((3, 5), np.float32)
    assert np.shares_memory(evaluate_weight(spec(lambda _b, w: w), {"w": tensor}), tensor)


def test_recipes_that_only_move_elements_keep_the_format():
    stacked = spec(
        lambda b, w: b.add(Concat(0), b.add(Transpose((1, 0)), w), b.add(Transpose((1, 0)), w)),
        dtype=DType.BF16,
        shape=(10, 3),
    )
    tensor = np.random.default_rng(0).standard_normal((3, 5)).astype(bfloat16)
    weight = evaluate_weight(stacked, {"w": tensor})
    assert weight.dtype == bfloat16
    np.testing.assert_array_equal(weight, np.concatenate([tensor.T, tensor.T]))


def test_a_key_the_checkpoint_lacks_is_the_readers_error():
    with pytest.raises(KeyError):
        evaluate_weight(spec(lambda _b, w: w), {})


def test_the_keys_of_a_recipe_are_told():
    assert spec(lambda _b, w: w).keys == ("w",)
    assert spec(lambda _b, w: w, layout="nz").packed_shape == (1, 16, 8)


def test_a_weight_that_is_narrowed_and_widened_again_is_rounded():
    error = spec(
        lambda b, w: b.add(Subtract(), w, b.add(Cast(DType.F32), b.add(Cast(DType.BF16), w)))
    )
    weights = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    wanted = weights - weights.astype(bfloat16).astype(np.float32)
    np.testing.assert_array_equal(evaluate_weight(error, {"w": weights}), wanted)
    assert np.all(wanted != 0)
