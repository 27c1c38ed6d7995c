"""Forms of checkpoints by the names that users have for them."""

from collections.abc import Callable, Mapping
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.compressed_form import CompressedForm
from ascendfx.quant_passes.checkpoint.hf_form import HfForm
from ascendfx.quant_passes.checkpoint.planned_tensor import CheckpointForm

_DTYPES = {"bfloat16": DType.BF16, "float16": DType.F16, "float32": DType.F32}
_FORMS: Mapping[str, Callable[[DType], CheckpointForm]] = {
    "ascend": lambda dtype: AscendForm(bf16=dtype is DType.BF16),
    "compressed-tensors": lambda _dtype: CompressedForm(),
    "hf": lambda _dtype: HfForm(),
}
FORMS = tuple(_FORMS)
"""Forms of checkpoints by name."""


def form_named(name: str, dtype: DType) -> CheckpointForm:
    """Return a form.

    Args:
        name: One of `FORMS`.
        dtype: In which the model computes.

    Raises:
        GraphError: `form-not-known`: no form has the name.
    """
    if name not in _FORMS:
        reason = f"no form of checkpoint is called `{name}`"
        raise GraphError("form-not-known", reason, hint=f"known: {', '.join(FORMS)}")
    return _FORMS[name](dtype)


def dtype_of(config: Mapping[str, Any]) -> DType:
    """Return the format in which the model of a ``config.json`` computes."""
    return _DTYPES.get(str(config.get("torch_dtype", config.get("dtype"))), DType.BF16)
