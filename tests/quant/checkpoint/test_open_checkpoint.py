"""Plain checkpoints, and what is none."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from tests.quant.checkpoint.directories import written


def test_numbers_are_read_as_they_are(tmp_path: Path) -> None:
    half = np.arange(6, dtype=np.float32).astype(ml_dtypes.bfloat16).reshape(2, 3)
    found = open_checkpoint(written(tmp_path, {"a": half, "b": np.ones(4, np.float32)}))
    assert found.form == "hf"
    assert [found.dtype(key) for key in ("a", "b")] == [DType.BF16, DType.F32]
    np.testing.assert_array_equal(found.load("a").view(np.uint16), half.view(np.uint16))
    assert not found.is_quantized("a")


@pytest.mark.parametrize("form", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("wrong", [np.nan, -np.inf])
def test_an_infinity_or_nan_is_named(form: type, wrong: float, tmp_path: Path) -> None:
    values = np.zeros((3, 5), form)
    values[1, 4] = wrong
    found = open_checkpoint(written(tmp_path, {"a.weight": values}))
    with pytest.raises(GraphError, match=r"values-not-finite.*`a.weight` has .* at \[1, 4\]"):
        found.load("a.weight")


def test_large_float64_are_finite(tmp_path: Path) -> None:
    found = open_checkpoint(written(tmp_path, {"a": np.full(3, 1e300)}))
    np.testing.assert_array_equal(found.load("a"), np.full(3, 1e300))


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="there is no tensor `b`"):
        open_checkpoint(written(tmp_path, {"a": np.ones(3)})).load("b")


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, {"a": np.ones(3)}, {"quantization_config": {"quant_method": "awq"}})
    with pytest.raises(GraphError, match=r"unknown-quantization.*'awq'"):
        open_checkpoint(folder)


def test_a_tensor_that_equals_another_one_is_stored_once(tmp_path: Path) -> None:
    folder = written(tmp_path, {})
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    save_file({"a": np.arange(3.0)}, folder / "model-1.safetensors")
    index = {"metadata": {"shared": {"b": "a"}}, "weight_map": {"a": "model-1.safetensors"}}
    file = folder / "model.safetensors.index.json"
    file.write_text(json.dumps(index), encoding="utf-8")
    found = open_checkpoint(folder)
    np.testing.assert_array_equal(found.load("b"), np.arange(3.0))
    for wrong in ({"b": "c"}, {"a": "a"}, [1]):
        file.write_text(json.dumps({**index, "metadata": {"shared": wrong}}), encoding="utf-8")
        with pytest.raises(GraphError, match="damaged-file"):
            open_checkpoint(folder)
