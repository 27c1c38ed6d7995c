"""Operations by which a step prepares the next one on the device: no part of a model."""

from collections.abc import Sequence

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.op import Op
from ascendfx.ir.tensor_type import TensorType


def device_only(
    _body: Body, op: Op, _operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Refuse.

    Raises:
        OpTypeError: Always.
    """
    raise OpTypeError(
        f"{op.mnemonic}: prepares the next step on the device, which an ONNX model does not",
        hint="export the program before it is closed into steps (pass `close-step`)",
    )
