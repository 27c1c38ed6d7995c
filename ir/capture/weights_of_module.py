"""Which tensors of a module come from a checkpoint, and which its constructor computed."""

from torch import nn

from ascendfx.ir.capture.capture_program import canonical_keys
from ascendfx.ir.capture.module_source import array_of
from ascendfx.ir.capture.translation import DTYPES
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.ir.tensor_type import TensorType


def weight_types(module: nn.Module) -> tuple[dict[str, TensorType], dict[str, str]]:
    """Return the type of each tensor to load, by key; keys by the other names of shared ones."""
    canonical = canonical_keys(module)
    types: dict[str, TensorType] = {}
    others: dict[str, str] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if canonical[name] != name:
            others[name] = canonical[name]
            continue
        if str(tensor.dtype) not in DTYPES:
            raise GraphError(
                "tensor-format",
                f"parameter `{name}` is in {tensor.dtype}",
                hint="convert it, for example with model.to(torch.float32)",
            )
        types[name] = TensorType(DTYPES[str(tensor.dtype)], tuple(tensor.shape))
    return types, others


def computed_buffers(module: nn.Module) -> ArraySource:
    """Return the buffers that no checkpoint holds; large ones without values are left out."""
    stored = module.state_dict(keep_vars=True).keys()
    return ArraySource(
        {
            name: array_of(buffer)
            for name, buffer in module.named_buffers(remove_duplicate=False)
            if name not in stored and not buffer.is_meta
        }
    )
