"""A PyTorch model computed in float64 throughout: the independent judge of a capture."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.capture.eager_modules import in_float64
from ascendfx.ir.interpret import interpret
from ascendfx.ir.tensor_source import TensorsByKey
from tests.strategies.rounding_bound import rounding_bound

Ids = NDArray[np.int64]


def eager_in_float64(model: nn.Module, ids: Ids) -> NDArray[np.float64]:
    """Return the logits; afterwards the parameters of ``model`` are float64."""
    with in_float64(model) as wide:
        found = wide(torch.from_numpy(ids))
    logits = found if isinstance(found, torch.Tensor) else found.logits
    return logits.numpy()


def assert_equals_eager(captured: CapturedModel, model: nn.Module, ids: Ids) -> None:
    """Assert that program and model agree as far as float64 permits.

    The bound is that of the program's own steps (running error analysis); the model takes the same
    steps, so its result is within the same bound of the exact one.
    """
    tensors = {
        key: array.astype(np.float64) if key != "token_ids" else array
        for key, array in TensorsByKey(captured.source, {"token_ids": ids}).items()
    }
    (program,) = interpret(captured.program, tensors)
    (bound,) = rounding_bound(captured.program, tensors)
    eager = eager_in_float64(model, ids)
    assert program.shape == eager.shape
    gap = np.abs(program - eager)
    assert np.all(gap <= 2 * bound), f"{gap.max()} exceeds {2 * bound.max()}"
    assert 2 * bound.max() < 1e-4 * np.abs(eager).max(), f"{bound.max()} says nothing"
