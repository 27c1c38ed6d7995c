"""Give a tensor that a module has under two names a second one."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def untie(module: nn.Module, names: Iterable[str]) -> None:
    """Replace the tensors of these names by others of the same type; values are not copied."""
    for name in names:
        path, _, last = name.rpartition(".")
        owner = module.get_submodule(path)
        old: Tensor = getattr(owner, last)
        new = torch.empty_like(old, requires_grad=False)
        setattr(owner, last, nn.Parameter(new, old.requires_grad) if _is_parameter(old) else new)


def _is_parameter(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.Parameter)
