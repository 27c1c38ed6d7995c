"""Attribute values and tensor types in the text form."""

import ast
import re
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import Location
from ascendfx.ir.size import parse_size
from ascendfx.ir.tensor_type import DType, TensorType

GRAMMAR = 'see ir/README.md, "The text form by example"'
"""What to do about text that is none of a graph."""

_TYPE = re.compile(r"(?P<dtype>[a-z]+\d*(?:x\d)?)\[(?P<shape>[^\]]*)\]")
_TOKEN = re.compile(
    r'\s*(?P<string>"(?:[^"\\]|\\.)*")|\s*(?P<size><[^>]*>)'
    r"|\s*(?P<type>[a-z]+\d+(?:x\d)?\[[^\]]*\])|\s*(?P<mark>[\[\],=])|\s*(?P<word>[^\s\[\],=]+)"
)
_WORDS = {
    "true": True,
    "false": False,
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
}


def read_types(text: str, place: Location) -> tuple[TensorType, ...]:
    """Read a comma-separated list of types, for example ``f32[rows, 8], i64[rows]``.

    Raises:
        GraphError: The text is no such list.
    """
    types: list[TensorType] = []
    position = 0
    while position < len(text):
        found = _TYPE.match(text, position)
        if not found:
            raise GraphError(
                "syntax",
                "this is not a list of types",
                place,
                text,
                hint=GRAMMAR,
            )
        types.append(_type(found, place, text))
        position = found.end() + 2 if text[found.end() :].startswith(", ") else found.end()
        if position == found.end() and position < len(text):
            raise GraphError(
                "syntax",
                "this is not a list of types",
                place,
                text,
                hint=GRAMMAR,
            )
    return tuple(types)


def _type(found: re.Match[str], place: Location, text: str) -> TensorType:
    try:
        dims = tuple(parse_size(d) for d in found["shape"].split(", ") if d)
        dtype = DType(found["dtype"])
    except ValueError as error:
        raise GraphError(
            "syntax",
            f"this is not a type: {error}",
            place,
            text,
            hint=GRAMMAR,
        ) from error
    if any(each < 0 if isinstance(each, int) else each.is_negative for each in dims):
        raise GraphError(
            "syntax",
            "this is not a type: a size is negative",
            place,
            text,
            hint=GRAMMAR,
        )
    return TensorType(dtype, dims)


class LiteralReader:
    """Reads ``name=literal, name=literal``; see `print_literal` for the forms."""

    def __init__(self, text: str, place: Location) -> None:
        self._text = text
        self._place = place
        self._tokens = [(m.lastgroup or "", m.group().strip()) for m in _TOKEN.finditer(text)]
        self._at = 0

    def attributes(self) -> dict[str, Any]:
        """Return the names and values.

        Raises:
            GraphError: The text is malformed.
        """
        values: dict[str, Any] = {}
        while self._at < len(self._tokens):
            if values:
                self._mark(",")
            _, name = self._take()
            self._mark("=")
            if name in values:
                raise self._error(f"the attribute `{name}` is given twice")
            values[name] = self._value()
        return values

    def _take(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise self._error()
        self._at += 1
        return self._tokens[self._at - 1]

    def _mark(self, mark: str) -> None:
        if self._take() != ("mark", mark):
            raise self._error()

    def _value(self) -> Any:
        kind, text = self._take()
        try:
            match kind:
                case "string":
                    return ast.literal_eval(text)
                case "size":
                    return parse_size(text[1:-1])
                case "type":
                    return read_types(text, self._place)[0]
                case "mark" if text == "[":
                    return self._list()
                case "word":
                    return self._word(text)
                case _:
                    raise self._error()
        except (ValueError, SyntaxError, RecursionError) as error:
            raise self._error() from error

    def _word(self, text: str) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if text[0].isalpha():
            return DType(text)
        return ast.literal_eval(text)

    def _list(self) -> tuple[Any, ...]:
        values: list[Any] = []
        while self._at < len(self._tokens) and self._tokens[self._at] != ("mark", "]"):
            if values:
                self._mark(",")
            values.append(self._value())
        self._mark("]")
        return tuple(values)

    def _error(self, reason: str = "these attributes are malformed") -> GraphError:
        return GraphError(
            "syntax",
            reason,
            self._place,
            self._text,
            hint=GRAMMAR,
        )
