"""A tensor that a model has under two names is one only where the files agree; as transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM

from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.capture.untie import untie
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.ops import Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.runtime.checkpoint import capture_model as module
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.safetensors_file import read_header
from ascendfx.runtime.checkpoint.tied_tensors import TiedTensors
from tests.capture.eager_float64 import assert_equals_eager
from tests.capture.tiny_models import VOCABULARY
from tests.checkpoint.draft_checkpoint import WEIGHTS, write_checkpoint

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
SHARED_HEAD = "model.layers.2.shared_head.head.weight"


@pytest.fixture(scope="module")
def untied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose head is no copy of the embedding, and whose configuration ties them."""
    directory = tmp_path_factory.mktemp("untied")
    write_checkpoint(directory)
    config = directory / "config.json"
    fields = {**json.loads(config.read_text(encoding="utf-8")), "tie_word_embeddings": True}
    config.write_text(json.dumps(fields), encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def untied_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps traces of models with a head of its own; the files are looked at each time."""
    return tmp_path_factory.mktemp("untied_traces")


@pytest.fixture(scope="module")
def tied_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the trace of models whose head is the embedding."""
    return tmp_path_factory.mktemp("tied_traces")


@pytest.fixture
def directory(untied: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    folder = tmp_path / "model"
    folder.mkdir()
    for file in untied.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def _change(directory: Path, **tensors: NDArray[np.float32] | None) -> None:
    named = {"head": HEAD, "embedding": EMBEDDING, "shared": SHARED_HEAD}
    stored = dict(load_file(directory / WEIGHTS))
    for name, tensor in tensors.items():
        del stored[named[name]]
        stored |= {} if tensor is None else {named[name]: tensor}
    save_file(stored, directory / WEIGHTS)


def _stored(directory: Path, key: str) -> NDArray[np.float32]:
    return load_file(directory / WEIGHTS)[key]


def _assert_is_that_of_transformers(directory: Path, captured: CapturedModel) -> None:
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (2, 9))
    assert_equals_eager(captured, model, ids)


def test_a_head_of_its_own_is_used_whatever_the_configuration_says(untied: Path) -> None:
    captured = capture_model(untied)
    _assert_is_that_of_transformers(untied, captured)
    np.testing.assert_array_equal(captured.source.load(HEAD), _stored(untied, HEAD))
    assert any(HEAD in each and EMBEDDING in each for each in captured.remarks)


def test_the_draft_layer_uses_the_head_of_its_own_too(untied: Path, untied_traces: Path) -> None:
    (draft,) = capture_model(untied, drafts=True, trace_folder=untied_traces).drafts
    assert {HEAD, EMBEDDING} <= set(_parameters(draft))


def test_a_copy_is_one_tensor_and_no_remark(directory: Path, tied_traces: Path) -> None:
    _change(directory, head=_stored(directory, EMBEDDING))
    captured = capture_model(directory, trace_folder=tied_traces)
    _assert_is_that_of_transformers(directory, captured)
    assert not any(HEAD in each for each in captured.remarks)
    assert HEAD not in _parameters(captured.program)


def _parameters(program: Program) -> list[str]:
    return [node.op.name for node in program.main.nodes if isinstance(node.op, Param)]


@pytest.mark.parametrize("missing", ["head", "embedding"])
def test_either_name_may_be_the_only_one_in_the_files(
    directory: Path, tied_traces: Path, missing: str
) -> None:
    kept = _stored(directory, EMBEDDING)
    _change(directory, **{"head": kept, missing: None})
    captured = capture_model(directory, trace_folder=tied_traces)
    _assert_is_that_of_transformers(directory, captured)
    np.testing.assert_array_equal(captured.source.load(EMBEDDING), kept)


def test_both_missing_is_an_error(directory: Path) -> None:
    _change(directory, head=None, embedding=None)
    with pytest.raises(GraphError, match=rf"error\[missing-tensor\]: tensor `{EMBEDDING}`"):
        capture_model(directory)


def test_a_head_of_another_shape_is_an_error(directory: Path) -> None:
    _change(directory, head=_stored(directory, HEAD)[:-1].copy())
    with pytest.raises(GraphError, match=rf"error\[wrong-shape\]: tensor `{HEAD}`"):
        capture_model(directory)


def test_a_kept_trace_is_used_only_while_the_files_agree_with_it(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "traces"
    apart = capture_model(directory, trace_folder=folder)
    own, embedding = _stored(directory, HEAD), _stored(directory, EMBEDDING)
    _change(directory, head=embedding)
    tied = capture_model(directory, trace_folder=folder)
    assert tied.program != apart.program
    _change(directory, head=own)
    again = capture_model(directory, trace_folder=folder)
    assert again.program == apart.program
    assert again.remarks == apart.remarks
    _assert_is_that_of_transformers(directory, again)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("traced again")

    monkeypatch.setattr(module, "_trace", fail)
    kept = capture_model(directory, trace_folder=folder)
    assert kept.program == apart.program
    assert kept.remarks == apart.remarks


def test_a_draft_layer_with_another_head_is_remarked(directory: Path, untied_traces: Path) -> None:
    def remarks() -> tuple[str, ...]:
        return capture_model(directory, drafts=True, trace_folder=untied_traces).remarks

    assert not any(SHARED_HEAD in each for each in remarks())
    _change(directory, shared=_stored(directory, SHARED_HEAD) + 1)
    (remark,) = (each for each in remarks() if SHARED_HEAD in each)
    assert HEAD in remark


def test_stored_values_are_compared_with_their_scales_and_part_by_part(tmp_path: Path) -> None:
    a, b = np.ones((3, 4), np.float32), np.full((3, 4), 2, np.float32)
    expert = {"gate": np.ones((2, 4), np.float32), "up": np.zeros((2, 4), np.float32)}
    tensors = {"first": a, "same": a.astype(np.float16), "other": b, "longer": np.ones((4, 4))}
    tensors |= {"scaled": b, "scaled_scale_inv": np.full((1, 1), 0.5, np.float32)}
    last = a.copy()
    last[-1, -1] = 3
    tensors |= {"last": last, "zero": np.zeros(()), "nought": np.zeros(()), "one": np.ones(())}
    for layer, factor in (("x", 1), ("y", 1), ("z", 2)):
        for part, array in expert.items():
            tensors[f"{layer}.experts.0.{part}_proj.weight"] = factor * array
    save_file(tensors, tmp_path / WEIGHTS)
    tied = TiedTensors(read_header(tmp_path / WEIGHTS), (128, 128))
    kind, packed = TensorType(DType.F32, (3, 4)), TensorType(DType.F32, (1, 4, 4))
    names = dict.fromkeys(("same", "other", "longer", "scaled", "last", "absent"), "first")
    names |= {"nought": "zero", "one": "zero"}
    experts = [f"{layer}.experts.gate_up_proj" for layer in "xyz"]
    names |= dict.fromkeys(experts[1:], experts[0])
    wanted = {"first": kind, "zero": TensorType(DType.F32, ()), experts[0]: packed}
    found = tied.different(names, wanted)
    assert found == {"other", "longer", "last", "one", experts[2]}


def test_untying_leaves_types_and_the_first_name_alone() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 4), nn.Linear(3, 4)
            self.second.weight = self.first.weight
            self.register_buffer("table", torch.ones(2))

    made = Tied()
    first, table = made.first.weight, made.get_buffer("table")
    untie(made, ["second.weight", "table"])
    assert made.first.weight is first
    assert isinstance(made.second.weight, nn.Parameter)
    assert made.second.weight is not first
    assert made.second.weight.shape == first.shape
    assert made.get_buffer("table") is not table
    assert "table" not in dict(made.named_parameters())
