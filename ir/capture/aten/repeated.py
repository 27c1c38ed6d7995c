"""The mark of a layer that was not traced, see `shorten_layers`."""

from typing import Any

from ascendfx.ir.capture.translation import Handler, Result, Translation
from ascendfx.ir.ops.call import Call
from ascendfx.ir.tensor_type import TensorType


def repeated_layer(t: Translation, out: TensorType, hidden: Any, path: str) -> Result:
    """A call whose callee is, for now, the module path."""
    return t.add(Call(path, (out,), ()), t.operand(hidden, out.dtype))


REPEATED: dict[str, Handler] = {"ascendfx.repeated_layer.default": repeated_layer}
