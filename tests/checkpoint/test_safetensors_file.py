"""The reader agrees with the safetensors library, tensor by tensor."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save_file

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.runtime.checkpoint.checkpoint_source import scale_blocks, source_of_checkpoint
from ascendfx.runtime.checkpoint.safetensors_file import read_header

FORMATS = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8, np.bool_]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tensors=st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1),
        st.sampled_from(FORMATS).flatmap(
            lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, min_side=0))
        ),
        max_size=4,
    )
)
def test_every_tensor_is_read_back(tensors: dict[str, np.ndarray], tmp_path: Path) -> None:
    tensors.pop("__metadata__", None)
    file = tmp_path / "a.safetensors"
    save_file(tensors, file)
    found = read_header(file)
    assert found.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(found[name].load(), array)
        assert found[name].load().dtype == array.dtype


def test_half_precision_brains_are_read_bit_by_bit(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).astype(ml_dtypes.bfloat16)
    save_file({"a": array}, tmp_path / "a.safetensors")
    loaded = read_header(tmp_path / "a.safetensors")["a"].load()
    np.testing.assert_array_equal(loaded.view(np.uint16), array.view(np.uint16))


@given(rows=st.integers(1, 9), columns=st.integers(1, 9), block=st.tuples(*[st.integers(1, 5)] * 2))
def test_block_scales_reach_exactly_their_block(
    rows: int, columns: int, block: tuple[int, int]
) -> None:
    """`kv_a_proj_with_mqa` of DeepSeek has 576 rows: the last block of 128 is cut off."""
    random = np.random.default_rng(0)
    values = random.standard_normal((rows, columns)).astype(ml_dtypes.float8_e4m3fn)
    scales = random.standard_normal((-(-rows // block[0]), -(-columns // block[1])))
    scaled = scale_blocks(values, scales.astype(np.float32), block)
    for i, j in np.ndindex(rows, columns):
        expected = np.float32(values[i, j]) * np.float32(scales[i // block[0], j // block[1]])
        assert scaled[i, j] == expected


def test_float8_weights_come_out_scaled_in_the_format_of_the_model(tmp_path: Path) -> None:
    values = np.full((3, 4), 2.0, ml_dtypes.float8_e4m3fn)
    scales = np.array([[0.5, 3.0]], np.float32)
    save_file({"w": values, "w_scale_inv": scales}, tmp_path / "a.safetensors")
    stored = read_header(tmp_path / "a.safetensors")
    source = source_of_checkpoint(stored, {"w": TensorType(DType.BF16, (3, 4))}, block=(3, 2))
    loaded = source.load("w")
    assert loaded.dtype == DType.BF16.numpy
    np.testing.assert_array_equal(loaded.astype(float), [[1, 1, 6, 6]] * 3)
    assert set(source.keys()) == {"w"}


def test_float8_weights_without_scales_are_refused(tmp_path: Path) -> None:
    save_file({"w": np.zeros((3, 4), ml_dtypes.float8_e4m3fn)}, tmp_path / "a.safetensors")
    stored = read_header(tmp_path / "a.safetensors")
    with pytest.raises(GraphError, match="without `w_scale_inv`"):
        source_of_checkpoint(stored, {"w": TensorType(DType.BF16, (3, 4))})


@pytest.mark.parametrize("shape", [(3,), (2, 5), (3, 4), (3, 5, 1), ()])
@pytest.mark.parametrize("name", ["0.gate", "0.up", "1.gate", "1.up"])
def test_experts_that_do_not_fit_each_other_are_refused(
    name: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    keys = {each: f"a.experts.{each}_proj.weight" for each in ("0.gate", "0.up", "1.gate", "1.up")}
    tensors = {key: np.zeros((3, 5), np.float32) for key in keys.values()}
    file = tmp_path / "a.safetensors"
    save_file(tensors, file)
    assert source_of_checkpoint(read_header(file), {}).shape("a.experts.gate_up_proj") == (2, 6, 5)
    save_file({**tensors, keys[name]: np.zeros(shape, np.float32)}, file)
    if name == "0.up" and shape == (2, 5):  # more rows of one half are another model's experts
        return
    with pytest.raises(GraphError, match=r"error\[wrong-shape\].*experts"):
        source_of_checkpoint(read_header(file), {})


def test_no_experts_at_all_are_no_parameter(tmp_path: Path) -> None:
    save_file({"w": np.zeros(3)}, tmp_path / "a.safetensors")
    wanted = {"a.experts.gate_up_proj": TensorType(DType.F32, (0, 6, 5))}
    with pytest.raises(GraphError, match=r"error\[missing-tensor\]"):
        source_of_checkpoint(read_header(tmp_path / "a.safetensors"), wanted)


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    save_file({"w": np.zeros(3)}, tmp_path / "a.safetensors")
    source = source_of_checkpoint(read_header(tmp_path / "a.safetensors"), {})
    with pytest.raises(GraphError, match="there is no tensor `v`"):
        source.load("v")
