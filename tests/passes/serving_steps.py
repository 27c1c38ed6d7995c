"""Small helpers for tests that serve in steps."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.passes.run_on_tokens import logits_on_tokens

BLOCK = 4
"""Tokens of a cache block: small, so that a short text fills several."""


def full_logits(program: Program, weights: Mapping[str, Array], ids: Sequence[int]) -> Array:
    """Return the logits ``[tokens, vocab]`` of the captured form."""
    return logits_on_tokens(program, weights, ids)


def spans(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return ``(start, stop)`` of consecutive pieces of the given lengths."""
    return list(pairwise(np.concatenate([[0], np.cumsum(lengths)]).tolist()))
