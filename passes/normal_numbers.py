"""Numbers that single precision holds with all its digits."""

import numpy as np

from ascendfx.passes.rule import Precondition, Site

_LEAST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)


def is_normal_f32(number: float) -> bool:
    """Say whether f32 holds ``number`` to full precision: not zero, not denormal, not infinite."""
    return _LEAST <= abs(number) <= _LARGEST


def _product_is_normal(site: Site) -> bool:
    return is_normal_f32(site.holes["scale"] * site.holes["factor"])


SCALE_OUT_OF_RANGE = Precondition(
    "scale-out-of-range",
    _product_is_normal,
    "the product of both scales is no normal number of f32",
)
"""The condition of rules that multiply their holes ``scale`` and ``factor``."""
