"""What prefill and decode must agree on, and figures are of: programs, formats, weights."""

import hashlib
from collections.abc import Mapping

import numpy as np

from ascendfx.ir.program import Program
from ascendfx.ir.text.printer import print_program
from ascendfx.runtime.compiled_model import CompiledModel

_TENSORS = 16
_NUMBERS = 4096
_HALF = 32
"""Characters of each half of a hash: programs, then weights."""


def model_hash(compiled: CompiledModel) -> str:
    """Return the hash of a whole compiled model: that of its programs, then of its weights.

    The programs are hashed as text, which has every operation, width and element format, but not
    the limits of a compilation. Of the weights a sample is: the first numbers of a few tensors.
    Two checkpoints that differ nowhere in it have the same hash.
    """
    found = hashlib.sha256()
    keys = sorted({key for spec in compiled.weights for key in spec.keys})
    for at in sorted(set(np.linspace(0, len(keys) - 1, min(_TENSORS, len(keys))).astype(int))):
        numbers = np.asarray(compiled.source.load(keys[at])).reshape(-1)[:_NUMBERS]
        found.update(f"{keys[at]} {numbers.dtype}\n".encode())
        found.update(np.ascontiguousarray(numbers).view(np.uint8).data)
    return programs_hash(compiled.steps) + found.hexdigest()[:_HALF]


def programs_hash(steps: Mapping[str, Program]) -> str:
    """Return the first half of the hash of a model, which needs no weights.

    Args:
        steps: The finished program of each plan, by name.
    """
    found = hashlib.sha256()
    for name, program in sorted(steps.items()):
        found.update(f"{name}\n{print_program(program)}\n".encode())
    return found.hexdigest()[:_HALF]
