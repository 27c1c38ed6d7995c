"""HiFloat4: groups of 64 four-bit values under a three-level scale (arXiv 2602.11287).

The 910B has no hardware for it: there it is a format of storage and emulation.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import as_numbers
from ascendfx.quant_passes.formats.format import Float64s, Floats, GroupCodes

GROUP = 64
METADATA = 4
_GROUPS = 1 << 11
"""Groups encoded at a time."""
NOT_FINITE = 0xFF
"""The scale byte of a group that holds an infinity or NaN: all of it is NaN."""
_SMALLEST, _LARGEST = 2.0**-48, 1.5 * 2.0**15
_BF16_ROUNDOFF = 2.0**-8
_SEVENTH = float(bfloat16(1 / 7))

Float32s = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Scales:
    """Of each group: its scale byte and scale, and one-bit exponents for 8 and for 4 values."""

    byte: NDArray[np.uint8]
    scale: Float32s
    eights: NDArray[np.bool_]
    fours: NDArray[np.bool_]

    def exponents(self) -> NDArray[np.int32]:
        """Return ``[*leading, groups, 64]`` how often the bits double each value: 0 to 2."""
        eights = np.repeat(self.eights, 8, axis=-1).astype(np.int32)
        return eights + np.repeat(self.fours, 4, axis=-1)

    def per_value(self) -> Float64s:
        """Return ``[*leading, groups, 64]`` the factor of each value's code over four."""
        return np.ldexp(self.scale.astype(np.float64)[..., None], self.exponents())


@dataclass(frozen=True, slots=True)
class HiFloat4:
    """Four bits per value (a sign, three of magnitude) and 32 bits per group of 64.

    A group has a scale of six bits of exponent and two of mantissa (E6M2, from 2^-48 to
    1.5 * 2^15), a bit for each eight values and a bit for each four, which double them. A code with
    a magnitude of 0 to 7 is ``sign * scale * 2**(bit of 8 + bit of 4) * magnitude / 4``.

    ========  ===========================  ===============================================
    stream    shape                        content
    ========  ===========================  ===============================================
    elements  ``[*leading, n]``            ``sign * 8 + magnitude``
    metadata  ``[*leading, n / 64, 4]``    scale byte; bits of 8; bits of 4 (first is highest)
    ========  ===========================  ===============================================

    Arithmetic is that of the reference (float32, each step rounded to bfloat16, halves of a code
    up), so a value need not become the nearest one the format has. A group that holds an infinity
    or NaN becomes NaN as a whole. Zero keeps its sign.
    """

    @property
    def name(self) -> str:
        """``hifloat4``."""
        return "hifloat4"

    @property
    def bits(self) -> float:
        """4.5, with the scales."""
        return 4 + 8 * METADATA / GROUP

    @property
    def group(self) -> int:
        """64."""
        return GROUP

    @property
    def largest(self) -> float:
        """1.5 * 2^15 * 4 * 7 / 4 = 344064."""
        return _LARGEST * 7

    def encode(self, values: Floats) -> GroupCodes:
        """Return the codes of ``[*leading, n]`` numbers.

        Raises:
            GraphError: `bad-granularity`: the last axis is not a multiple of 64; `not-numbers`.
        """
        grouped = _grouped(_in_float32(values))
        flat = grouped.reshape(math.prod(grouped.shape[:-1]), GROUP)
        elements = np.empty(flat.shape, np.uint8)
        metadata = np.empty((len(flat), METADATA), np.uint8)
        for begin in range(0, len(flat), _GROUPS):
            part = slice(begin, begin + _GROUPS)
            elements[part], metadata[part] = _encoded(flat[part])
        leading = grouped.shape[:-1]
        return GroupCodes(elements.reshape(np.shape(values)), metadata.reshape(*leading, METADATA))

    def decode(self, codes: GroupCodes) -> Float64s:
        """Return the numbers of the codes, ``[*leading, n]``.

        Raises:
            GraphError: `damaged-stream`: the streams do not fit each other, or an element exceeds
                four bits.
        """
        elements, metadata = np.asarray(codes.elements), np.asarray(codes.metadata)
        groups = (*elements.shape[:-1], elements.shape[-1] // GROUP if elements.ndim else 0)
        fits = elements.ndim > 0 and elements.shape[-1] % GROUP == 0
        if not fits or metadata.shape != (*groups, METADATA) or np.any(elements > 0xF):
            reason = (
                f"hifloat4: elements {list(elements.shape)} and metadata {list(metadata.shape)} "
                "are not codes of groups of 64"
            )
            hint = "metadata is [*leading, n / 64, 4] bytes; unpack elements to one per byte"
            raise GraphError("damaged-stream", reason, hint=hint)
        bits = np.unpackbits(metadata[..., 1:], axis=-1).astype(np.bool_)
        byte = metadata[..., 0]
        scales = _Scales(byte, _scale_of(byte), bits[..., :8], bits[..., 8:])
        grouped = elements.reshape(*groups, GROUP)
        magnitude = (grouped & 7) / 4 * scales.per_value()
        signed = np.copysign(magnitude, np.where(grouped & 8, -1.0, 1.0))
        return np.where((byte == NOT_FINITE)[..., None], np.nan, signed).reshape(elements.shape)

    def error_bound(self, values: Floats) -> Float64s:
        r"""Return half a step of each value's code and what roundings before it add.

        With :math:`t = |x| / (s 2^e)` and :math:`u = 2^{-8}`, the number that becomes a code is
        :math:`t (1 + \delta)` with :math:`|\delta| \le (1+u)^2 (1 + 2^{-24})^3 - 1 < 2.1 u`: two
        roundings to bfloat16 (of the reciprocal and of the product) and three to float32. It is off
        by 1/8 at most, or by what lies above 7/4.
        """
        numbers = _in_float32(values)
        grouped = _grouped(numbers)
        factor = _scales(grouped).per_value()
        size = np.abs(grouped.astype(np.float64)) / factor
        most = size * (1 + 2.1 * _BF16_ROUNDOFF)
        off = np.maximum(0.125, most - 1.75) + 2.1 * _BF16_ROUNDOFF * size
        narrowing = np.abs(as_numbers(values) - numbers.astype(np.float64))
        return (off * factor).reshape(numbers.shape) + narrowing


def _encoded(grouped: Float32s) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the elements and the bytes of ``[groups, 64]`` numbers."""
    scales = _scales(grouped)
    reciprocal = _bf16(np.float32(1) / scales.scale)[..., None]
    halvings = np.ldexp(np.float32(1), -scales.exponents())
    with np.errstate(invalid="ignore"):
        scaled = _bf16(np.abs(grouped) * reciprocal * halvings)
        magnitude = np.clip(np.floor(np.nan_to_num(4 * scaled) + np.float32(0.5)), 0, 7)
    sign = np.signbit(grouped).astype(np.uint8) << np.uint8(3)
    eights, fours = np.packbits(scales.eights, axis=-1), np.packbits(scales.fours, axis=-1)
    metadata = np.concatenate([scales.byte[..., None], eights, fours], axis=-1)
    return magnitude.astype(np.uint8) | sign, metadata


def _in_float32(values: Floats) -> Float32s:
    with np.errstate(over="ignore"):
        return as_numbers(values).astype(np.float32)


def _bf16(values: NDArray[Any]) -> Float32s:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(bfloat16).astype(np.float32)


def _grouped(values: Float32s) -> Float32s:
    if values.ndim == 0 or values.shape[-1] % GROUP:
        reason = f"hifloat4: the last axis of {list(values.shape)} is not a multiple of {GROUP}"
        hint = "groups of 64 are part of the format; pad the last axis or choose another format"
        raise GraphError("bad-granularity", reason, hint=hint)
    return values.reshape(*values.shape[:-1], values.shape[-1] // GROUP, GROUP)


def _scales(grouped: Float32s) -> _Scales:
    """Return the scales of ``[*leading, groups, 64]`` numbers."""
    magnitude = np.abs(grouped)
    largest = magnitude.max(axis=-1)
    finite = np.isfinite(largest)
    wanted = _bf16(np.where(finite, largest, 0) * np.float32(_SEVENTH))
    wanted = np.clip(wanted, np.float32(_SMALLEST), np.float32(_LARGEST))
    exponent = np.frexp(wanted)[1] - 1
    quarters = np.rint(np.ldexp(wanted, 2 - exponent)).astype(np.int64)
    byte = np.where(finite, (exponent + 48) * 4 + quarters - 4, NOT_FINITE).astype(np.uint8)
    scale = np.where(finite, _scale_of(byte), np.float32(1))
    reciprocal = _bf16(np.float32(1) / scale)
    parts = magnitude.reshape(*magnitude.shape[:-1], 8, 2, 4).max(axis=-1)
    parts = np.where(finite[..., None, None], parts, np.float32(0)) * reciprocal[..., None, None]
    eights = parts.max(axis=-1) >= 4
    fours = np.ldexp(parts, -eights.astype(np.int32)[..., None]) >= 2
    return _Scales(byte, scale, eights, fours.reshape(*fours.shape[:-2], 16))


def _scale_of(byte: NDArray[np.uint8]) -> Float32s:
    code = byte.astype(np.int64)
    return np.ldexp((4 + (code & 3)).astype(np.float32), (code >> 2) - 50)
