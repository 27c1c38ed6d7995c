"""Indented C++ text in lines of at most 100 columns; nothing else."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager

_COLUMNS = 100
_NARROWEST = 40  # columns left beside an opening bracket, to go on there


class CppWriter:
    """Collects lines at the current indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Append one line; a longer one is broken at words (comment), commas or ``=``."""
        self._lines += _wrapped("    " * self._depth + text) if text else [""]

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


def _wrapped(line: str) -> list[str]:
    """Return ``line`` as lines of at most 100 columns, or as it is if it has no place to break."""
    if len(line) <= _COLUMNS:
        return [line]
    indent = len(line) - len(line.lstrip())
    text = line[indent:]
    if text.startswith("//"):
        return _filled(" " * indent + "//", text[2:].split())
    if " = " in text.split("(")[0]:
        name, value = line.split(" = ", 1)
        return [f"{name} =", *_wrapped(" " * (indent + 4) + value)]
    start = _list_start(line)
    if start is None:
        return [line]
    further = 8 if line.endswith("{") else 4
    margin = start if start <= _COLUMNS - _NARROWEST else indent + further
    first, *rest = _filled(" " * (margin - 1), _items(line[start:]))
    if margin == start:
        return [line[:start] + first.lstrip(), *rest]
    return [line[:start], first, *rest]


def _filled(margin: str, words: list[str]) -> list[str]:
    """Return ``words`` with a blank before each, as many per line as fit behind ``margin``."""
    lines = [margin]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > _COLUMNS and lines[-1] != margin:
            lines.append(margin)
        lines[-1] += f" {word}"
    return lines


def _list_start(line: str) -> int | None:
    """Return the place behind the outermost bracket that holds a comma, or None."""
    starts: list[int] = []
    found: list[int] = []
    for place, letter in enumerate(line):
        if letter in "([":
            starts.append(place + 1)
        elif letter in ")]" and starts:
            starts.pop()
        elif letter == "," and starts:
            found.append(starts[0])
    return found[0] if found else None


def _items(text: str) -> list[str]:
    """Return ``text`` cut behind the commas that stand in no bracket of its own."""
    items, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and depth == 0 and items[-1].endswith(","):
            items.append("")
        else:
            items[-1] += letter
    return items
