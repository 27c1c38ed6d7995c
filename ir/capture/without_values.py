"""Modules whose large tensors have no memory: built from a configuration, or copied."""

import copy
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from ascendfx.ir.capture.translation import DTYPES
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_LARGE = 1 << 20
"""Elements above which a fresh tensor gets no memory: above any table that a model computes its
rotary frequencies from, below any matrix that makes building a model slow."""

_FACTORIES: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye,
        torch.randint, torch.randperm, torch.arange, torch.linspace, torch.tensor,
        torch.empty_strided,
    }
)  # fmt: skip

TORCH_DTYPES: Mapping[DType, torch.dtype] = {
    dtype: getattr(torch, name.removeprefix("torch."))
    for name, dtype in DTYPES.items()
    if "complex" not in name
}
"""PyTorch's name of each element format."""


class _LargeOnMeta(TorchFunctionMode):
    """Fresh tensors above `_LARGE` go to the meta device; what is computed from others does not.

    So weights take no memory, while buffers that a constructor computes keep their values.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        keywords = dict(kwargs or {})
        if func in _FACTORIES and keywords.get("device") is None and "out" not in keywords:
            shadow: Tensor = func(*args, **{**keywords, "device": "meta"})
            if shadow.numel() > _LARGE:
                return shadow
        return func(*args, **keywords)


@contextmanager
def large_tensors_on_meta() -> Generator[None]:
    """Build modules of any size inside the block; the global random state is not touched."""
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _LargeOnMeta():
        yield


def copy_without_values(
    module: nn.Module, dtype: DType | None
) -> tuple[nn.Module, dict[str, DType]]:
    """Return a copy whose tensors have no memory, and the formats that were changed.

    They claim to be on the CPU, so that fresh tensors of the model's forward go well with them.
    With ``dtype``, parameters in the module's prevailing float format change to it; others, such
    as a router kept in float32, and buffers stay.

    Raises:
        GraphError: Something in the module cannot be copied.
    """
    named = list(module.named_parameters(remove_duplicate=False))
    main = next((p.dtype for _, p in named if p.is_floating_point()), None)
    formats: dict[str, DType] = {}
    memo: dict[int, Any] = {
        id(value): value
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, Tensor)
    }
    with FakeTensorMode(allow_non_fake_inputs=True):
        for buffer in module.buffers():
            memo[id(buffer)] = torch.empty(buffer.shape, dtype=buffer.dtype, device="cpu")
        for name, parameter in named:
            kind = parameter.dtype
            if dtype is not None and kind is main:
                kind = TORCH_DTYPES[dtype]
                formats[name] = dtype
            if id(parameter) not in memo:
                empty = torch.empty(parameter.shape, dtype=kind, device="cpu")
                memo[id(parameter)] = nn.Parameter(empty, requires_grad=False)
    try:
        return copy.deepcopy(module, memo), formats
    except (TypeError, RuntimeError, copy.Error) as error:
        raise GraphError(
            "not-exportable",
            f"the module cannot be copied: {error}",
            hint="remove attributes such as locks, generators or process groups from the module",
        ) from error
