"""Numbers with units, for people."""

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_DECIMAL = ("", " K", " M", " G", " T", " P")


def digits(number: float) -> str:
    """Return at most three significant digits, without an exponent for what is easily read."""
    if number == 0:
        return "0"
    if not 1e-3 <= abs(number) < 1e6:
        return f"{number:.2e}"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def binary_bytes(number: float) -> str:
    """Return bytes with a binary unit."""
    unit = 0
    while number >= 1024 and unit < len(_BYTES) - 1:
        number, unit = number / 1024, unit + 1
    return f"{digits(number)} {_BYTES[unit]}"


def decimal(number: float) -> str:
    """Return a count with a decimal prefix."""
    unit = 0
    while number >= 1000 and unit < len(_DECIMAL) - 1:
        number, unit = number / 1000, unit + 1
    return f"{digits(number)}{_DECIMAL[unit]}"


def duration(seconds: float) -> str:
    """Return a duration with a unit."""
    if seconds >= 1:
        return f"{digits(seconds)} s"
    if seconds >= 1e-3:
        return f"{digits(seconds * 1e3)} ms"
    return f"{digits(seconds * 1e6)} µs"
