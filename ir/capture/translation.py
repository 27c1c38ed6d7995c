"""The state of one translation from an exported program to a graph, and its building blocks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.ir.op import Op
from ascendfx.ir.ops.cast import Cast
from ascendfx.ir.ops.concat import Concat
from ascendfx.ir.ops.constant import Constant
from ascendfx.ir.ops.expand import Expand
from ascendfx.ir.ops.reduce_sum import ReduceSum
from ascendfx.ir.ops.reshape import Reshape
from ascendfx.ir.ops.slice import Slice
from ascendfx.ir.ops.transpose import Transpose
from ascendfx.ir.size import Dim, simplify_size
from ascendfx.ir.tensor_type import DType, TensorType

Result = Any
"""What an ATen call yields: a `Value`, a `ComplexPair`, a size, or a list of these."""

Handler = Callable[..., Result]
"""``handler(translation, result types, *arguments, **keywords)``; arguments are translated."""

DTYPES: Mapping[str, DType] = {
    "torch.float64": DType.F64,
    "torch.float32": DType.F32,
    "torch.float16": DType.F16,
    "torch.bfloat16": DType.BF16,
    "torch.int64": DType.I64,
    "torch.int32": DType.I32,
    "torch.int8": DType.I8,
    "torch.bool": DType.BOOL,
    "torch.complex64": DType.F32,
    "torch.complex128": DType.F64,
}
"""Element formats by PyTorch name; a complex tensor is a pair of reals (see `ComplexPair`)."""


@dataclass(frozen=True, slots=True)
class ComplexPair:
    """A complex tensor, kept as two real ones of equal type."""

    real: Value
    imaginary: Value


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that was reserved but not (completely) written.

    Attributes:
        type: The type of the whole.
        axis: The axis along which `parts` lie; meaningless while there are none.
        parts: Written ranges ``(start, stop, value)``, ascending, without overlap.
    """

    type: TensorType
    axis: int = 0
    parts: tuple[tuple[Dim, Dim, Value], ...] = ()


@dataclass
class Translation:
    """Adds nodes to a graph while the calls of an exported program are visited.

    Attributes:
        builder: Receives the nodes.
        sizes: PyTorch's symbols for sizes, by name, and ours.
        overload: The ATen call being translated, for messages.
        location: Its place in the user's model, for messages.
    """

    builder: GraphBuilder
    sizes: Mapping[str, Dim]
    overload: str = ""
    location: Location = UNKNOWN

    def refuse(self, reason: str, *, hint: str = "") -> GraphError:
        """Return the error that says this call cannot be translated, and why."""
        return GraphError(
            "unsupported-operation",
            f"`{self.overload}`: {reason}",
            self.location,
            hint=hint or "rewrite the line with operations listed in ir/capture/README.md",
        )

    # Sizes and types ---------------------------------------------------------------------------

    def dim(self, size: Any) -> Dim:
        """Return a PyTorch size as ours.

        Raises:
            GraphError: It depends on something other than the named sizes.
        """
        if isinstance(size, int):
            return size
        expression = size.node.expr if hasattr(size, "node") else size
        table = {symbol: self.sizes.get(str(symbol)) for symbol in expression.free_symbols}
        if None in table.values():
            raise self.refuse(
                f"size {size} depends on the values of a tensor",
                hint="use a formulation whose shapes depend on input shapes only",
            )
        changed = expression.subs(table, simultaneous=True)
        found = simplify_size(changed)
        if not isinstance(found, int) and found.atoms(sympy.Function):
            raise self.refuse(f"size {size} is no polynomial of the named sizes")
        return found

    def type_of_meta(self, meta: Any) -> TensorType:
        """Return the type of a PyTorch (fake) tensor."""
        name = str(meta.dtype)
        if name not in DTYPES:
            raise self.refuse(f"tensors of {name} cannot be represented")
        return TensorType(DTYPES[name], tuple(map(self.dim, meta.shape)))

    def type_of(self, value: Value) -> TensorType:
        """Return the type of a value added before."""
        return self.builder.type_of(value)

    # Building blocks ---------------------------------------------------------------------------

    def add(self, op: Op, *operands: Value) -> Value:
        """Append a node with one result."""
        return self.builder.add(op, *operands)

    def constant(self, number: Any, dtype: DType) -> Value:
        """Return a scalar in the given format; a size is counted out, as a sum of ones."""
        if isinstance(number, sympy.Expr):
            ones = self.expand(self.constant(1, dtype), (number,))
            return self.add(ReduceSum((0,), keep=False), ones)
        if not isinstance(number, int | float):
            raise self.refuse(f"{number} is no real number")
        value = float(number) if dtype.is_float else number
        if dtype is DType.BOOL:
            value = bool(number)
        elif not dtype.is_float and isinstance(number, float):
            if not number.is_integer():
                raise self.refuse(f"{number} is no {dtype.value}")
            value = int(number)
        return self.builder.leaf(Constant(value, dtype))

    def cast(self, value: Value, dtype: DType) -> Value:
        """Return ``value`` in another format."""
        return value if self.type_of(value).dtype is dtype else self.add(Cast(dtype), value)

    def operand(self, argument: Any, dtype: DType) -> Value:
        """Return a tensor or Python number as a value of the given format."""
        argument = self.whole(argument)
        if isinstance(argument, Value):
            return self.cast(argument, dtype)
        return self.constant(argument, dtype)

    def reshape(self, value: Value, shape: Sequence[Dim]) -> Value:
        """Return ``value`` under another shape; nothing is added if it has that shape."""
        wanted = tuple(shape)
        return value if self.type_of(value).shape == wanted else self.add(Reshape(wanted), value)

    def expand(self, value: Value, shape: Sequence[Dim]) -> Value:
        """Return ``value`` repeated to a shape; nothing is added if it has that shape."""
        wanted = tuple(shape)
        return value if self.type_of(value).shape == wanted else self.add(Expand(wanted), value)

    def transpose(self, value: Value, permutation: Iterable[int]) -> Value:
        """Return ``value`` with axes permuted; nothing is added for the identity."""
        order = tuple(permutation)
        return value if order == tuple(range(len(order))) else self.add(Transpose(order), value)

    def slice(self, value: Value, axis: int, start: Dim, stop: Dim, step: int = 1) -> Value:
        """Return a part of an axis; nothing is added for the whole."""
        if step == 1 and start == 0 and stop == self.type_of(value).shape[axis]:
            return value
        return self.add(Slice(axis, start, stop, step), value)

    def filled(self, number: Any, type_: TensorType) -> Value:
        """Return a tensor of one number."""
        return self.expand(self.constant(number, type_.dtype), type_.shape)

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from zero."""
        return axis + rank if axis < 0 else axis

    def whole(self, argument: Any) -> Any:
        """Return a `Buffer` as a value: its parts joined, zero where nothing was written."""
        if not isinstance(argument, Buffer):
            return argument
        # Any value is right for memory that the model never wrote; zero is reproducible.
        return fill_buffer(self, argument)


def fill_buffer(t: Translation, buffer: Buffer) -> Value:
    """Return the parts of ``buffer`` joined, with zeros in the gaps."""
    pieces: list[Value] = []
    reached: Dim = 0
    size = buffer.type.shape[buffer.axis] if buffer.type.shape else 0

    def gap(stop: Dim) -> None:
        if stop != reached:
            shape = list(buffer.type.shape)
            shape[buffer.axis] = simplify_size(stop - reached)
            pieces.append(t.filled(0, buffer.type.with_shape(tuple(shape))))

    for start, stop, value in buffer.parts:
        gap(start)
        pieces.append(value)
        reached = stop
    if not buffer.parts:
        return t.filled(0, buffer.type)
    gap(size)
    return pieces[0] if len(pieces) == 1 else t.add(Concat(buffer.axis), *pieces)
