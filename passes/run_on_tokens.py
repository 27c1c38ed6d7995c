"""Run a program of any form on tokens: how passes that change the signature are compared."""

import enum
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import CACHE_PREFIX, LOGIT_ROWS
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.serving_steps import ServingSteps, block_tokens, given_first


class Form(enum.Enum):
    """What the entry of a program takes."""

    CAPTURED = "captured"
    """``logits [batch, tokens, vocab]`` of ``token_ids [batch, tokens]``; of a draft layer, further
    inputs and results ``[batch, tokens, H]``."""
    ROWS = "rows"
    """``logits [rows, vocab]`` of ``token_ids [rows]``: one text, no batch axis."""
    SERVING = "serving"
    """A step over rows with caches."""
    STEP = "step"
    """A serving form that prepares the next step by itself, see `ascendfx.passes.close_step`."""


def form_of(program: Program) -> Form:
    """Return the form of a program.

    Raises:
        GraphError: It takes something else than tokens.
    """
    kinds = program.main.input_types
    ids = kinds.get("token_ids")
    serves = any(name == LOGIT_ROWS or name.startswith(CACHE_PREFIX) for name in kinds)
    if ids is None or not (serves or _are_of_tokens(kinds.values(), ids)):
        raise GraphError(
            code="not-a-language-model",
            reason=f"the entry @{program.name} has inputs {', '.join(kinds) or 'of no name'}",
            hint="only programs that take `token_ids` can be run on tokens",
        )
    if serves:
        return Form.STEP if "state" in kinds else Form.SERVING
    return Form.CAPTURED if ids.rank == 2 else Form.ROWS


def _are_of_tokens(kinds: Iterable[TensorType], ids: TensorType) -> bool:
    """Return whether every input has one entry per token."""
    return all(kind.shape[: ids.rank] == ids.shape for kind in kinds)


def logits_on_tokens(
    program: Program,
    tensors: Mapping[str, Array],
    tokens: Sequence[int],
    *,
    step: int = 1,
) -> NDArray[np.float64]:
    """Return the logits after each token of a text, ``[len(tokens), vocab]``.

    Args:
        program: Of any form.
        tensors: The checkpoint by key.
        tokens: The text.
        step: Tokens per step of a serving form. A step yields the logits after its last token, so
            with more than one the other rows are NaN.

    Raises:
        GraphError: The program takes something else than tokens, or a tensor is missing.
    """
    match form_of(program):
        case Form.CAPTURED:
            return interpret(program, given_first({"token_ids": np.array([tokens])}, tensors))[0][0]
        case Form.ROWS:
            return interpret(program, given_first({"token_ids": np.array(tokens)}, tensors))[0]
        case Form.SERVING | Form.STEP:
            blocks = -(-len(tokens) // block_tokens(program)) + 1
            serving = ServingSteps(program, tensors, 1, blocks)
            rows: list[Array] = []
            for start in range(0, len(tokens), step):
                part = tokens[start : start + step]
                (last,) = serving.step([part])
                rows += [np.full_like(last, np.nan)] * (len(part) - 1) + [last]
            return np.stack(rows)
