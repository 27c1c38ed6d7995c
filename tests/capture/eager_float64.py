"""A PyTorch model computed in float64 throughout: the independent judge of a capture."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.interpret import interpret
from ascendfx.ir.tensor_source import TensorsByKey
from tests.strategies.rounding_bound import rounding_bound

Ids = NDArray[np.int64]


class _Widened(TorchDispatchMode):
    """Replaces every float format that a call asks for by float64: nothing is rounded between."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        args, kwargs = tree_map(_widen, (args, kwargs or {}))
        return func(*args, **kwargs)


def _widen(value: Any) -> Any:
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    return value


def eager_in_float64(model: nn.Module, ids: Ids) -> NDArray[np.float64]:
    """Return the logits; afterwards the parameters of ``model`` are float64."""
    if getattr(getattr(model, "config", None), "n_routed_experts", None):
        # The loop over experts: unlike the captured form, and possible in float64.
        model.set_experts_implementation("eager")  # pyright: ignore[reportCallIssue]
    plain = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.no_grad(), _Widened():
            found = model.double()(torch.from_numpy(ids))
    finally:
        torch.set_default_dtype(plain)
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
