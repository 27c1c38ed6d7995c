"""What each module of a live model returns: the independent judge of single layers."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


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


@contextmanager
def in_float64(model: nn.Module) -> Generator[nn.Module]:
    """Compute in float64 throughout; afterwards the parameters of ``model`` are float64."""
    if getattr(getattr(model, "config", None), "n_routed_experts", None):
        # The loop over experts: unlike the captured form, and possible in float64.
        model.set_experts_implementation("eager")  # pyright: ignore[reportCallIssue]
    plain = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.no_grad(), _Widened():
            yield model.double()
    finally:
        torch.set_default_dtype(plain)


def module_outputs(model: nn.Module, ids: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Return the first tensor that each module returns, by module path, in order of completion.

    Args:
        model: Computed in float64; its parameters are float64 afterwards.
        ids: ``[texts, tokens]``.
    """
    found: dict[str, NDArray[np.float64]] = {}

    def hook(path: str) -> Any:
        def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
            tensor = _first_tensor(output)
            if tensor is not None and tensor.is_floating_point():
                found[path] = tensor.detach().to(torch.float64).numpy().copy()

        return keep

    handles = [
        module.register_forward_hook(hook(path)) for path, module in model.named_modules() if path
    ]
    try:
        with in_float64(model) as wide:
            wide(torch.from_numpy(ids))
    finally:
        for handle in handles:
            handle.remove()
    return found


def _first_tensor(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict):
        output = tuple(output.values())
    if isinstance(output, list | tuple):
        return next((each for each in output if isinstance(each, Tensor)), None)
    return None
