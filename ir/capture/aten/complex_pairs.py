"""Complex tensors as pairs of real ones: rotary embeddings written with complex numbers."""

from typing import Any

from ascendfx.ir.capture.translation import ComplexPair, Handler, Result, Translation
from ascendfx.ir.graph import Value
from ascendfx.ir.ops.add import Add
from ascendfx.ir.ops.concat import Concat
from ascendfx.ir.ops.constant import Constant
from ascendfx.ir.ops.cos import Cos
from ascendfx.ir.ops.expand import Expand
from ascendfx.ir.ops.multiply import Multiply
from ascendfx.ir.ops.sin import Sin
from ascendfx.ir.ops.subtract import Subtract
from ascendfx.ir.tensor_type import TensorType


def multiply_complex(t: Translation, a: Any, b: Any) -> ComplexPair:
    """``(p + iq)(r + is) = (pr - qs) + i(ps + qr)``; a real factor scales both parts."""
    if not isinstance(a, ComplexPair):
        a, b = b, a
    if not isinstance(b, ComplexPair):
        dtype = t.type_of(a.real).dtype
        factor = t.operand(b, dtype)
        return ComplexPair(
            t.add(Multiply(), a.real, factor), t.add(Multiply(), a.imaginary, factor)
        )
    real = t.add(
        Subtract(),
        t.add(Multiply(), a.real, b.real),
        t.add(Multiply(), a.imaginary, b.imaginary),
    )
    imaginary = t.add(
        Add(),
        t.add(Multiply(), a.real, b.imaginary),
        t.add(Multiply(), a.imaginary, b.real),
    )
    return ComplexPair(real, imaginary)


def polar(t: Translation, out: TensorType, length: Any, angle: Any) -> Result:
    """``length * e^(i angle)``."""
    angle = t.operand(angle, out.dtype)
    parts = t.add(Cos(), angle), t.add(Sin(), angle)
    if _is_one(t, length):
        return ComplexPair(*parts)
    factor = t.operand(length, out.dtype)
    return ComplexPair(*(t.add(Multiply(), part, factor) for part in parts))


def complex_from_parts(t: Translation, out: TensorType, real: Any, imaginary: Any) -> Result:
    """``real + i imaginary``."""
    return ComplexPair(t.operand(real, out.dtype), t.operand(imaginary, out.dtype))


def view_as_complex(t: Translation, out: TensorType, a: Any) -> Result:
    """The last axis, of size two, becomes real and imaginary part."""
    value = t.operand(a, out.dtype)
    last = len(out.shape)
    return ComplexPair(
        *(t.reshape(t.slice(value, last, part, part + 1), out.shape) for part in (0, 1))
    )


def view_as_real(t: Translation, out: TensorType, a: ComplexPair) -> Result:
    """Real and imaginary part become a last axis of size two."""
    column = (*out.shape[:-1], 1)
    parts = [t.reshape(part, column) for part in (a.real, a.imaginary)]
    return t.add(Concat(len(out.shape) - 1), *parts)


def real_part(t: Translation, out: TensorType, a: ComplexPair) -> Result:
    """The real part."""
    del t, out
    return a.real


def imaginary_part(t: Translation, out: TensorType, a: ComplexPair) -> Result:
    """The imaginary part."""
    del t, out
    return a.imaginary


def _is_one(t: Translation, value: Any) -> bool:
    if not isinstance(value, Value):
        return value == 1
    op = t.builder.op_of(value)
    if isinstance(op, Expand):
        return _is_one(t, t.builder.operands_of(value)[0])
    return isinstance(op, Constant) and op.value == 1


COMPLEX: dict[str, Handler] = {
    "aten.polar.default": polar,
    "aten.complex.default": complex_from_parts,
    "aten.view_as_complex.default": view_as_complex,
    "aten.view_as_real.default": view_as_real,
    "aten.real.default": real_part,
    "aten.imag.default": imaginary_part,
}
