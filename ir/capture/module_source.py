"""The parameters and buffers of a live module as a source of tensors."""

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ascendfx.ir.capture.translation import DTYPES
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import unknown_tensor
from ascendfx.ir.tensor_type import DType


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """Tensors of a module, shared with it and not copied.

    They are read more than once: an engine has one set of weights, a package another one if the
    module was changed between the first reading and a later one. PyTorch counts changes in place,
    so this is seen: where the count differs, the bytes must not (`Module.double` and back again
    count, too). Changes through ``tensor.data`` are not counted.

    Complex tensors are two tensors, ``<key>.real`` and ``<key>.imag``.

    Attributes:
        tensors: The module's tensors by every name they have.
        formats: Element formats to convert to when loading, where they differ.
        read: Of each tensor that was read, how often it had been changed (None: PyTorch does not
            count), and the CRC-32 of its bytes.
    """

    tensors: Mapping[str, Tensor]
    formats: Mapping[str, DType]
    read: dict[str, tuple[int | None, int]]

    def keys(self) -> Collection[str]:
        """Return the keys of all tensors."""
        return self.tensors.keys()

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape."""
        return tuple(self._find(key).shape)

    def dtype(self, key: str) -> DType:
        """Return the element format that `load` delivers."""
        return self.formats.get(key, DTYPES[str(self._find(key).dtype)])

    def load(self, key: str) -> NDArray[Any]:
        """Return the values.

        Raises:
            GraphError: The tensor is on the meta device, or was changed in place since it was read.
        """
        tensor = self._find(key)
        if tensor.is_meta:
            raise GraphError(
                "missing-tensor",
                f"`{key}` has no values, it is on the meta device",
                hint="load the weights, or compile the model's directory",
            )
        array = array_of(tensor)
        version = None if tensor.is_inference() else tensor._version
        if key not in self.read:
            self.read[key] = version, _checksum(array)
        if self.read[key][0] != version and self.read[key][1] != _checksum(array):
            raise GraphError(
                "changed-weights",
                f"`{key}` was changed in place after it was first read: an engine and its package "
                "would be different models",
                hint="compile again, or change a copy of the module",
            )
        return array.astype(self.dtype(key).numpy, copy=False)

    def _find(self, key: str) -> Tensor:
        if key not in self.tensors:
            raise unknown_tensor(key)
        return self.tensors[key]


def source_of_module(module: nn.Module, formats: Mapping[str, DType]) -> ModuleSource:
    """Return the parameters and buffers of ``module``; nothing is copied."""
    tensors: dict[str, Tensor] = {}
    for table in (module.named_parameters, module.named_buffers):
        for name, tensor in table(remove_duplicate=False):
            if tensor.is_complex():
                parts = torch.view_as_real(tensor.detach())
                tensors[f"{name}.real"], tensors[f"{name}.imag"] = parts.unbind(-1)
            else:
                tensors[name] = tensor.detach()
    return ModuleSource(tensors, formats, {})


def _checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def array_of(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor as an array that shares its memory where it is on the CPU."""
    host = tensor.detach().cpu()
    if host.dtype is torch.bfloat16:
        return host.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return np.asarray(host.numpy())
