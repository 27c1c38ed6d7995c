"""Evaluations of the bundled model: its program and its kernels against recorded numbers.

The recorded logits are those of transformers in float32; the bound is that of their products: of
logits below 32, sums of 192 terms in float32, through seven layers, differ by less than 1e-3.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import ascendfx
from ascendfx import Engine
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.evaluate.engine_model import EngineModel
from ascendfx.runtime.evaluate.evaluate import evaluate
from ascendfx.runtime.evaluate.language_model import ModelCard
from ascendfx.runtime.evaluate.open_model import ModelOptions, open_model
from ascendfx.runtime.evaluate.reference_model import ReferenceModel, reference_model
from tests.models.bundled import Golden

BOUND = 1e-3


@pytest.fixture(scope="module")
def reference() -> ReferenceModel:
    return reference_model(
        ascendfx.bundled_model(), dtype="float32", trace_folder=trace_folder_of(None)
    )


@pytest.fixture(scope="module")
def recorded() -> dict[str, np.ndarray]:
    file = ascendfx.bundled_model() / "golden_logits.safetensors"
    with safe_open(file, framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in ("input_ids", "logits", "mtp_logits")}


def test_logits_and_drafts_are_those_of_transformers(
    reference: ReferenceModel, recorded: dict[str, np.ndarray]
) -> None:
    ids = tuple(recorded["input_ids"][0].tolist())
    found = reference.predict(ids)
    assert found.drafts is not None
    assert np.abs(found.logits - recorded["logits"]).max() < BOUND
    assert np.abs(found.drafts - recorded["mtp_logits"]).max() < BOUND


def test_kernels_say_what_the_program_says(
    reference: ReferenceModel,
    recorded: dict[str, np.ndarray],
    engine_f32: Engine,
    golden: tuple[Golden, ...],
    tmp_path: Path,
) -> None:
    card = reference.card
    kernels = EngineModel(
        ModelCard("kernels", card.vocabulary, 128, card.end_ids, card.tokenizer), engine_f32
    )
    ids = recorded["input_ids"][0].tolist()[:8]
    rows = [
        {"input_ids": ids},
        {"task": "qa", "question": golden[0].prompt, "answer": "x", "stop": ["\u0000"]},
    ]
    file = tmp_path / "set.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = evaluate(kernels, [file], truth=reference)
    figures = found.figures("perplexity")
    assert figures["top1"] == 1
    assert abs(figures["change"]) < BOUND
    assert figures["kl"] < BOUND**2
    made = kernels.go_on(golden[0].prompt_ids, 12, lambda _: False)
    assert made.ids == golden[0].output_ids[:12]
    stopped = kernels.go_on(golden[0].prompt_ids, 12, lambda made: len(made) == 5)
    assert stopped.ids == golden[0].output_ids[:5]


def test_a_second_model_of_the_directory_is_made_of_the_first(reference: ReferenceModel) -> None:
    ids = (5, 6, 7)
    again = reference_model(ascendfx.bundled_model(), dtype="float32", like=reference.raised)
    assert again.raised is reference.raised
    assert np.array_equal(again.predict(ids).logits, reference.predict(ids).logits)
    quantized = reference_model(
        ascendfx.bundled_model(), quant="w8a8", dtype="float32", like=reference.raised
    )
    difference = np.abs(quantized.predict(ids).logits - reference.predict(ids).logits).max()
    assert 1e-3 < difference < 3
    other = reference_model(
        ascendfx.bundled_model(), trace_folder=trace_folder_of(None), like=reference.raised
    )
    assert other.raised is not reference.raised


def test_a_package_is_a_model(
    engine_f32: Engine, recorded: dict[str, np.ndarray], tmp_path: Path
) -> None:
    engine_f32.save(tmp_path / "pkg")
    model = open_model(tmp_path / "pkg")
    assert model.card.tokenizer == tmp_path / "pkg" / "tokenizer.json"
    assert (model.card.vocabulary, model.card.max_tokens) == (4096, 1024)
    ids = tuple(recorded["input_ids"][0].tolist()[:3])
    assert np.abs(model.predict(ids).logits - recorded["logits"][:3]).max() < BOUND
    with pytest.raises(GraphError, match="is a package, whose numbers are fixed: quant"):
        open_model(tmp_path / "pkg", ModelOptions(quant="w8a8"))


def test_kernels_of_a_directory_are_compiled(recorded: dict[str, np.ndarray]) -> None:
    model = open_model(ascendfx.bundled_model(), ModelOptions("emulator", dtype="float32"))
    ids = tuple(recorded["input_ids"][0].tolist()[:3])
    assert np.abs(model.predict(ids).logits - recorded["logits"][:3]).max() < BOUND
