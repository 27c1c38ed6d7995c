"""Draft layers of a directory are captured with their weights, or refused with one message."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from ascendfx.ir.capture import mtp_layers as mtp_layers_module
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.capture.eager_modules import in_float64
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.checkpoint import capture_model as module
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.traced_directory import trace_file
from ascendfx.runtime.presets import TO_SERVING
from tests.capture.tiny_models import VOCABULARY
from tests.checkpoint.draft_checkpoint import (
    WEIGHTS,
    WIDTH,
    eager_draft,
    write_checkpoint,
)
from tests.models.draft_steps import assert_pieces_equal_the_whole, in_one_go

Tensors = dict[str, NDArray[Any]]
LAYER = "model.layers.2"


@pytest.mark.parametrize("tied", [False, True])
def test_every_layer_is_that_of_transformers(tmp_path: Path, *, tied: bool) -> None:
    _, mtp = write_checkpoint(tmp_path, drafts=2, tie_word_embeddings=tied)
    captured = capture_model(tmp_path, drafts=True)
    random = np.random.default_rng(0)
    ids, hidden = random.integers(0, VOCABULARY, 9), random.standard_normal((9, WIDTH))
    assert len(captured.drafts) == 2
    for index, draft in enumerate(captured.drafts):
        logits, normed, raw = in_one_go(draft, TensorsByKey(captured.source), ids, hidden)
        with in_float64(mtp):
            theirs = eager_draft(
                mtp, index, torch.from_numpy(ids[None]), torch.from_numpy(hidden[None])
            )
        # Float64 sums of at most 64 terms around one, ten operations deep.
        np.testing.assert_allclose(logits, theirs[0][0].numpy(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(normed, theirs[1][0].numpy(), rtol=0, atol=1e-12)
        assert not np.allclose(raw, normed)
    names = {key for draft in captured.drafts for key in _keys(draft)}
    assert "model.embed_tokens.weight" in names
    assert ("lm_head.weight" in names) is not tied
    assert names <= set(captured.source.keys())
    assert captured.remarks == ()


def _keys(draft: Any) -> set[str]:
    own = {node.op.name for node in draft.main.nodes if node.op.mnemonic == "param"}
    calls = (node.op.keys for node in draft.main.nodes if node.op.mnemonic == "call")
    return own | {key for keys in calls for _, key in keys}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    write_checkpoint(directory)
    return directory


class Traced(NamedTuple):
    """The draft layers of `saved`, traced once, and the folder that keeps the trace."""

    fresh: CapturedModel
    folder: Path


@pytest.fixture(scope="module")
def traced(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    folder = tmp_path_factory.mktemp("traces")
    return Traced(capture_model(saved, drafts=True, trace_folder=folder), folder)


@pytest.fixture
def broken(saved: Path, tmp_path: Path) -> Path:
    """A copy of the directory, to be damaged."""
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_yarn_and_experts_in_serving_form(traced: Traced) -> None:
    captured = traced.fresh
    (draft,) = captured.drafts
    serving, _ = run_pipeline(draft, TO_SERVING)
    caches = [str(kind) for name, kind in serving.main.input_types.items() if "cache" in name]
    assert caches == ["f32[blocks, 128, 16]", "f32[blocks, 128, 1, 8]"]
    assert_pieces_equal_the_whole(
        draft,
        serving,
        TensorsByKey(captured.source),
        [[3, 1, 2], [1], [2, 2]],
        vocabulary=VOCABULARY,
        width=WIDTH,
        atol=1e-12,
    )


def test_drafts_cost_nothing_unless_they_are_asked_for(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("built draft layers")

    monkeypatch.setattr(mtp_layers_module, "mtp_layers", fail)
    captured = capture_model(saved)
    assert captured.drafts == ()
    assert len(captured.remarks) == 1
    assert "draft layers are not captured" in captured.remarks[0]
    with pytest.raises(AssertionError, match="built draft layers"):
        capture_model(saved, drafts=True)


def test_another_format_is_delivered_on_request(saved: Path) -> None:
    captured = capture_model(saved, dtype=DType.BF16, drafts=True)
    kinds = captured.drafts[0].main.input_types
    assert kinds["hidden"].dtype is DType.BF16
    assert captured.source.dtype(f"{LAYER}.eh_proj.weight") is DType.BF16
    assert captured.source.dtype(f"{LAYER}.mlp.gate.weight") is DType.F32, "the router stays"


def _edit(directory: Path, change: Callable[[Tensors], object]) -> None:
    tensors = dict(load_file(directory / WEIGHTS))
    change(tensors)
    save_file(tensors, directory / WEIGHTS)


def _configure(directory: Path, **changes: object) -> None:
    file = directory / "config.json"
    config = {**json.loads(file.read_text(encoding="utf-8")), **changes}
    file.write_text(json.dumps(config), encoding="utf-8")


def test_float8_weights_are_multiplied_by_their_scales(broken: Path) -> None:
    key = f"{LAYER}.eh_proj.weight"
    plain = load_file(broken / WEIGHTS)[key]
    scales = np.array([[0.5], [0.25]], np.float32)  # blocks of 16 rows and 64 columns
    wide = np.repeat(scales, 16, 0)
    stored = (plain / wide).astype(ml_dtypes.float8_e4m3fn)
    _edit(broken, lambda all_: all_.update({key: stored, f"{key}_scale_inv": scales}))
    _configure(broken, quantization_config={"weight_block_size": [16, 64]})
    captured = capture_model(broken, dtype=DType.F32, drafts=True)
    np.testing.assert_array_equal(captured.source.load(key), stored.astype(np.float32) * wide)
    # Four bits of each number are left.
    np.testing.assert_allclose(captured.source.load(key), plain, rtol=2**-4, atol=2**-9)


def test_copies_of_embedding_and_head_may_be_missing(broken: Path, traced: Traced) -> None:
    def drop(tensors: Tensors) -> None:
        del tensors[f"{LAYER}.embed_tokens.weight"], tensors[f"{LAYER}.shared_head.head.weight"]

    _edit(broken, drop)
    assert len(capture_model(broken, drafts=True, trace_folder=traced.folder).drafts) == 1


def _missing(tensors: Tensors) -> None:
    del tensors[f"{LAYER}.hnorm.weight"]


def _missing_expert(tensors: Tensors) -> None:
    del tensors[f"{LAYER}.mlp.experts.3.up_proj.weight"]


def _extra(tensors: Tensors) -> None:
    tensors[f"{LAYER}.hnorm.bias"] = np.zeros(WIDTH, np.float32)


def _wrong_shape(tensors: Tensors) -> None:
    tensors[f"{LAYER}.eh_proj.weight"] = np.zeros((WIDTH, WIDTH), np.float32)


def _own_vocabulary(tensors: Tensors) -> None:
    tensors[f"{LAYER}.shared_head.head.weight"] = np.zeros((VOCABULARY + 3, WIDTH), np.float32)


def _none_stored(tensors: Tensors) -> None:
    for key in [key for key in tensors if key.startswith(LAYER)]:
        del tensors[key]


@pytest.mark.parametrize(
    ("damage", "code", "part"),
    [
        (_missing, "missing-tensor", "hnorm.weight"),
        (_missing_expert, "missing-tensor", "experts.3.up_proj.weight"),
        (_extra, "extra-tensor", "hnorm.bias"),
        (_wrong_shape, "wrong-shape", "[32, 64]"),
        (_own_vocabulary, "wrong-shape", "shared_head.head.weight"),
        (_none_stored, "no-draft-layer", "has no `model.layers.2.*`"),
    ],
)
def test_files_that_do_not_fit_are_refused_before_tracing(
    broken: Path, damage: Callable[[Tensors], None], code: str, part: str
) -> None:
    _edit(broken, damage)
    with pytest.raises(GraphError) as caught:
        capture_model(broken, drafts=True)
    assert caught.value.code == code
    assert part in caught.value.reason
    assert caught.value.hint


def test_a_model_without_draft_layers_has_none_to_capture(broken: Path) -> None:
    _edit(broken, _none_stored)
    _configure(broken, num_nextn_predict_layers=0)
    with pytest.raises(GraphError, match=r"error\[no-draft-layer\].*num_nextn_predict_layers"):
        capture_model(broken, drafts=True)
    assert capture_model(broken).remarks == ()


def test_a_module_in_memory_brings_no_draft_layer(tmp_path: Path) -> None:
    main, _ = write_checkpoint(tmp_path)
    with pytest.raises(GraphError, match=r"error\[no-draft-layer\].*DeepseekV3ForCausalLM"):
        capture_model(main, drafts=True)


def test_a_kept_trace_has_the_drafts(
    saved: Path, traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, folder = traced
    plain = capture_model(saved, trace_folder=folder)
    assert trace_file(folder, saved, None) != trace_file(folder, saved, None, drafts=True)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("traced again")

    monkeypatch.setattr(module, "_trace", fail)
    kept = capture_model(saved, drafts=True, trace_folder=folder)
    assert kept.drafts == fresh.drafts
    assert kept.program == fresh.program == plain.program
    assert [n.location for g in kept.drafts[0].graphs for n in g.nodes] == [
        n.location for g in fresh.drafts[0].graphs for n in g.nodes
    ]
    assert set(kept.source.keys()) == set(fresh.source.keys())
    assert capture_model(saved, trace_folder=folder).drafts == ()


def test_files_are_checked_against_a_kept_trace(
    broken: Path, traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_trace", None)  # not called: it would check the files itself
    _edit(broken, _own_vocabulary)
    with pytest.raises(GraphError, match=r"error\[wrong-shape\].*shared_head"):
        capture_model(broken, drafts=True, trace_folder=traced.folder)


def test_a_kept_trace_with_drafts_needs_no_torch(saved: Path, traced: Traced) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from ascendfx.runtime.checkpoint.capture_model import capture_model\n"
        f"model, folder = {str(saved)!r}, Path({str(traced.folder)!r})\n"
        "found = capture_model(model, drafts=True, trace_folder=folder)\n"
        "assert len(found.drafts) == 1\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
