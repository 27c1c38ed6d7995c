"""Products of two tensors written as a sum over named axes."""

from collections.abc import Sequence
from typing import Any

from ascendfx.ir.capture.translation import Handler, Result, Translation
from ascendfx.ir.graph import Value
from ascendfx.ir.ops.matmul import Matmul
from ascendfx.ir.size import Dim, product
from ascendfx.ir.tensor_type import TensorType


def einsum(t: Translation, out: TensorType, equation: str, operands: Sequence[Any]) -> Result:
    """``"bthd,bshd->bhts"`` as one matrix product over the axes that disappear.

    Axes of both operands and the result are batch axes and stay apart; the others are joined to
    rows, columns and the summed axis.
    """
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    names = inputs.split(",")
    if not arrow or len(names) != 2 or not _is_product(names[0], names[1], result):
        raise t.refuse(
            f"`{equation}` is not a product of two tensors with every axis named once",
            hint="write it with torch.matmul, transpose and sum",
        )
    left, right = (t.operand(each, out.dtype) for each in operands)
    batch = [c for c in result if c in names[0] and c in names[1]]
    rows = [c for c in result if c in names[0] and c not in batch]
    columns = [c for c in result if c in names[1] and c not in batch]
    summed = [c for c in names[0] if c not in result]
    sizes = dict(zip(names[1], t.type_of(right).shape, strict=True))
    sizes |= dict(zip(names[0], t.type_of(left).shape, strict=True))
    a = _joined(t, left, names[0], (batch, rows, summed), sizes)
    b = _joined(t, right, names[1], (batch, summed, columns), sizes)
    order = [*batch, *rows, *columns]
    y = t.reshape(t.add(Matmul(), a, b), [sizes[c] for c in order])
    return t.transpose(y, [order.index(c) for c in result])


def _is_product(left: str, right: str, result: str) -> bool:
    each_once = all(len(set(names)) == len(names) for names in (left, right, result))
    letters = set(left) | set(right) | set(result)
    alone = (set(left) ^ set(right)) - set(result)  # would be summed before the product
    return each_once and all(c.isalpha() for c in letters) and not alone and bool(result)


def _joined(
    t: Translation,
    value: Value,
    names: str,
    groups: tuple[list[str], list[str], list[str]],
    sizes: dict[str, Dim],
) -> Value:
    """Return ``[*batch, first, second]`` with the axes of the last two groups joined."""
    batch, first, second = groups
    turned = t.transpose(value, [names.index(c) for c in (*batch, *first, *second)])
    joined = [product([sizes[c] for c in group]) for group in (first, second)]
    return t.reshape(turned, [*(sizes[c] for c in batch), *joined])


EINSUM: dict[str, Handler] = {"aten.einsum.default": einsum}
