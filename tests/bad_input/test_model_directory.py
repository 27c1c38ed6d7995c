"""Directories that are no model, or a damaged one: one error that names the file, and no package.

The same faults on the reader itself are in ``tests/checkpoint``, models that cannot be captured in
``tests/capture/test_traps.py``.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime import compile_model
from ascendfx.runtime.checkpoint import capture_model
from ascendfx.runtime.checkpoint.read_directory import stored_tensors
from tests.bad_input.ended import WEIGHTS, Command

Damage = Callable[[Path], object]


def rewrite(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def cut(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


def set_config(folder: Path, **fields: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def split(folder: Path) -> None:
    """Replace the weights by an index that names two files, of which one is missing."""
    keys = list(load_file(folder / WEIGHTS))
    (folder / WEIGHTS).rename(folder / "part-1.safetensors")
    places = dict.fromkeys(keys, "part-1.safetensors") | {keys[0]: "part-2.safetensors"}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": places}))


def bad_index(folder: Path, content: object) -> None:
    (folder / WEIGHTS).rename(folder / "part-1.safetensors")
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(content))


def pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


GAIN = "model.layers.1.input_layernorm.weight"
EXPERTS = "model.layers.1.mlp.experts.down_proj"

CASES: dict[str, tuple[Damage, str, str]] = {
    "no weights": (
        lambda folder: (folder / WEIGHTS).unlink(),
        "error[no-weights]: {folder} has no model.safetensors",
        "hint: download the weights",
    ),
    "tensors of another kind alone": (
        lambda folder: (folder / WEIGHTS).rename(folder / "golden_logits.safetensors"),
        "error[no-weights]: {folder} has no model.safetensors, and no model.safetensors.index.json",
        "it has golden_logits.safetensors",
    ),
    "only pickled weights": (pickled, "error[no-weights]: ", "it has pytorch_model.bin"),
    "no config": (
        lambda folder: (folder / "config.json").unlink(),
        "error[no-model]: {folder} has no config.json",
        "Hugging Face layout",
    ),
    "config is no JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        "error[damaged-file]: {folder}/config.json is no JSON",
        "",
    ),
    "config is a list": (
        lambda folder: (folder / "config.json").write_text("[]"),
        "error[damaged-file]: {folder}/config.json does not hold a JSON object",
        "",
    ),
    "config is nested deeply": (
        lambda folder: (folder / "config.json").write_text('{"a":' * 100_000),
        "error[damaged-file]: {folder}/config.json is no JSON",
        "",
    ),
    "a size of another type": (
        lambda folder: set_config(folder, hidden_size="16"),
        "error[unknown-model]: transformers cannot build the model of {folder}/config.json: Valid",
        "note: TypeError: Field 'hidden_size' expected int, got str (value: '16')",
    ),
    "a negative size": (
        lambda folder: set_config(folder, hidden_size=-16),
        "error[unknown-model]: transformers cannot build the model of {folder}/config.json",
        "negative dimension",
    ),
    "weights are a folder": (
        lambda folder: ((folder / WEIGHTS).unlink(), (folder / WEIGHTS).mkdir()),
        "error[damaged-file]: {folder}/model.safetensors is a folder, no file",
        "get the file again",
    ),
    "index without a map": (
        lambda folder: bad_index(folder, {}),
        "error[damaged-file]: {folder}/model.safetensors.index.json has no `weight_map`",
        "download the file again",
    ),
    "index with a list": (
        lambda folder: bad_index(folder, {"weight_map": ["a"]}),
        "error[damaged-file]: {folder}/model.safetensors.index.json has no `weight_map`",
        "download the file again",
    ),
    "index with numbers": (
        lambda folder: bad_index(folder, {"weight_map": {"a": 1}}),
        "error[damaged-file]: {folder}/model.safetensors.index.json has no `weight_map`",
        "download the file again",
    ),
    "an end token that is no number": (
        lambda folder: set_config(folder, eos_token_id=["x"]),
        "error[bad-config]: `eos_token_id` of {folder}/config.json is ['x'], it should be a",
        "",
    ),
    "an end token of another vocabulary": (
        lambda folder: (folder / "generation_config.json").write_text('{"eos_token_id": 99999}'),
        "error[bad-config]: `eos_token_id` of {folder}/generation_config.json has 99999, but token",
        "hint: ",
    ),
    "draft layers that are no number": (
        lambda folder: set_config(folder, num_nextn_predict_layers="x"),
        "error[bad-config]: `num_nextn_predict_layers` of {folder}/config.json is 'x'",
        "",
    ),
    "a quantization of another form": (
        lambda folder: set_config(folder, quantization_config="x"),
        "error[bad-config]: `quantization_config` of {folder}/config.json is 'x'",
        "",
    ),
    "no groups of experts": (
        lambda folder: set_config(folder, n_group=0),
        "error[model-fails]: the model cannot be called: ZeroDivisionError",
        "sizes of its configuration",
    ),
    "no experts": (
        lambda folder: set_config(folder, n_routed_experts=0),
        "error[wrong-shape]: tensor `model.layers.1.mlp.",
        "config.json and the weights belong to different models",
    ),
    "a layer too few": (
        lambda folder: set_config(folder, num_hidden_layers=1, num_nextn_predict_layers=1),
        "error[extra-tensor]: tensor `model.layers.1.",
        "`num_hidden_layers` may be too small",
    ),
    "tokenizer is no JSON": (
        lambda folder: (folder / "tokenizer.json").write_text("garbage"),
        "error[bad-tokenizer]: {folder}/tokenizer.json is not a tokenizer file",
        "remove it and pass token ids",
    ),
    "tokenizer is something else": (
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        "error[bad-tokenizer]: {folder}/tokenizer.json is not a tokenizer file",
        "",
    ),
    "unknown architecture": (
        lambda folder: set_config(folder, model_type="deepsea"),
        "error[unknown-model]: transformers cannot build the model of {folder}/config.json",
        "deepsea",
    ),
    "data cut off": (
        lambda folder: cut(folder / WEIGHTS, (folder / WEIGHTS).stat().st_size - 1),
        "error[damaged-file]: {folder}/model.safetensors is not a complete safetensors file: ten",
        "download the file again",
    ),
    "header cut off": (
        lambda folder: cut(folder / WEIGHTS, 100),
        "error[damaged-file]: {folder}/model.safetensors is not a complete safetensors file: the h",
        "download the file again",
    ),
    "empty file": (
        lambda folder: cut(folder / WEIGHTS, 0),
        "error[damaged-file]: {folder}/model.safetensors",
        "download the file again",
    ),
    "missing tensor": (
        lambda folder: rewrite(folder, lambda tensors: tensors.pop(GAIN)),
        f"error[missing-tensor]: tensor `{GAIN}` is not in {{folder}}/model.safetensors",
        "config.json and the weights belong to different models",
    ),
    "extra tensor": (
        lambda folder: rewrite(folder, lambda t: t.update({"model.extra": np.zeros(3)})),
        "error[extra-tensor]: tensor `model.extra` of {folder}/model.safetensors belongs to no",
        "config.json and the weights belong to different models",
    ),
    "wrong shape": (
        lambda folder: rewrite(folder, lambda t: t.update({GAIN: t[GAIN][:-1].copy()})),
        f"error[wrong-shape]: tensor `{GAIN}` of {{folder}}/model.safetensors has shape [15], the "
        "model needs [16]",
        "config.json and the weights belong to different models",
    ),
    "integers in place of numbers": (
        lambda folder: rewrite(folder, lambda t: t.update({GAIN: t[GAIN].astype(np.int32)})),
        f"error[tensor-format]: tensor `{GAIN}` of {{folder}}/model.safetensors is in int32, the",
        "must be expanded first",
    ),
    "truth values in place of numbers": (
        lambda folder: rewrite(folder, lambda t: t.update({GAIN: t[GAIN].astype(bool)})),
        f"error[tensor-format]: tensor `{GAIN}` of {{folder}}/model.safetensors is in bool, the",
        "must be expanded first",
    ),
    "an expert less": (
        lambda folder: rewrite(folder, lambda t: t.update({EXPERTS: t[EXPERTS][:-1].copy()})),
        f"error[wrong-shape]: tensor `{EXPERTS}` of {{folder}}/model.safetensors has shape "
        "[3, 16, 8], the model needs [4, 16, 8]",
        "config.json and the weights belong to different models",
    ),
    "config of another size": (
        lambda folder: set_config(folder, hidden_size=24),
        "error[wrong-shape]: tensor `",
        "config.json and the weights belong to different models",
    ),
    "a missing part": (
        split,
        "error[no-weights]: model.safetensors.index.json names part-2.safetensors, which is not in "
        "{folder}",
        "download the missing file",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_directory_is_one_error_and_no_package(
    name: str, checkpoint: Path, tmp_path: Path, command: Command
) -> None:
    damage, message, remedy = CASES[name]
    damage(checkpoint)
    ended = command("compile", checkpoint, "-o", tmp_path / "pkg")
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(message.format(folder=checkpoint))
    assert remedy in ended.error
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", ["torch", "transformers"])
def test_a_package_that_capturing_needs_is_named(
    name: str,
    original: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture_model, "find_spec", lambda each: None if each == name else object())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # no trace of an earlier run
    ended = command("compile", original, "-o", tmp_path / "pkg")
    assert ended.code == 1
    assert ended.error == (
        f"error[missing-package]: reading the layout of a model needs the package `{name}`, which "
        "is not installed\n\n"
        "hint: pip install 'ascendfx[capture]'; to run a package it is not needed\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_bad_tokenizer_is_found_before_the_model_is_read(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("read the model")

    monkeypatch.setattr(compile_model, "capture_model", fail)
    (checkpoint / "tokenizer.json").write_text("garbage")
    with pytest.raises(GraphError, match=r"error\[bad-tokenizer\]"):
        compile_model.compile_model(checkpoint)


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path, command: Command) -> None:
    ended = command("compile", tmp_path / "none", "-o", tmp_path / "pkg")
    assert ended.code == 1
    assert ended.error.startswith(f"error[no-model]: there is no directory {tmp_path / 'none'}\n")
    assert not list(tmp_path.iterdir())


@given(data=st.data())
@settings(max_examples=300)
def test_a_damaged_header_is_an_error_or_harmless(
    original: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """No byte of the header makes the reader fail in any other way."""
    content = bytearray((original / WEIGHTS).read_bytes())
    end = 8 + int.from_bytes(content[:8], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("damaged")
    (folder / WEIGHTS).write_bytes(content)
    try:
        for each in stored_tensors(folder).values():
            each.load()
    except GraphError as error:
        assert error.code in {"damaged-file", "tensor-format"}  # noqa: PT017
        assert WEIGHTS in error.reason  # noqa: PT017
    finally:
        (folder / WEIGHTS).unlink()


HEADERS = [
    [],
    {"a": {}},
    {"a": 3},
    {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}},
    {"a": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}},
    {"a": {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}},
    {"a": {"dtype": "F32", "shape": ["2"], "data_offsets": [0, 8]}},
    {"a": {"dtype": "F32", "shape": [2], "data_offsets": ["0", "8"]}},
    {"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}},
    {"a": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}},
    {"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}},
]


@pytest.mark.parametrize("header", HEADERS, ids=json.dumps)
def test_a_header_of_another_form_is_an_error(header: object, tmp_path: Path) -> None:
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + bytes(8)
    (tmp_path / WEIGHTS).write_bytes(content)
    with pytest.raises(GraphError) as caught:
        stored_tensors(tmp_path)
    assert caught.value.code in {"damaged-file", "tensor-format"}
