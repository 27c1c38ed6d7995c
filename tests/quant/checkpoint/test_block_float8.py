"""DeepSeek's FP8 blocks are read as the formula says, and damage is named."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from tests.quant.checkpoint.directories import fp8_config, written
from tests.quant.reference_vectors import vectors

FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
RANDOM = np.random.default_rng(5)


def blocks(rows: int, columns: int, block: tuple[int, int] = (128, 128)) -> dict[str, np.ndarray]:
    count = (-(-rows // block[0]), -(-columns // block[1]))
    return {
        "a.weight": RANDOM.standard_normal((rows, columns)).astype(FP8),
        "a.weight_scale_inv": RANDOM.uniform(0.01, 2, count).astype(np.float32),
    }


def test_what_msmodelslim_reads_is_what_we_read(tmp_path: Path) -> None:
    data = vectors("float8")
    tensors = {"a.weight": data["block_q_bytes"].view(FP8)}
    tensors["a.weight_scale_inv"] = data["block_scale_inv"]
    folder = written(tmp_path, tensors, fp8_config())
    loaded = open_checkpoint(folder, delivered=DType.BF16).load("a.weight")
    np.testing.assert_array_equal(loaded.view(np.int16), data["block_dequant_bf16_bits"])


@given(rows=st.integers(1, 9), columns=st.integers(1, 9), block=st.tuples(*[st.integers(1, 5)] * 2))
def test_each_scale_reaches_exactly_its_block(
    rows: int, columns: int, block: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    tensors = blocks(rows, columns, block)
    folder = written(tmp_path_factory.mktemp("a"), tensors, fp8_config(list(block)))
    loaded = open_checkpoint(folder).load("a.weight")
    codes, scales = tensors.values()
    for i, j in np.ndindex(rows, columns):
        expected = np.float32(codes[i, j]) * scales[i // block[0], j // block[1]]
        assert loaded[i, j] == expected


def test_the_block_that_576_rows_cut_off(tmp_path: Path) -> None:
    tensors = blocks(576, 130)
    assert tensors["a.weight_scale_inv"].shape == (5, 2)
    found = open_checkpoint(written(tmp_path, tensors, fp8_config()))
    assert (found.shape("a.weight"), found.dtype("a.weight")) == ((576, 130), DType.F32)
    last = tensors["a.weight"][575, 129].astype(np.float32) * tensors["a.weight_scale_inv"][4, 1]
    assert found.load("a.weight")[575, 129] == last
    assert set(found.keys()) == {"a.weight"}


def test_the_codes_themselves_can_be_had(tmp_path: Path) -> None:
    tensors = blocks(3, 4)
    found = open_checkpoint(written(tmp_path, tensors, fp8_config()))
    weight = found.weight("a.weight").weight
    assert isinstance(weight, QuantizedTensor)
    np.testing.assert_array_equal(weight.codes, tensors["a.weight"].view(np.uint8))
    assert found.is_quantized("a.weight")


def test_bytes_without_scales_are_no_float8(tmp_path: Path) -> None:
    """A converter that asks for the size of an element takes int8 weights for float8."""
    codes = np.arange(6, dtype=np.int8).reshape(2, 3)
    found = open_checkpoint(written(tmp_path, {"a.weight": codes}, fp8_config()))
    assert found.dtype("a.weight") == DType.I8
    np.testing.assert_array_equal(found.load("a.weight"), codes)


def test_a_scale_of_zero_is_a_block_of_zeros(tmp_path: Path) -> None:
    tensors = blocks(3, 4, (2, 2))
    tensors["a.weight_scale_inv"][0, 1] = 0
    loaded = open_checkpoint(written(tmp_path, tensors, fp8_config([2, 2]))).load("a.weight")
    assert not loaded[:2, 2:].any()
    expected = tensors["a.weight"][:2, :2].astype(np.float32) * tensors["a.weight_scale_inv"][0, 0]
    np.testing.assert_array_equal(loaded[:2, :2], expected)


def test_a_missing_scale_is_named(tmp_path: Path) -> None:
    tensors = blocks(3, 4)
    del tensors["a.weight_scale_inv"]
    with pytest.raises(GraphError, match=r"missing-tensor.*`a.weight_scale_inv` is not in"):
        open_checkpoint(written(tmp_path, tensors, fp8_config()))


def test_scales_of_nothing_are_named(tmp_path: Path) -> None:
    tensors = blocks(3, 4)
    del tensors["a.weight"]
    with pytest.raises(GraphError, match=r"missing-tensor.*`a.weight` is not in"):
        open_checkpoint(written(tmp_path, tensors, fp8_config()))


def test_another_block_size_than_the_configuration_says_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, blocks(576, 130), fp8_config([64, 128]))
    with pytest.raises(GraphError) as caught:
        open_checkpoint(folder)
    assert str(caught.value) == (
        "error[wrong-shape]: tensor `a.weight_scale_inv` has shape [5, 2] and should have [9, 2]\n"
        "   = note: `a.weight` is [576, 130] in blocks of 64 by 128, as `weight_block_size` of "
        "config.json says\n\nhint: use the files of one model"
    )


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0])
def test_a_scale_that_is_none_is_refused(scale: float, tmp_path: Path) -> None:
    tensors = blocks(3, 4, (2, 2))
    tensors["a.weight_scale_inv"][1, 0] = scale
    found = open_checkpoint(written(tmp_path, tensors, fp8_config([2, 2])))
    with pytest.raises(GraphError, match=r"bad-scale.*`a.weight_scale_inv` is .* at \[1, 0\]"):
        found.load("a.weight")


def test_a_code_of_nan_is_refused(tmp_path: Path) -> None:
    tensors = blocks(3, 4)
    tensors["a.weight"].view(np.uint8)[2, 1] = 0xFF
    found = open_checkpoint(written(tmp_path, tensors, fp8_config()))
    with pytest.raises(GraphError, match=r"values-not-finite.*`a.weight` has .* \[2, 1\]"):
        found.load("a.weight")


def test_weights_in_blocks_have_two_axes(tmp_path: Path) -> None:
    tensors = {"a": np.ones(3, FP8), "a_scale_inv": np.ones(1, np.float32)}
    with pytest.raises(GraphError, match="wrong-shape"):
        open_checkpoint(written(tmp_path, tensors, fp8_config()))


def test_scales_of_integers_are_refused(tmp_path: Path) -> None:
    tensors = {**blocks(3, 4), "a.weight_scale_inv": np.ones((1, 1), np.int32)}
    with pytest.raises(GraphError, match=r"tensor-format.*`a.weight_scale_inv` is in int32"):
        open_checkpoint(written(tmp_path, tensors, fp8_config()))
