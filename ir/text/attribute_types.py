"""Whether a literal of the text form may be an attribute of an operation."""

from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ascendfx.ir.op import Op


@cache
def attribute_types(kind: type[Op]) -> dict[str, Any]:
    """Return the annotation of each attribute of an operation."""
    return get_type_hints(kind)


def fits(value: object, annotation: Any) -> bool:
    """Whether ``value`` is of a type like ``int``, ``DType``, ``int | Expr``, ``tuple[Dim, ...]``.

    An integer may stand for a float; a truth value is no number.
    """
    inner = get_args(annotation)
    if get_origin(annotation) in (Union, UnionType):
        return any(fits(value, each) for each in inner)
    if get_origin(annotation) is tuple:
        if not isinstance(value, tuple):
            return False
        wanted = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return len(value) == len(wanted) and all(map(fits, value, wanted))
    if annotation in (int, float):
        return type(value) is int or type(value) is annotation
    return isinstance(value, annotation)
