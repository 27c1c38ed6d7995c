"""Where the matrices of a kernel operand lie in a GM tensor."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MatrixView:
    """A batch of row-major matrices inside a larger tensor; all numbers in elements.

    Element ``(b, r, c)`` is at ``offset + b * batch_stride + r * row_stride + c``. So
    ``t[:, :, :128]`` of ``t: [rows, heads, 192]``, one matrix per head, is
    ``MatrixView(offset=0, row_stride=heads * 192, batch_stride=192)``.

    Attributes:
        offset: First element of the first matrix.
        row_stride: Distance of two rows.
        batch_stride: Distance of two matrices; 0 if there is one.
        elements: Size of the tensor; None if it ends with the last row of the view.
    """

    offset: int
    row_stride: int
    batch_stride: int = 0
    elements: int | None = None

    def extent(self, *, rows: int, columns: int, batch: int = 1) -> int:
        """Return one past the last element of ``batch`` matrices ``[rows, columns]``."""
        last_row = (batch - 1) * self.batch_stride + (rows - 1) * self.row_stride
        return self.offset + last_row + columns

    def size(self, *, rows: int, columns: int, batch: int = 1) -> int:
        """Return the number of elements the tensor needs at least, or is said to have."""
        extent = self.extent(rows=rows, columns=columns, batch=batch)
        return extent if self.elements is None else self.elements

    def overlaps(self, *, rows: int, columns: int, batch: int = 1) -> bool:
        """Return whether two rows of the view share an element.

        Either the matrices lie one after the other, or the rows of one matrix enclose those of
        all others (heads next to each other in a row); anything else counts as overlap.
        """
        outer, inner = (self.batch_stride, batch), (self.row_stride, rows)
        return not (_nests(outer, inner, columns) or _nests(inner, outer, columns))


def dense(rows: int, columns: int, *, batch: int = 1) -> MatrixView:
    """Return the view of a complete ``[batch, rows, columns]`` tensor."""
    return MatrixView(0, columns, rows * columns, batch * rows * columns)


def _nests(outer: tuple[int, int], inner: tuple[int, int], width: int) -> bool:
    """Return whether ``inner`` steps are disjoint and fit into one ``outer`` step."""
    for stride, count in (inner, outer):
        if count > 1:
            if stride < width:
                return False
            width += (count - 1) * stride
    return True
