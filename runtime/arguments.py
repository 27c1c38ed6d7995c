"""Types of what users pass to the public functions: a wrong one is an error that names it."""

from os import PathLike
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError


def checked_path(name: str, value: object) -> Path:
    """Return a path that was given as text or as a path.

    Raises:
        GraphError: It is something else.
    """
    if isinstance(value, str | PathLike) and isinstance(path := _plain(value), str):
        return Path(path)
    raise wrong_type(name, value, "a path, as text or pathlib.Path")


def checked_folder(name: str, value: object) -> Path | None:
    """Return the path of a folder that may be left out: None or empty text.

    Raises:
        GraphError: It is neither a path nor None.
    """
    return None if value is None or value == "" else checked_path(name, value)


def check_text(name: str, value: object) -> None:
    """Check that ``value`` is text.

    Raises:
        GraphError: It is something else.
    """
    if not isinstance(value, str):
        raise wrong_type(name, value, "text")


def check_flag(name: str, value: object) -> None:
    """Check that ``value`` is True or False.

    Raises:
        GraphError: It is something else; numbers and texts are no answers to a question.
    """
    if not isinstance(value, bool):
        raise wrong_type(name, value, "True or False")


def check_function(name: str, value: object) -> None:
    """Check that ``value`` can be called.

    Raises:
        GraphError: It cannot.
    """
    if not callable(value):
        raise wrong_type(name, value, "a function")


def check_all(name: str, values: object, kind: type) -> None:
    """Check that ``values`` is a list or tuple of objects of one class.

    Raises:
        GraphError: It is something else, or holds something else.
    """
    if not isinstance(values, list | tuple):
        error = wrong_type(name, values, f"a list of `{kind.__name__}`")
        if _is_class_of(values, kind):
            error.hint = f"pass a tuple of objects: {name}=({_object_of(values)},)"
        elif isinstance(values, kind):
            error.hint = f"put it into a tuple: {name}=(...,)"
        raise error
    for each in values:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(each, kind):
            error = wrong_type(f"an element of {name}", each, f"a `{kind.__name__}`")  # pyright: ignore[reportUnknownArgumentType]
            if _is_class_of(each, kind):
                error.hint = f"pass an object of the class: {_object_of(each)}"
            raise error


def _is_class_of(value: object, kind: type) -> bool:
    return isinstance(value, type) and issubclass(value, kind)


def _object_of(kind: object) -> str:
    return f"{kind.__name__}()" if isinstance(kind, type) else ""


def wrong_type(name: str, value: object, wanted: str) -> GraphError:
    """Return the error for an argument of another type than wanted."""
    shown = repr(value)
    if len(shown) > 60:
        shown = f"{shown[:57]}..."
    return GraphError(
        code="bad-argument",
        reason=f"{name} must be {wanted}; got {shown}, which is `{type(value).__name__}`",
        hint=f"pass {wanted}",
    )


def _plain(value: "str | PathLike[str]") -> object:
    return value if isinstance(value, str) else value.__fspath__()
