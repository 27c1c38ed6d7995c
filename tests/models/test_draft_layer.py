"""The draft layer of the bundled model: captured, in serving form, and beside transformers."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from numpy.typing import NDArray
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM
from transformers.modeling_layers import MtpModel
from transformers.utils import logging

from ascendfx import bundled_model
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.capture.eager_modules import in_float64
from ascendfx.ir.interpret import interpret
from ascendfx.ir.program import Program, param_names
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.presets import DECODE, PREFILL, TO_SERVING
from tests.models.draft_steps import assert_pieces_equal_the_whole, in_one_go, pieces

GOLDEN = "golden_logits.safetensors"
WIDTH, VOCABULARY = 192, 4096


@cache
def captured() -> CapturedModel:
    traces = trace_folder_of(None)  # as engines with drafts
    return capture_model(bundled_model(), dtype=DType.F32, drafts=True, trace_folder=traces)


@cache
def serving() -> Program:
    return run_pipeline(captured().drafts[0], TO_SERVING)[0]


def test_the_captured_layer_gives_the_golden_logits() -> None:
    golden = load_file(bundled_model() / GOLDEN)
    ids = golden["input_ids"][0, 1:]
    hidden = golden["hidden_states.5"][:-1].astype(np.float64)
    (draft,) = captured().drafts
    logits, *_ = in_one_go(draft, TensorsByKey(captured().source), ids, hidden)
    # The golden values were computed in float32, those of the main model are as far from ours.
    np.testing.assert_allclose(logits, golden["mtp_logits"], rtol=0, atol=3e-5)


def test_it_reads_the_hidden_state_of_the_captured_model() -> None:
    golden = load_file(bundled_model() / GOLDEN)
    tensors = TensorsByKey(captured().source, {"token_ids": golden["input_ids"]})
    (logits,) = interpret(captured().program, tensors)
    np.testing.assert_allclose(logits[0], golden["logits"], rtol=0, atol=3e-5)
    (draft,) = captured().drafts
    assert draft.main.input_types["hidden"].shape[-1] == WIDTH
    assert captured().remarks == ()


def test_embedding_head_and_rotary_table_are_those_of_the_model() -> None:
    (draft,) = captured().drafts
    shared = {"model.embed_tokens.weight", "lm_head.weight", "model.rotary_emb.inv_freq"}
    assert set(param_names(draft.main)) == shared < set(param_names(captured().program.main))


def test_locations_name_the_layer_as_the_checkpoint_does() -> None:
    (draft,) = captured().drafts
    paths = {node.location.module for graph in draft.graphs for node in graph.nodes}
    assert {"model.layers.5.self_attn", "model.layers.5.enorm", "lm_head"} <= paths
    assert not any(path.startswith("mtp") for path in paths)


def test_the_serving_form_has_the_signature_of_a_draft() -> None:
    kinds = [f"{name} {kind}" for name, kind in serving().main.input_types.items()]
    assert kinds == [
        "token_ids i32[rows]",
        "hidden f32[rows, 192]",
        "positions i32[rows]",
        "slots i32[rows]",
        "row_request i32[rows]",
        "block_table i32[requests, table_blocks]",
        "logit_rows i32[requests]",
        "cache.0.0 f32[blocks, 128, 64]",
        "cache.0.1 f32[blocks, 128, 1, 16]",
    ]
    assert list(map(str, serving().main.output_types)) == [
        "i32[requests]",
        "f32[requests, 4096]",
        "f32[rows, 192]",
        "f32[rows, 192]",
        "f32[blocks, 128, 64]",
        "f32[blocks, 128, 1, 16]",
    ]
    assert len(serving().graphs) == 2, "the decoder layer is a function"


@pytest.mark.parametrize("passes", [(), DECODE, PREFILL], ids=["serving", "decode", "prefill"])
@given(lengths=pieces())
@settings(max_examples=5)
def test_steps_of_any_size_equal_the_full_forward(
    passes: tuple[ProgramPass, ...], lengths: list[list[int]]
) -> None:
    (draft,) = captured().drafts
    form = run_pipeline(serving(), passes)[0]
    assert_pieces_equal_the_whole(
        draft,
        form,
        TensorsByKey(captured().source),
        lengths,
        vocabulary=VOCABULARY,
        width=WIDTH,
        # Logits of some tens, sums of up to 512 terms in float64, six matrix products deep.
        atol=1e-10,
    )


@cache
def own_and_theirs() -> tuple[NDArray[np.float64], dict[int, NDArray[np.float64]]]:
    """Return the normed hidden state, and transformers' with positions from 0 and from 1."""
    random = np.random.default_rng(3)
    ids = random.integers(0, VOCABULARY, (1, 12))
    hidden = random.standard_normal((1, 12, WIDTH))
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        main: Any = AutoModelForCausalLM.from_pretrained(
            bundled_model(), dtype=torch.float32, attn_implementation="eager"
        )
        # transformers looks for the layer of the published model.
        pattern = [r"model\.layers\.5\..*"]
        main._keys_to_ignore_on_load_unexpected = pattern
        theirs = MtpModel.from_pretrained(main).eval()
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()
    found: dict[int, NDArray[np.float64]] = {}
    with in_float64(theirs):
        for first in (0, 1):
            found[first] = theirs.forward_layer(
                0,
                torch.from_numpy(hidden),
                first + torch.arange(12).unsqueeze(0),
                mtp_cache=None,
                input_ids=torch.from_numpy(ids),
            ).numpy()
    (draft,) = captured().drafts
    _, normed, _ = in_one_go(draft, TensorsByKey(captured().source), ids[0], hidden[0])
    return normed[None], found


def test_it_is_the_layer_of_transformers() -> None:
    own, theirs = own_and_theirs()
    np.testing.assert_allclose(own, theirs[0], rtol=0, atol=1e-10)


def test_true_positions_are_one_further_and_make_no_difference() -> None:
    own, theirs = own_and_theirs()
    # transformers rounds its rotary table to float32, which differs between positions.
    np.testing.assert_allclose(own, theirs[1], rtol=0, atol=1e-5)
