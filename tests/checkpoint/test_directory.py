"""A Hugging Face directory is captured with its weights, or refused with one message."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.checkpoint.capture_model import capture_model
from tests.capture.eager_float64 import assert_equals_eager
from tests.capture.tiny_models import VOCABULARY, random_weights, tiny_latent, yarn

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DeepseekV3ForCausalLM]:
    """A directory as the hub has it: one tensor per expert; and the model it came from."""
    config = DeepseekV3Config(
        **tiny_latent(
            num_hidden_layers=3,
            num_attention_heads=2,
            num_key_value_heads=2,
            n_group=2,
            topk_group=1,
            num_experts_per_tok=2,
            eos_token_id=[1, 7],
            rope_parameters=yarn(0.707, 1.0),
        )
    )
    model = DeepseekV3ForCausalLM(config)
    random_weights(model, 5)
    directory = tmp_path_factory.mktemp("model")
    model.save_pretrained(directory)
    return directory, model


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the trace of the directory: the files are looked at each time."""
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def captured(saved: tuple[Path, DeepseekV3ForCausalLM], traces: Path) -> CapturedModel:
    return capture_model(saved[0], trace_folder=traces)


@pytest.fixture
def broken(saved: tuple[Path, DeepseekV3ForCausalLM], tmp_path: Path) -> Path:
    """A copy of the directory, to be damaged."""
    for file in saved[0].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_directory_is_captured_with_its_weights(
    saved: tuple[Path, DeepseekV3ForCausalLM], captured: CapturedModel
) -> None:
    directory, model = saved
    assert "model.layers.1.mlp.experts.3.up_proj.weight" in load_file(directory / WEIGHTS)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (2, 9))
    assert_equals_eager(captured, model, ids)
    facts = captured.facts
    assert (facts.vocabulary, facts.end_ids, facts.max_positions) == (VOCABULARY, (1, 7), 4096)
    assert facts.dtype is DType.F32
    assert captured.remarks == ()


def test_expert_tensors_are_packed_in_the_order_of_the_model(
    saved: tuple[Path, DeepseekV3ForCausalLM], captured: CapturedModel
) -> None:
    source = captured.source
    for key, parameter in saved[1].named_parameters():
        np.testing.assert_array_equal(source.load(key), parameter.detach().numpy())
        assert source.shape(key) == tuple(parameter.shape)


def test_another_format_is_delivered_on_request(
    saved: tuple[Path, DeepseekV3ForCausalLM],
) -> None:
    directory, model = saved
    captured = capture_model(directory, dtype=DType.BF16)
    key = "model.layers.0.mlp.up_proj.weight"
    loaded = captured.source.load(key)
    expected = model.get_parameter(key).detach().to(torch.bfloat16)
    assert captured.source.dtype(key) is DType.BF16
    np.testing.assert_array_equal(loaded.astype(np.float32), expected.float().numpy())
    assert captured.source.dtype("model.layers.1.mlp.gate.weight") is DType.F32, "the router stays"


def test_stored_tensors_are_views_of_the_file(captured: CapturedModel) -> None:
    loaded = captured.source.load("lm_head.weight")
    assert not loaded.flags.owndata
    assert not loaded.flags.writeable


def _edit(directory: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    tensors = dict(load_file(directory / WEIGHTS))
    change(tensors)
    save_file(tensors, directory / WEIGHTS)


def _no_config(directory: Path) -> None:
    (directory / "config.json").unlink()


def _no_json(directory: Path) -> None:
    (directory / "config.json").write_text("{", encoding="utf-8")


def _unknown_architecture(directory: Path) -> None:
    (directory / "config.json").write_text('{"model_type": "no_such_model"}', encoding="utf-8")


def _no_weights(directory: Path) -> None:
    (directory / WEIGHTS).rename(directory / "pytorch_model.bin")


def _truncated(directory: Path) -> None:
    data = (directory / WEIGHTS).read_bytes()
    (directory / WEIGHTS).write_bytes(data[: len(data) - 100])


def _only_a_few_bytes(directory: Path) -> None:
    (directory / WEIGHTS).write_bytes(b"abc")


def _header_cut(directory: Path) -> None:
    (directory / WEIGHTS).write_bytes((directory / WEIGHTS).read_bytes()[:500])


def _missing(directory: Path) -> None:
    _edit(directory, lambda t: t.pop("model.layers.0.mlp.up_proj.weight"))


def _missing_expert(directory: Path) -> None:
    _edit(directory, lambda t: t.pop("model.layers.2.mlp.experts.7.down_proj.weight"))


def _extra(directory: Path) -> None:
    _edit(directory, lambda t: t.update({"model.layers.9.oddity": np.zeros(3, np.float32)}))


def _extra_expert(directory: Path) -> None:
    name = "model.layers.1.mlp.experts.8.{}_proj.weight"
    shapes = {"up": (16, 32), "gate": (16, 32), "down": (32, 16)}
    _edit(
        directory,
        lambda t: t.update({name.format(k): np.zeros(s, np.float32) for k, s in shapes.items()}),
    )


def _wrong_shape(directory: Path) -> None:
    key = "model.layers.0.mlp.up_proj.weight"
    _edit(directory, lambda t: t.update({key: np.zeros((4, 32), np.float32)}))


def _shard_missing(directory: Path) -> None:
    keys = load_file(directory / WEIGHTS)
    (directory / WEIGHTS).rename(directory / "model-00001-of-00002.safetensors")
    places = dict.fromkeys(keys, "model-00001-of-00002.safetensors")
    places["lm_head.weight"] = "model-00002-of-00002.safetensors"
    text = json.dumps({"weight_map": places})
    (directory / "model.safetensors.index.json").write_text(text, encoding="utf-8")


def _shard_elsewhere(directory: Path) -> None:
    (directory / "deeper").mkdir()
    (directory / WEIGHTS).rename(directory / "deeper" / WEIGHTS)
    places = dict.fromkeys(load_file(directory / "deeper" / WEIGHTS), f"deeper/../deeper/{WEIGHTS}")
    text = json.dumps({"weight_map": places})
    (directory / "model.safetensors.index.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "code", "named"),
    [
        (_no_config, "no-model", "config.json"),
        (_no_json, "damaged-file", "config.json"),
        (_unknown_architecture, "unknown-model", "no_such_model"),
        (_no_weights, "no-weights", ".safetensors"),
        (_truncated, "damaged-file", WEIGHTS),
        (_only_a_few_bytes, "damaged-file", WEIGHTS),
        (_header_cut, "damaged-file", WEIGHTS),
        (_missing, "missing-tensor", "model.layers.0.mlp.up_proj.weight"),
        (_missing_expert, "missing-tensor", "model.layers.2.mlp.experts.7.down_proj.weight"),
        (_extra, "extra-tensor", "model.layers.9.oddity"),
        (_extra_expert, "extra-tensor", "model.layers.1.mlp.experts.8."),
        (_wrong_shape, "wrong-shape", "model.layers.0.mlp.up_proj.weight"),
        (_shard_missing, "no-weights", "model-00002-of-00002.safetensors"),
        (_shard_elsewhere, "damaged-file", "no name of a file beside it"),
    ],
)
def test_a_broken_directory_is_refused_with_file_and_tensor(
    broken: Path, damage: Callable[[Path], None], code: str, named: str
) -> None:
    damage(broken)
    with pytest.raises(GraphError) as caught:
        capture_model(broken)
    error = caught.value
    assert error.code == code
    assert named in error.reason
    assert str(broken) in error.reason or code == "no-weights"
    assert error.hint


def test_a_directory_that_does_not_exist_is_refused() -> None:
    with pytest.raises(GraphError, match="there is no directory"):
        capture_model("no/such/place")


def test_shards_are_read_through_the_index(
    broken: Path, saved: tuple[Path, DeepseekV3ForCausalLM], traces: Path
) -> None:
    tensors = load_file(broken / WEIGHTS)
    (broken / WEIGHTS).unlink()
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    halves = [{k: v for j, (k, v) in enumerate(tensors.items()) if j % 2 == i} for i in (0, 1)]
    for name, half in zip(names, halves, strict=True):
        save_file(half, broken / name)
    places = {key: name for name, half in zip(names, halves, strict=True) for key in half}
    text = json.dumps({"weight_map": places})
    (broken / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    source = capture_model(broken, trace_folder=traces).source
    for key, parameter in saved[1].named_parameters():
        np.testing.assert_array_equal(source.load(key), parameter.detach().numpy())


def test_draft_layers_are_not_captured_but_can_be_read(broken: Path) -> None:
    config = json.loads((broken / "config.json").read_text(encoding="utf-8"))
    config["num_nextn_predict_layers"] = 1
    (broken / "config.json").write_text(json.dumps(config), encoding="utf-8")
    last = "model.layers.2."

    def add(tensors: dict[str, np.ndarray]) -> None:
        copies = {k.replace(last, "model.layers.3."): v for k, v in tensors.items() if last in k}
        tensors.update(copies)
        for part in ("enorm", "hnorm", "eh_proj"):  # what makes it a draft layer
            tensors[f"model.layers.3.{part}.weight"] = np.ones(1, np.float32)

    _edit(broken, add)
    captured = capture_model(broken)
    assert len(captured.remarks) == 1
    np.testing.assert_array_equal(
        captured.source.load("model.layers.3.mlp.experts.gate_up_proj"),
        captured.source.load("model.layers.2.mlp.experts.gate_up_proj"),
    )
