"""Text of casts between lines that may stand at different distances."""

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernels.vector_chain.layout import Form, Layout
from ascendfx.codegen.ascendc.kernels.vector_chain.tile_text import TileText

Lines = tuple[str, int]
"""A local tensor and its elements from line to line."""


def write_cast(
    out: CppWriter, text: TileText, layout: Layout, sides: tuple[Lines, Lines], mode: str
) -> None:
    """Write one cast, or one per line if lines of target and source are not equally far apart.

    Args:
        out: The text.
        text: Where it stands.
        layout: Of the value; `Layout.pitch` elements of a line are converted.
        sides: Target and source.
        mode: Of rounding.
    """
    (target, to), (source, from_) = sides
    if layout.form is Form.SCALAR or to == from_ == layout.pitch or text.plan.tile.piece:
        out.line(f"Cast({target}, {source}, RoundMode::{mode}, {text.elements(layout)});")
        return
    with out.block(f"for (uint32_t line = 0; line < {text.lines(layout)}; ++line)"):
        out.line(
            f"Cast({target}[line * {to}], {source}[line * {from_}], RoundMode::{mode}, "
            f"{layout.pitch});"
        )
