"""ATen calls that work element by element."""

from collections.abc import Callable
from typing import Any

from ascendfx.ir.capture.aten.complex_pairs import multiply_complex
from ascendfx.ir.capture.translation import (
    DTYPES,
    ComplexPair,
    Handler,
    Result,
    Translation,
)
from ascendfx.ir.graph import Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops.add import Add
from ascendfx.ir.ops.cos import Cos
from ascendfx.ir.ops.divide import Divide
from ascendfx.ir.ops.equal import Equal
from ascendfx.ir.ops.exp import Exp
from ascendfx.ir.ops.greater import Greater
from ascendfx.ir.ops.greater_equal import GreaterEqual
from ascendfx.ir.ops.less import Less
from ascendfx.ir.ops.less_equal import LessEqual
from ascendfx.ir.ops.log import Log
from ascendfx.ir.ops.logical_and import LogicalAnd
from ascendfx.ir.ops.logical_not import LogicalNot
from ascendfx.ir.ops.logical_or import LogicalOr
from ascendfx.ir.ops.maximum import Maximum
from ascendfx.ir.ops.minimum import Minimum
from ascendfx.ir.ops.multiply import Multiply
from ascendfx.ir.ops.negate import Negate
from ascendfx.ir.ops.not_equal import NotEqual
from ascendfx.ir.ops.power import Power
from ascendfx.ir.ops.reciprocal import Reciprocal
from ascendfx.ir.ops.relu import Relu
from ascendfx.ir.ops.round import Round
from ascendfx.ir.ops.rsqrt import Rsqrt
from ascendfx.ir.ops.select import Select
from ascendfx.ir.ops.sigmoid import Sigmoid
from ascendfx.ir.ops.silu import Silu
from ascendfx.ir.ops.sin import Sin
from ascendfx.ir.ops.sqrt import Sqrt
from ascendfx.ir.ops.subtract import Subtract
from ascendfx.ir.tensor_type import DType, TensorType


def _unary(op: Callable[[], Op]) -> Handler:
    def handler(t: Translation, out: TensorType, a: Any) -> Result:
        return t.add(op(), t.operand(a, out.dtype))

    return handler


def _binary(op: Callable[[], Op]) -> Handler:
    """Both operands are converted to the result's format, as PyTorch promotes them."""

    def handler(t: Translation, out: TensorType, a: Any, b: Any, *, alpha: float = 1) -> Result:
        right = t.operand(b, out.dtype)
        if alpha != 1:
            right = t.add(Multiply(), right, t.constant(alpha, out.dtype))
        return t.add(op(), t.operand(a, out.dtype), right)

    return handler


def multiply(t: Translation, out: TensorType, a: Any, b: Any) -> Result:
    """``a * b``, also of complex pairs."""
    if isinstance(a, ComplexPair) or isinstance(b, ComplexPair):
        return multiply_complex(t, a, b)
    return t.add(Multiply(), t.operand(a, out.dtype), t.operand(b, out.dtype))


def divide(
    t: Translation, out: TensorType, a: Any, b: Any, *, rounding_mode: str | None = None
) -> Result:
    """``a / b``; rounded only for integers and only downwards."""
    if rounding_mode is not None and (rounding_mode != "floor" or out.dtype.is_float):
        raise t.refuse(f"rounding mode `{rounding_mode}` of {out.dtype.value}")
    return t.add(Divide(), t.operand(a, out.dtype), t.operand(b, out.dtype))


def floor_divide(t: Translation, out: TensorType, a: Any, b: Any) -> Result:
    """The floor of the quotient of integers."""
    return divide(t, out, a, b, rounding_mode="floor")


def remainder(t: Translation, out: TensorType, a: Any, b: Any) -> Result:
    """``a - floor(a / b) * b`` of integers."""
    quotient = floor_divide(t, out, a, b)
    multiple = t.add(Multiply(), quotient, t.operand(b, out.dtype))
    return t.add(Subtract(), t.operand(a, out.dtype), multiple)


def reversed_subtract(t: Translation, out: TensorType, a: Any, b: Any, alpha: float = 1) -> Result:
    """``b - a``."""
    return _binary(Subtract)(t, out, b, a, alpha=alpha)


_RANK = [DType.BOOL, DType.I8, DType.I32, DType.I64, DType.F16, DType.BF16, DType.F32, DType.F64]


def _common_format(t: Translation, a: Value, b: Any) -> DType:
    """Return the format in which PyTorch compares: the tensor's, unless the other is a wider kind.

    Source: PyTorch documentation, "Tensor Attributes", type promotion.
    """
    left = t.type_of(a)
    if isinstance(b, Value):
        right = t.type_of(b)
        same_kind = left.dtype.is_float == right.dtype.is_float
        if same_kind and (left.rank == 0) != (right.rank == 0):
            return left.dtype if right.rank == 0 else right.dtype
        return max(left.dtype, right.dtype, key=_RANK.index)
    if isinstance(b, float) and not left.dtype.is_float:
        return DType.F32
    return DType.I64 if left.dtype is DType.BOOL and not isinstance(b, bool) else left.dtype


def _comparison(op: Callable[[], Op]) -> Handler:
    def handler(t: Translation, out: TensorType, a: Any, b: Any) -> Result:
        del out
        a, b = t.whole(a), t.whole(b)
        kind = _common_format(t, a, b)
        return t.add(op(), t.operand(a, kind), t.operand(b, kind))

    return handler


def _logical(op: Callable[[], Op]) -> Handler:
    def handler(t: Translation, out: TensorType, *operands: Any) -> Result:
        if out.dtype is not DType.BOOL:
            raise t.refuse(f"bit operations on {out.dtype.value} cannot be represented")
        return t.add(op(), *(t.operand(each, DType.BOOL) for each in operands))

    return handler


def where(t: Translation, out: TensorType, condition: Any, a: Any, b: Any) -> Result:
    """``a`` where the condition holds, else ``b``."""
    return t.add(
        Select(),
        t.operand(condition, DType.BOOL),
        t.operand(a, out.dtype),
        t.operand(b, out.dtype),
    )


def masked_fill(t: Translation, out: TensorType, a: Any, mask: Any, number: Any) -> Result:
    """``number`` where the mask holds, else ``a``."""
    return where(t, out, mask, number, a)


def clamp(t: Translation, out: TensorType, a: Any, low: Any = None, high: Any = None) -> Result:
    """``a`` held between two bounds."""
    value = t.operand(a, out.dtype)
    if low is not None:
        value = t.add(Maximum(), value, t.operand(low, out.dtype))
    return value if high is None else t.add(Minimum(), value, t.operand(high, out.dtype))


def absolute(t: Translation, out: TensorType, a: Any) -> Result:
    """``max(a, -a)``."""
    value = t.operand(a, out.dtype)
    return t.add(Maximum(), value, t.add(Negate(), value))


def convert(t: Translation, out: TensorType, a: Any, *_: Any, **_keywords: Any) -> Result:
    """Change of format; devices and memory formats have no meaning here."""
    if isinstance(a, ComplexPair):
        return ComplexPair(t.cast(a.real, out.dtype), t.cast(a.imaginary, out.dtype))
    return t.operand(a, out.dtype)


def view_dtype(t: Translation, out: TensorType, a: Any, dtype: Any) -> Result:
    """Reading the bits as another format: only when it is the same one."""
    if DTYPES.get(str(dtype)) is not t.type_of(t.whole(a)).dtype:
        raise t.refuse("reading bits as another format cannot be represented")
    return t.operand(a, out.dtype)


def _table(names: str, handler: Handler) -> dict[str, Handler]:
    return {f"aten.{name}": handler for name in names.split()}


ELEMENTWISE: dict[str, Handler] = {
    **_table("add.Tensor add.Scalar", _binary(Add)),
    **_table("sub.Tensor sub.Scalar", _binary(Subtract)),
    **_table("rsub.Tensor rsub.Scalar", reversed_subtract),
    **_table("mul.Tensor mul.Scalar", multiply),
    **_table("div.Tensor div.Scalar div.Tensor_mode div.Scalar_mode", divide),
    **_table("floor_divide.default floor_divide.Scalar", floor_divide),
    **_table("remainder.Tensor remainder.Scalar", remainder),
    **_table("pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar", _binary(Power)),
    **_table("maximum.default", _binary(Maximum)),
    **_table("minimum.default", _binary(Minimum)),
    **_table("eq.Tensor eq.Scalar", _comparison(Equal)),
    **_table("ne.Tensor ne.Scalar", _comparison(NotEqual)),
    **_table("lt.Tensor lt.Scalar", _comparison(Less)),
    **_table("le.Tensor le.Scalar", _comparison(LessEqual)),
    **_table("gt.Tensor gt.Scalar", _comparison(Greater)),
    **_table("ge.Tensor ge.Scalar", _comparison(GreaterEqual)),
    **_table("logical_not.default bitwise_not.default", _logical(LogicalNot)),
    **_table("logical_and.default bitwise_and.Tensor __and__.Tensor", _logical(LogicalAnd)),
    **_table("logical_or.default bitwise_or.Tensor __or__.Tensor", _logical(LogicalOr)),
    **_table("cos.default", _unary(Cos)),
    **_table("exp.default", _unary(Exp)),
    **_table("log.default", _unary(Log)),
    **_table("neg.default", _unary(Negate)),
    **_table("reciprocal.default", _unary(Reciprocal)),
    **_table("relu.default", _unary(Relu)),
    **_table("round.default", _unary(Round)),
    **_table("rsqrt.default", _unary(Rsqrt)),
    **_table("sigmoid.default", _unary(Sigmoid)),
    **_table("silu.default", _unary(Silu)),
    **_table("sin.default", _unary(Sin)),
    **_table("sqrt.default", _unary(Sqrt)),
    **_table("abs.default", absolute),
    **_table("clamp.default clamp.Tensor", clamp),
    **_table("clamp_min.default", clamp),
    **_table("where.self where.Scalar where.ScalarOther where.ScalarSelf", where),
    **_table("masked_fill.Scalar masked_fill.Tensor", masked_fill),
    **_table(
        "_to_copy.default to.dtype to.device to.dtype_layout type_as.default clone.default "
        "contiguous.default alias.default detach.default lift_fresh_copy.default "
        "lift_fresh.default positive.default",
        convert,
    ),
    **_table("view.dtype", view_dtype),
}
