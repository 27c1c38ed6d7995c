"""Counterexamples as text: sizes, small arrays of values and what both sides make of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ascendfx.ir.op import Array, as_float64
from ascendfx.ir.size import names_in
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.rule import OperandForm

_ELEMENTS = 16


def shown_operands(operands: Mapping[str, Array]) -> str:
    """Return ``x = [1.0, 2.0], ids = [[0]]``; of large arrays the first elements."""
    return ", ".join(f"{name} = {shown_array(array)}" for name, array in operands.items())


def shown_array(array: Array) -> str:
    """Return an array on one line, floats with six digits."""
    flat = [_shown(x) for x in np.ravel(array)[:_ELEMENTS]]
    if array.size > _ELEMENTS:
        return f"[{', '.join(flat)}, ...] of shape {list(array.shape)}"
    return _nested(flat, array.shape)


def _nested(flat: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return flat[0]
    each = len(flat) // shape[0] if shape[0] else 0
    rows = [_nested(flat[i * each : (i + 1) * each], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(rows)}]"


def _shown(value: Any) -> str:
    if isinstance(value, float | np.floating):
        text = f"{float(value):.7g}"
        if np.float32(value) == value and np.float32(text) != value:
            text = f"{float(value):.9g}"  # neighbours in f32 are not shown as one number
        return text + (".0" if float(value).is_integer() and abs(value) < 1e6 else "")
    return str(value)


def shown_sizes(sizes: Mapping[str, Any], forms: Mapping[str, OperandForm]) -> str:
    """Return ``k=2, lead=(3,)``: the letters of the operands, and what stands for ``*``."""
    letters = sorted({n for form in forms.values() for axis in form.axes for n in names_in(axis)})
    parts = [f"{each}={sizes[each]}" for each in letters]
    if sizes["lead"] and any(form.rest for form in forms.values()):
        parts.append(f"lead={sizes['lead']}")
    return ", ".join(parts) or "single elements"


def shown_formats(kinds: Mapping[str, DType]) -> str:
    """Return the formats of the operands, if any is not f32."""
    if all(kind is DType.F32 for kind in kinds.values() if kind.is_float):
        return ""
    return " in " + ", ".join(f"{name} {kind.value}" for name, kind in kinds.items())


def worst_place(a: Array, c: Array) -> tuple[int, ...]:
    """Return where two results of one shape differ most."""
    if a.dtype.kind == "b":
        return tuple(int(i) for i in np.argwhere(a != c)[0])
    with np.errstate(invalid="ignore"):
        gap = np.abs(as_float64(a) - as_float64(c))
    odd = np.isnan(gap) & ~((a == c) | (np.isnan(as_float64(a)) & np.isnan(as_float64(c))))
    gap = np.where(odd, np.inf, np.nan_to_num(gap, nan=0.0, posinf=np.inf))
    return tuple(int(i) for i in np.unravel_index(np.argmax(gap), gap.shape))


def shown_difference(a: Array, c: Array) -> str:
    """Return what the left and the right side are where they differ most."""
    if a.shape != c.shape:
        return f"the left side has shape {list(a.shape)}, the right side {list(c.shape)}"
    place = worst_place(a, c)
    left, right = (_shown_exactly(each[place]) for each in (a, c))
    return f"the left side is {left}, the right side {right} at {list(place)}"


def shown_rounded(truth: Array, left: Array, right: Array, place: tuple[int, ...]) -> str:
    """Return what the sides give with the rounding of their formats, and what is true."""
    exact, before, after = (_shown_exactly(each[place]) for each in (truth, left, right))
    return (
        f"the left side is {before}, the right side {after} at {list(place)}; "
        f"in float64 the left side is {exact}"
    )


def _shown_exactly(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)
