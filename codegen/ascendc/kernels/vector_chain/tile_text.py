"""Expressions for sizes and places that the text of a chain's steps is made of."""

from dataclasses import dataclass, field

from ascendfx.codegen.ascendc.kernels.vector_chain.layout import Form, Layout
from ascendfx.codegen.ascendc.kernels.vector_chain.places import stays_in_queue
from ascendfx.codegen.ascendc.kernels.vector_chain.plan import VectorChainPlan
from ascendfx.ir.tensor_type import DType


@dataclass(frozen=True)
class TileText:
    """Where the text of a step stands.

    Attributes:
        plan: The plan.
        helpers: Collects the device functions that are called.
    """

    plan: VectorChainPlan
    helpers: set[str] = field(default_factory=set)

    def layout(self, value: int) -> Layout:
        """Return the layout of a value in the tile."""
        return self.plan.tile.layout(self.plan.program.layouts[value])

    def dtype(self, argument: str) -> DType:
        """Return the format of an argument."""
        return self.plan.program.arguments[argument].dtype

    def rows(self, layout: Layout) -> str:
        """Return the number of token rows."""
        return "count" if layout.per_row and not self.plan.tile.piece else "1"

    def lines(self, layout: Layout) -> str:
        """Return the number of lines."""
        return times(self.rows(layout), layout.groups)

    def pitch(self, layout: Layout) -> str:
        """Return the elements from line to line: what instructions compute of a line."""
        if self.plan.tile.piece and layout.form is Form.LINE:
            return "padded"
        return str(layout.pitch)

    def elements(self, layout: Layout) -> str:
        """Return the elements of a value, whole blocks."""
        lines = self.lines(layout)
        if layout.form is Form.LINE:
            return times(lines, self.pitch(layout))
        if lines.isdecimal():
            count = -(-int(lines) // 8) * (64 if layout.form is Form.BLOCK else 8)
            return str(count)
        return f"({lines} + 7) / 8 * {64 if layout.form is Form.BLOCK else 8}"

    def width(self, layout: Layout) -> str:
        """Return the columns of a line that exist in global memory."""
        return "width" if self.plan.tile.piece and layout.form is Form.LINE else str(layout.columns)

    def is_queued(self, value: int) -> bool:
        """Return whether a value is used where it was copied to."""
        return stays_in_queue(self.plan.program, value)


def times(*factors: str | int) -> str:
    """Return a product; known factors are multiplied now."""
    number, names = 1, list[str]()
    for factor in map(str, factors):
        name, _, known = factor.rpartition(" * ")
        if known.isdecimal() and name.isidentifier():  # itself made here
            number *= int(known)
            names.append(name)
        elif factor.isdecimal():
            number *= int(factor)
        else:
            names.append(f"({factor})" if " " in factor else factor)
    if not names:
        return str(number)
    return " * ".join(names) + (f" * {number}" if number != 1 else "")


def signed(expression: str) -> str:
    """Return an element count in the type arithmetic instructions take."""
    return expression if expression.isdecimal() else f"static_cast<int32_t>({expression})"


def index(expression: str) -> str:
    """Return a subscript, or nothing for 0."""
    return "" if expression == "0" else f"[{expression}]"
