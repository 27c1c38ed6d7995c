"""The bundled model without torch: its captured program, its weights, texts that it never saw."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ascendfx import bundled_model
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import ArraySource, LayeredSource, TensorSource
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.registry import RAISE
from ascendfx.passes.share_common import ShareCommon
from ascendfx.runtime.checkpoint.checkpoint_source import source_of_checkpoint
from ascendfx.runtime.checkpoint.read_directory import stored_tensors
from tests.models.bundled import heldout_tokens
from tests.passes.captured_models import captured

INV_FREQ = "model.rotary_emb.inv_freq"
"""What the constructor of the model computes: theta is 10,000, a head has 16 roped numbers."""


@cache
def raised_program() -> Program:
    """Return the program over whole texts, with the operations of the field."""
    return run_pipeline(captured("bundled_bf16"), (*RAISE, ShareCommon()))[0]


@cache
def weights() -> TensorSource:
    kinds = checkpoint_types(raised_program())
    wanted = {key: kind for key, kind in kinds.items() if key != INV_FREQ}
    stored = source_of_checkpoint(stored_tensors(bundled_model()), wanted)
    frequencies = (1 / 10_000 ** (np.arange(0, 16, 2) / 16)).astype(np.float32)
    return LayeredSource((ArraySource({INV_FREQ: frequencies}), stored))


def texts(per_language: int, length: int) -> NDArray[np.int64]:
    """Return held-out texts of twelve languages (code is one), ``[texts, length]``."""
    languages = heldout_tokens(per_language, length)
    return np.array([text for found in languages.values() for text in found])
