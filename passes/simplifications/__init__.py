"""Local simplifications, by the operation they look at: each returns the better value or None."""

from collections.abc import Callable, Mapping
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.op import Op
from ascendfx.passes.simplifications import arithmetic, formats, movement, repeated_halves

Simplification = Callable[[GraphBuilder, Any, tuple[Value, ...]], Value | None]
"""``simplification(builder, op, operands)``: an equal value, or None if it does not apply."""

_TABLES: tuple[Mapping[type[Op], tuple[Simplification, ...]], ...] = (
    arithmetic.TABLE,
    formats.TABLE,
    movement.TABLE,
    repeated_halves.TABLE,
)

SIMPLIFICATIONS: Mapping[type[Op], tuple[Simplification, ...]] = {
    op: tuple(each for table in _TABLES for each in table.get(op, ()))
    for op in {op for table in _TABLES for op in table}
}
"""What to try for each operation, in order."""

__all__ = ["SIMPLIFICATIONS", "Simplification"]
