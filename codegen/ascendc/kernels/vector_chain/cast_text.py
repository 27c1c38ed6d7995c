"""Text of casts between lines that may stand at different distances."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernels.vector_chain.layout import Form, Layout
from ascendfx.codegen.ascendc.kernels.vector_chain.tile_text import TileText

_PAIRS = ".ReinterpretCast<int4b_t>()"


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a local tensor.

    Attributes:
        tensor: Its name.
        pitch: From line to line, in elements of the cast.
        pairs: Whether the tensor is of bytes that hold two elements each.
    """

    tensor: str
    pitch: int
    pairs: bool = False

    def line(self, number: str) -> str:
        """Return a line; places are counted in bytes, as the type of half bytes is not."""
        step = self.pitch // 2 if self.pairs else self.pitch
        return f"{self.tensor}[{number} * {step}]{_PAIRS if self.pairs else ''}"

    def __str__(self) -> str:
        return f"{self.tensor}{_PAIRS if self.pairs else ''}"


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
    target, source = sides
    together = target.pitch == source.pitch == layout.pitch
    if layout.form is Form.SCALAR or together or text.plan.tile.piece:
        out.line(f"Cast({target}, {source}, RoundMode::{mode}, {text.elements(layout)});")
        return
    with out.block(f"for (uint32_t line = 0; line < {text.lines(layout)}; ++line)"):
        out.line(
            f"Cast({target.line('line')}, {source.line('line')}, RoundMode::{mode}, "
            f"{layout.pitch});"
        )
