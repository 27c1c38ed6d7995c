"""Formats by name: ours, and those that users registered.

The registered ones are the only state of this folder. They change by `register_format` alone, which
a user calls; no import changes them.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Literal

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.check_format import check_format
from ascendfx.quant_passes.formats.float8 import E4M3FN, E5M2
from ascendfx.quant_passes.formats.format import Format, GroupFormat
from ascendfx.quant_passes.formats.hifloat4 import HiFloat4
from ascendfx.quant_passes.formats.hifloat8 import HiFloat8
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.formats.normal_float4 import FP4, NF4


def _library() -> Iterator[Format | GroupFormat]:
    for bits in range(2, 9):
        for rounding in _ROUNDINGS:
            yield Integer(bits, rounding=rounding)
            yield Integer(bits, narrow=True, rounding=rounding)
            yield Integer(bits, signed=False, rounding=rounding)
    yield from (E4M3FN(), E4M3FN("ieee"), E5M2(), E5M2("ieee"), HiFloat4(), NF4, FP4)
    for overflow in _OVERFLOWS:
        yield HiFloat8(overflow)
        yield HiFloat8(overflow, "hybrid")
        yield HiFloat8(overflow, "hybrid", DType.BF16)
        yield HiFloat8(overflow, "hybrid", DType.F16)


_ROUNDINGS: tuple[Literal["even"], Literal["away"]] = ("even", "away")
_OVERFLOWS: tuple[Literal["saturate"], Literal["infinity"]] = ("saturate", "infinity")

FORMATS: Mapping[str, Format | GroupFormat] = {each.name: each for each in _library()}
"""The formats of the library by name."""

_ALSO_CALLED = {
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "fp8": "float8_e4m3fn",
    "hif4": "hifloat4",
    "hif8": "hifloat8",
}
_REGISTERED: dict[str, Format | GroupFormat] = {}


def format_named(name: str) -> Format | GroupFormat:
    """Return the format of a name.

    Raises:
        GraphError: `format-not-known`, with the names that are near.
    """
    known = {**FORMATS, **_REGISTERED}
    if name in known:
        return known[name]
    text = str(name).lower()
    near = [_ALSO_CALLED[text]] if text in _ALSO_CALLED else get_close_matches(text, known, n=3)
    meant = f"did you mean {' or '.join(f'`{each}`' for each in near)}? " if near else ""
    common = ", ".join(("int2 to int8", *(n for n in known if "int" not in n and "-" not in n)))
    raise GraphError(
        "format-not-known", f"no format is called `{name}`", hint=f"{meant}known: {common}"
    )


def register_format(form: Format | GroupFormat) -> Format | GroupFormat:
    """Check a format and make it known by its name.

    Returns:
        The format itself.

    Raises:
        GraphError: `format-not-proved` with counterexamples; `format-name-taken` if another format,
            registered or of the library, has the name.
    """
    check_format(form)
    taken = {**FORMATS, **_REGISTERED}.get(form.name)
    if taken is not None and taken != form:
        reason = f"another format is called `{form.name}`"
        raise GraphError("format-name-taken", reason, hint="give the format a name of its own")
    _REGISTERED[form.name] = form
    return form
