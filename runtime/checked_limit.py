"""Numbers that users give: whole, and not too small."""

from operator import index

from ascendfx.ir.diagnostic import GraphError


def checked_limit(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """Return ``value``, which may be an integer of NumPy, as an ``int``.

    Raises:
        GraphError: It is no whole number, smaller than ``least``, or larger than ``most``.
    """
    try:
        number = index(value)  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise _bad(name, value, least) from error
    if isinstance(value, bool) or number < least:
        raise _bad(name, value, least)
    if most is not None and number > most:
        raise GraphError(
            "bad-limit",
            f"{name} must be at most {most:,}, got {number}",
            hint=f"pass {most} or less",
        )
    return number


def _bad(name: str, value: object, least: int) -> GraphError:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return GraphError(
        "bad-limit",
        f"{name} must be at least {least}, got {value if whole else repr(value)}",
        hint=f"pass {least} or more" if whole else f"pass a whole number, {least} or more",
    )
