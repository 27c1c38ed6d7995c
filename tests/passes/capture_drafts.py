"""Draft modules as raised programs with their tensors."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ascendfx.ir.capture.capture_program import capture_program
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.registry import RAISE
from tests.passes.draft_modules import HIDDEN, VOCABULARY

_HIDDEN = TensorType(DType.F32, (named_size("batch"), named_size("tokens"), HIDDEN))


class CapturedDraft(NamedTuple):
    """A raised draft layer and what its parameters hold."""

    program: Program
    tensors: dict[str, NDArray[Any]]


@cache
def captured_draft(make: Callable[[], nn.Module]) -> CapturedDraft:
    """Return the raised plain form of a new module."""
    module = make().eval()
    traced = capture_program(module, shorten=False, hidden=_HIDDEN)
    program = traced.program
    for each in RAISE:
        program = each.run(program).program
    held = {**dict(module.named_parameters()), **dict(module.named_buffers()), **traced.constants}
    arrays = {name: tensor.detach().double().numpy() for name, tensor in held.items()}
    return CapturedDraft(program, arrays)


def random_inputs(seed: int, batch: int, tokens: int) -> dict[str, NDArray[Any]]:
    """Return token ids and hidden states."""
    random = np.random.default_rng(seed)
    return {
        "token_ids": random.integers(0, VOCABULARY, (batch, tokens)),
        "hidden": random.normal(size=(batch, tokens, HIDDEN)),
    }
