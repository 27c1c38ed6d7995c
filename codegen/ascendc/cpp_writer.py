"""Indented C++ text; nothing else."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager


class CppWriter:
    """Collects lines at the current indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Append one line."""
        self._lines.append("    " * self._depth + text if text else "")

    def lines(self, texts: Iterable[str]) -> None:
        """Append several lines."""
        for text in texts:
            self.line(text)

    @contextmanager
    def block(self, head: str, *, close: str = "}") -> Generator[None]:
        """Write ``head {``, indent what is written inside, and close the brace."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self.line(close)

    def text(self) -> str:
        """Return everything written, with a final newline."""
        return "\n".join(self._lines) + "\n"
