"""A text gives the same logits whichever form of a program runs it."""

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.drop_batch_axis import DropBatchAxis
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.run_on_tokens import Form, form_of, logits_on_tokens
from tests.passes.captured_models import captured, raised

_NAME = "v3_halfrope"
_TEXT = [3, 1, 4, 1, 5, 9, 2, 6, 5]


def test_every_form_gives_the_same_logits() -> None:
    weights = random_weights(captured(_NAME), 0)
    rows = DropBatchAxis().run(raised(_NAME)).program
    serving = DeriveIncrementalForm(block_tokens=4).run(raised(_NAME)).program
    forms = [form_of(each) for each in (captured(_NAME), rows, serving)]
    assert forms == [Form.CAPTURED, Form.ROWS, Form.SERVING]
    truth = logits_on_tokens(captured(_NAME), weights, _TEXT)
    np.testing.assert_allclose(logits_on_tokens(rows, weights, _TEXT), truth, atol=1e-9)
    np.testing.assert_allclose(logits_on_tokens(serving, weights, _TEXT), truth, atol=1e-9)
    chunked = logits_on_tokens(serving, weights, _TEXT, step=4)
    np.testing.assert_allclose(chunked[[3, 7, 8]], truth[[3, 7, 8]], atol=1e-9)
    assert np.isnan(chunked[[0, 1, 2, 4, 5, 6]]).all()


def test_other_programs_are_refused() -> None:
    program: Program = parse_program('graph @g {\n  %0 = input "x" : f32[2]\n  return %0\n}\n')
    with pytest.raises(GraphError, match=r"error\[not-a-language-model\]"):
        logits_on_tokens(program, {}, _TEXT)
