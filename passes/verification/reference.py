"""What later passes are held to after a pass that is allowed to change numbers.

A lossy pass moves results away from the truth. The passes behind it are not to blame for that, so
they are compared with what its own program made of the same inputs.
"""

from dataclasses import replace

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.passes.verification.compare_step import logits_place
from ascendfx.passes.verification.follow_truth import Step, Truth
from ascendfx.passes.verification.run_with_noise import Noisy


def reference_of(steps: list[Step], truth: Truth) -> Truth:
    """Return the results of a program in place of the truth's, wherever it has them.

    Args:
        steps: Of the program, along the truth.
        truth: What the program was followed along; it says where the numbers are not the program's.
    """
    calls = truth.calls
    if all(len(step.run.calls) == len(calls) for step in steps):
        calls = tuple(
            tuple(
                _put_together(
                    known, [(step, step.run.calls[number].outputs, place) for step in steps], truth
                )
                for place, known in enumerate(results)
            )
            for number, results in enumerate(calls)
        )
    logits = truth.logits
    numbers = token_numbers(truth)
    states = list(truth.states)
    for step in steps:
        place = logits_place(step)
        logits = put_rows(logits, step.pick_logits(numbers), step.run.outputs[place])
        for i, known in enumerate(states, start=1):
            states[i - 1] = put_rows(known, step.pick(numbers), step.run.outputs[place + i])
    return replace(truth, calls=calls, logits=logits, states=tuple(states))


def _put_together(
    known: Noisy, parts: list[tuple[Step, tuple[Noisy, ...], int]], truth: Truth
) -> Noisy:
    if truth.part(known[0], lambda array: array) is None:
        return known
    for step, outputs, place in parts:
        if place < len(outputs):
            known = put_rows(known, step.pick(token_numbers(truth)), outputs[place])
    return known


def put_rows(known: Noisy, rows: Array, own: Noisy) -> Noisy:
    """Return ``known [texts, tokens, ...]`` with ``own`` at the tokens ``rows``, if it fits."""
    shape = known[0].shape
    if own[0].shape != (*rows.shape, *shape[2:]):
        return known
    clean, noisy = (_with_rows(each, rows, part) for each, part in zip(known, own, strict=True))
    return clean, noisy


def _with_rows(array: Array, rows: Array, part: Array) -> Array:
    flat = array.reshape(-1, *array.shape[2:]).copy()
    flat[rows.reshape(-1)] = part.reshape(-1, *array.shape[2:])
    return flat.reshape(array.shape)


def token_numbers(truth: Truth) -> Array:
    """Return the number of each token of ``[texts, tokens]``."""
    return np.arange(truth.tokens.size).reshape(truth.tokens.shape)
