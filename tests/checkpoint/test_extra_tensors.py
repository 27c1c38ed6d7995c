"""A draft layer is known by what only it has; every other tensor that nobody reads is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.capture_model import capture_model
from tests.checkpoint.draft_checkpoint import LAYERS, WEIGHTS, WIDTH, write_checkpoint

Tensors = dict[str, NDArray[Any]]
LAYER = f"model.layers.{LAYERS}"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    write_checkpoint(directory)
    return directory


@pytest.fixture
def directory(saved: Path, tmp_path: Path) -> Path:
    """A copy of the directory, to be damaged."""
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def _edit(directory: Path, change: Callable[[Tensors], object]) -> None:
    tensors = dict(load_file(directory / WEIGHTS))
    change(tensors)
    save_file(tensors, directory / WEIGHTS)


def _configure(directory: Path, **changes: object) -> None:
    file = directory / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}), encoding="utf-8")


def _refused(directory: Path, *, drafts: bool = False) -> GraphError:
    with pytest.raises(GraphError) as caught:
        capture_model(directory, drafts=drafts)
    return caught.value


def test_layers_of_the_model_are_no_draft_layers(directory: Path) -> None:
    """One layer too few in config.json, and as many draft layers as are left."""
    _configure(directory, num_hidden_layers=LAYERS - 1, num_nextn_predict_layers=2)
    error = _refused(directory)
    assert error.code == "extra-tensor"
    assert f"`model.layers.{LAYERS - 1}." in error.reason
    assert any("draft layer" in note and "eh_proj.weight" in note for note in error.notes)


@pytest.mark.parametrize("part", ["eh_proj.weight", "enorm.weight", "hnorm.weight"])
def test_a_layer_without_a_part_that_joins_is_no_draft_layer(directory: Path, part: str) -> None:
    _edit(directory, lambda tensors: tensors.pop(f"{LAYER}.{part}"))
    assert _refused(directory).code == "extra-tensor"


def test_a_draft_layer_that_is_not_announced_is_refused(directory: Path) -> None:
    _configure(directory, num_nextn_predict_layers=0)
    assert _refused(directory).code == "extra-tensor"


@pytest.mark.parametrize(
    "key",
    [
        f"model.layers.0.mlp.experts.{LAYERS}.odd.weight",  # the layer's number, at another place
        f"model.{LAYERS}.weight",
        f"other.layers.{LAYERS}.mlp.weight",
        f"{LAYER}0.mlp.weight",
        "model.layers.0.mlp.odd_scale_inv",  # scales of nothing
        f"{LAYER}_scale_inv",
    ],
)
def test_a_tensor_that_looks_like_a_part_of_something_is_refused(directory: Path, key: str) -> None:
    _edit(directory, lambda tensors: tensors.update({key: np.zeros((1, 1), np.float32)}))
    error = _refused(directory)
    assert error.code == "extra-tensor"
    assert f"`{key}`" in error.reason


def test_scales_of_a_draft_layer_belong_to_it(directory: Path) -> None:
    scales = np.ones((1, 1), np.float32)
    _edit(directory, lambda each: each.update({f"{LAYER}.eh_proj.weight_scale_inv": scales}))
    (remark,) = capture_model(directory).remarks
    assert "draft layers are not captured" in remark


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1,), ()])
def test_scales_of_another_number_of_blocks_are_refused(
    directory: Path, shape: tuple[int, ...]
) -> None:
    key = "model.layers.0.mlp.up_proj.weight"
    scales = {f"{key}_scale_inv": np.ones(shape, np.float32)}
    _edit(directory, lambda tensors: tensors.update(scales))
    error = _refused(directory)
    assert error.code == "wrong-shape"
    assert f"`{key}_scale_inv`" in error.reason
    assert str([128, 128]) in error.reason


def test_scales_of_a_tensor_without_blocks_are_refused(directory: Path) -> None:
    key = "model.layers.0.input_layernorm.weight"
    scales = {f"{key}_scale_inv": np.ones((1,), np.float32)}
    _edit(directory, lambda tensors: tensors.update(scales))
    error = _refused(directory)
    assert error.code == "wrong-shape"
    assert str([WIDTH]) in error.reason
