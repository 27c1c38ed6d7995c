"""ATen calls that make a tensor from nothing."""

from typing import Any

from ascendfx.ir.capture.translation import Buffer, Handler, Result, Translation
from ascendfx.ir.graph import Value
from ascendfx.ir.ops.greater_equal import GreaterEqual
from ascendfx.ir.ops.iota import Iota
from ascendfx.ir.ops.less_equal import LessEqual
from ascendfx.ir.ops.select import Select
from ascendfx.ir.tensor_type import DType, TensorType


def _of(number: float) -> Handler:
    def handler(t: Translation, out: TensorType, *_: Any, **_keywords: Any) -> Result:
        return t.filled(number, out)

    return handler


def full(t: Translation, out: TensorType, *arguments: Any, **_keywords: Any) -> Result:
    """One number everywhere: the last argument, whatever stands before it."""
    return t.filled(arguments[-1], out)


def fill(t: Translation, out: TensorType, _like: Any, number: Any) -> Result:
    """One number everywhere, given as a tensor without axes."""
    return t.expand(t.operand(number, out.dtype), out.shape)


def scalar(t: Translation, out: TensorType, number: Any, **_keywords: Any) -> Result:
    """One number without axes."""
    return t.filled(number, out)


def empty(t: Translation, out: TensorType, *_: Any, **_keywords: Any) -> Result:
    """Memory whose contents nobody may rely on."""
    del t
    return Buffer(out)


def arange(t: Translation, out: TensorType, *bounds: Any, **_keywords: Any) -> Result:
    """``start, start + step, ...``; one argument is the end, two are start and end."""
    start = bounds[0] if len(bounds) > 1 else 0
    step = bounds[2] if len(bounds) > 2 else 1
    whole = isinstance(start, int | float) and isinstance(step, int | float)
    if not whole or start != int(start) or step != int(step):
        raise t.refuse(f"counting from {start} by {step}: both must be whole numbers known now")
    return t.add(Iota(out.shape[0], out.dtype, int(start), int(step)))


def _triangle(*, lower: bool) -> Handler:
    def handler(t: Translation, out: TensorType, a: Any, diagonal: int = 0) -> Result:
        rows, columns = out.shape[-2:]
        row = t.reshape(t.add(Iota(rows, DType.I64, diagonal)), (rows, 1))
        column = t.add(Iota(columns, DType.I64))
        op = LessEqual() if lower else GreaterEqual()
        kept = t.add(op, column, row)
        value: Value = t.operand(a, out.dtype)
        return t.add(Select(), kept, value, t.constant(0, out.dtype))

    return handler


def _table(names: str, handler: Handler) -> dict[str, Handler]:
    return {f"aten.{name}": handler for name in names.split()}


CREATE: dict[str, Handler] = {
    **_table("zeros.default zeros_like.default new_zeros.default", _of(0)),
    **_table("ones.default ones_like.default new_ones.default", _of(1)),
    **_table("full_like.default new_full.default fill.Scalar", full),
    **_table("fill.Tensor", fill),
    **_table("full.default", full),
    **_table("scalar_tensor.default", scalar),
    **_table(
        "empty.memory_format empty_like.default new_empty.default empty_strided.default "
        "empty_permuted.default new_empty_strided.default",
        empty,
    ),
    **_table("arange.default arange.start arange.start_step", arange),
    **_table("tril.default", _triangle(lower=True)),
    **_table("triu.default", _triangle(lower=False)),
}
