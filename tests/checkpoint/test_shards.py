"""Weights in several files: no tensor counts unsaid, and none is left out unsaid."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.runtime.checkpoint.checkpoint_source import source_of_checkpoint
from ascendfx.runtime.checkpoint.extra_tensors import refuse_extra
from ascendfx.runtime.checkpoint.read_directory import stored_tensors


def written(folder: Path, files: dict[str, tuple[str, ...]]) -> None:
    for number, (name, keys) in enumerate(files.items()):
        save_file({key: np.full(3, number, np.float32) for key in keys}, folder / name)


def indexed(folder: Path, places: dict[str, str]) -> None:
    text = json.dumps({"weight_map": places})
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")


def test_a_tensor_in_two_files_without_an_index_is_refused(tmp_path: Path) -> None:
    written(tmp_path, {"model-a.safetensors": ("x", "y"), "model-b.safetensors": ("y", "z")})
    with pytest.raises(GraphError) as caught:
        stored_tensors(tmp_path)
    assert caught.value.code == "duplicate-tensor"
    for name in ("model-a.safetensors", "model-b.safetensors", "`y`"):
        assert name in caught.value.reason


def test_the_index_says_which_of_two_counts(tmp_path: Path) -> None:
    written(tmp_path, {"model-a.safetensors": ("x", "y"), "model-b.safetensors": ("y", "z")})
    for file in ("model-a", "model-b"):
        indexed(
            tmp_path,
            {"x": "model-a.safetensors", "y": f"{file}.safetensors", "z": "model-b.safetensors"},
        )
        assert stored_tensors(tmp_path)["y"].file.stem == file


def test_a_tensor_that_the_index_does_not_name_is_not_left_out(tmp_path: Path) -> None:
    written(tmp_path, {"model-a.safetensors": ("x", "bias"), "model-b.safetensors": ("y",)})
    indexed(tmp_path, {"x": "model-a.safetensors", "y": "model-b.safetensors"})
    stored = stored_tensors(tmp_path)
    wanted = {key: TensorType(DType.F32, (3,)) for key in ("x", "y")}
    with pytest.raises(
        GraphError, match=r"error\[extra-tensor\]: tensor `bias` of .*a.safetensors"
    ):
        refuse_extra(source_of_checkpoint(stored, wanted), stored, wanted, ())
