"""Numbers that single precision holds with all its digits."""

import numpy as np

_LEAST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)


def is_normal_f32(number: float) -> bool:
    """Say whether f32 holds ``number`` to full precision: not zero, not denormal, not infinite."""
    return _LEAST <= abs(number) <= _LARGEST
