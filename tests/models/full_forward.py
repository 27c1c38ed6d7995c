"""The truth: the plain forward of a captured model in float64, and transformers eager beside it."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from ascendfx import bundled_model
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.interpret import interpret
from ascendfx.ir.tensor_source import TensorsByKey


def true_logits(captured: CapturedModel, texts: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return ``[texts, tokens, vocabulary]`` of texts of equal length; nothing is rounded."""
    ids = np.array(texts, np.int64)
    return interpret(captured.program, TensorsByKey(captured.source, {"token_ids": ids}))[0]


def eager_logits(texts: Sequence[Sequence[int]], dtype: torch.dtype) -> NDArray[np.float64]:
    """Return what transformers computes with the bundled model in ``dtype``."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # the weights of the draft layer are not loaded
    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(
            bundled_model(),
            dtype=dtype,
            attn_implementation="eager",
            experts_implementation="eager",
        )
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()
    with torch.inference_mode():
        return model.eval()(torch.tensor(texts)).logits.double().numpy()
