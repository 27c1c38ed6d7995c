"""Operations that ONNX has no form of."""

from ascendfx.ir.onnx.device_only import device_only
from ascendfx.ir.onnx.translators import TRANSLATIONS
from ascendfx.ir.op import Op


def on_device(op: Op) -> bool:
    """Return whether an operation prepares the next step, which no ONNX model does."""
    found = TRANSLATIONS.get(type(op))
    return found is not None and found.translate is device_only
