"""The nodes of one ONNX graph or function while it is written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray
from onnx import NodeProto, ValueInfoProto, helper

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.onnx.element_format import ONNX_FORMAT, tensor_proto, value_info, wide_format
from ascendfx.ir.onnx.names import Names
from ascendfx.ir.onnx.needs import NamedSize, Need
from ascendfx.ir.size import Dim, print_size
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class Tensor:
    """An ONNX value and the type it has in our graph."""

    name: str
    type: TensorType

    @property
    def dtype(self) -> DType:
        """Element format."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Sizes of the axes."""
        return self.type.shape


Translator = Callable[["Body", Any, Sequence[Tensor], tuple[TensorType, ...]], tuple[str, ...]]
"""Writes the nodes of an operation, given its operands and result types; returns the results."""


class Body:
    """Collects ONNX nodes of the standard domain, and what they need from outside.

    Attributes:
        nodes: In the order of execution.
        needs: What must be supplied as further inputs, and under which name the nodes read it.
        declared: Types of the values that our graph knows.
    """

    def __init__(self, names: Names) -> None:
        self.nodes: list[NodeProto] = []
        self.needs: dict[Need, str] = {}
        self.declared: dict[str, ValueInfoProto] = {}
        self.names = names
        self.operands: list[str] = []
        self.label = ""
        self.remark = ""
        self._axes: dict[Dim, tuple[str, int]] = {}
        self._made: dict[tuple[object, ...], str] = {}
        self._exact: dict[str, float] = {}

    def emit(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output and return that."""
        return self.emit_multi(op_type, inputs, 1, **attributes)[0]

    def emit_multi(
        self, op_type: str, inputs: Sequence[str], count: int, **attributes: Any
    ) -> tuple[str, ...]:
        """Append a node with ``count`` outputs and return them."""
        stem = f"{self.label}.{op_type}" if self.label else op_type
        if attributes.get("domain"):
            stem = self.label
        outputs = [self.names.fresh(stem) for _ in range(count)]
        node = helper.make_node(
            op_type, list(inputs), outputs, name=outputs[0], doc_string=self.remark, **attributes
        )
        self.nodes.append(node)
        return tuple(outputs)

    @property
    def inputs(self) -> list[str]:
        """Names of all inputs: the operands, then the needs."""
        return [*self.operands, *self.needs.values()]

    def operand(self, tensor: Tensor) -> None:
        """Add an input of this body; sizes can be read from its shape."""
        self.operands.append(tensor.name)
        for axis, size in enumerate(tensor.shape):
            if not isinstance(size, int):
                self._axes.setdefault(size, (tensor.name, axis))

    def require(self, need: Need) -> str:
        """Return the name of something that comes from outside."""
        if need not in self.needs:
            self.needs[need] = self.names.fresh(need.label)
        return self.needs[need]

    def declare(self, name: str, kind: TensorType) -> None:
        """State the type of a value."""
        self.declared.setdefault(name, value_info(name, kind))

    def once(self, key: tuple[object, ...], make: Callable[[], str]) -> str:
        """Return what ``make`` returned for the same key before, or call it."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def constant(self, value: ArrayLike, dtype: DType) -> str:
        """Return a constant tensor, rounded to ``dtype``."""
        array: NDArray[Any] = np.asarray(value, dtype.numpy)
        return self.once(
            ("constant", dtype, array.shape, array.tobytes()),
            lambda: self.emit("Constant", value=tensor_proto("", array, dtype)),
        )

    def scalar(self, value: float, dtype: DType) -> str:
        """Return a constant without axes; arithmetic on it sees the value before rounding."""
        name = self.constant(value, dtype)
        if wide_format(dtype) is not dtype:
            self._exact[name] = value
        return name

    def ints(self, *values: int) -> str:
        """Return a constant ``i64`` vector: axes, or bounds of a slice."""
        return self.constant(np.array(values, np.int64), DType.I64)

    def cast(self, name: str, before: DType, after: DType) -> str:
        """Return ``name`` in another element format."""
        if before is after:
            return name
        return self.once(
            ("cast", name, after), lambda: self.emit("Cast", name, to=ONNX_FORMAT[after])
        )

    def wide(self, tensor: Tensor) -> str:
        """Return ``tensor`` in the format in which arithmetic on it is done.

        Raises:
            OpTypeError: The tensor holds truth values.
        """
        if tensor.dtype is DType.BOOL:
            raise OpTypeError(
                f"{self.label.rsplit('_', 1)[0]}: ONNX has no arithmetic on truth values",
                hint="insert a cast to i32",
            )
        after = wide_format(tensor.dtype)
        if tensor.name in self._exact:
            return self.constant(self._exact[tensor.name], after)
        return self.cast(tensor.name, tensor.dtype, after)

    def narrow(self, name: str, kind: TensorType) -> str:
        """Round a result of arithmetic to the format of its type, once."""
        return self.cast(name, wide_format(kind.dtype), kind.dtype)

    def size(self, size: Dim) -> str:
        """Return a size as ``i64[1]``: a constant, read from an operand, computed or required.

        Raises:
            OpTypeError: The size is not made of ``+ - * //`` and powers.
        """
        if isinstance(size, int):
            return self.ints(size)
        return self.once(("size", size), lambda: self._computed_size(size))

    def shape(self, sizes: Sequence[Dim]) -> str:
        """Return sizes as an ``i64`` vector."""
        if all(isinstance(size, int) for size in sizes):
            return self.ints(*(int(size) for size in sizes))
        if len(sizes) == 1:
            return self.size(sizes[0])
        return self.once(
            ("shape", *sizes), lambda: self.emit("Concat", *map(self.size, sizes), axis=0)
        )

    def _computed_size(self, size: sympy.Expr) -> str:
        if size in self._axes:
            name, axis = self._axes[size]
            return self.emit("Shape", name, start=axis, end=axis + 1)
        match size:
            case sympy.Symbol():
                return self.require(NamedSize(size.name))
            case sympy.Integer():
                return self.ints(int(size))
            case sympy.Add() | sympy.Mul() if all(map(_is_whole, size.args)):
                kind = "Add" if isinstance(size, sympy.Add) else "Mul"
                first, *others = (self._term(arg) for arg in size.args)
                for other in others:
                    first = self.emit(kind, first, other)
                return first
            case sympy.Pow(args=(base, sympy.Integer() as exponent)) if exponent > 0:
                return self.emit("Pow", self._term(base), self.ints(int(exponent)))
            case sympy.floor(args=(quotient,)):
                above, below = map(sympy.expand, sympy.fraction(sympy.together(quotient)))
                dividend, divisor = self._term(above), self._term(below)
                rest = self.emit("Mod", dividend, divisor)
                return self.emit("Div", self.emit("Sub", dividend, rest), divisor)
            case _:
                raise OpTypeError(f"the size {print_size(size)} cannot be computed in ONNX")

    def _term(self, term: Any) -> str:  # SymPy arguments have no common static type
        return self.size(int(term) if term.is_Integer else term)


def _is_whole(term: Any) -> bool:  # SymPy arguments have no common static type
    return not term.is_Rational or term.is_Integer
