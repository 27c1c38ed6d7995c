"""What the hidden states must be that a serving form returns for draft layers."""

from collections.abc import Mapping

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.passes.expose_hidden import hidden_value
from ascendfx.passes.verification.compare_step import LOGITS
from ascendfx.passes.verification.first_difference import observed
from ascendfx.passes.verification.follow_truth import Truth, follow_truth
from ascendfx.passes.verification.reference import put_rows, token_numbers
from ascendfx.passes.verification.run_with_noise import Noisy

_ROWS = 64
"""Rows of a step, each of which reads the caches by itself."""


def hidden_states(
    program: Program, tensors: Mapping[str, Array], truth: Truth, chaining: str
) -> Noisy:
    """Return the hidden states ``[texts, tokens, H]`` behind the logits of a serving form.

    The form computes them for the rows alone whose logits are wanted, so they are those of steps
    in which these are all rows.

    Args:
        program: A serving form that does not return them.
        tensors: The checkpoint by key.
        truth: What the layers of the program start from.
        chaining: Which hidden state, one of `ascendfx.passes.expose_hidden.CHAININGS`.

    Raises:
        GraphError: The logits are no projection of a norm.
    """
    value = hidden_value(program.main, chaining)
    numbers = token_numbers(truth)
    found: Noisy | None = None
    steps = -(-truth.tokens.size // _ROWS)
    for step in follow_truth(program, tensors, truth, steps=steps, every_row=True):
        _, values = observed(step, LOGITS)
        own = values[value.node][value.result]
        if found is None:
            empty = np.zeros((*truth.tokens.shape, *own[0].shape[1:]))
            found = empty, empty
        found = put_rows(found, step.pick(numbers), own)
    assert found is not None  # noqa: S101  # there is at least one step
    return found
