"""Captured programs equal the eager models in float64."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import nn

from ascendfx.ir.capture.capture_module import capture_module
from ascendfx.ir.interpret import interpret
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from tests.capture.eager_float64 import assert_equals_eager
from tests.capture.tiny_models import (
    VOCABULARY,
    deepseek_v2,
    deepseek_v3,
    llama,
)

# A capture takes seconds, so few models are drawn; --nightly draws more of them.
_OPTIONS = {"suppress_health_check": list(HealthCheck), "phases": (Phase.explicit, Phase.generate)}
few = settings(max_examples=2, **_OPTIONS)
many = settings(max_examples=40, **_OPTIONS)


def check(model: nn.Module, seed: int) -> None:
    random = np.random.default_rng(seed)
    batch, tokens = random.integers(1, 4), random.integers(1, 20)
    ids = random.integers(0, VOCABULARY, (batch, tokens))
    captured = capture_module(model)
    assert captured.remarks == ()
    assert parse_program(print_program(captured.program)) == captured.program
    assert_equals_eager(captured, model, ids)


@few
@given(model=deepseek_v3(), seed=st.integers(0, 99))
def test_deepseek_v3_equals_eager(model: nn.Module, seed: int) -> None:
    check(model, seed)


@few
@given(model=deepseek_v2(), seed=st.integers(0, 99))
def test_deepseek_v2_equals_eager(model: nn.Module, seed: int) -> None:
    check(model, seed)


@few
@given(model=llama(), seed=st.integers(0, 99))
def test_llama_equals_eager(model: nn.Module, seed: int) -> None:
    check(model, seed)


@settings(max_examples=1, **_OPTIONS)
@given(model=deepseek_v3(), seed=st.integers(0, 99))
def test_formats_do_not_change_the_function_over_the_reals(model: nn.Module, seed: int) -> None:
    ids = np.random.default_rng(seed).integers(0, VOCABULARY, (2, 6))
    wide, narrow = (capture_module(model, dtype=dtype) for dtype in (None, DType.BF16))
    assert narrow.program.main.output_types[0].dtype is DType.BF16
    tensors = dict(TensorsByKey(wide.source, {"token_ids": ids}))
    results = [interpret(each.program, tensors)[0] for each in (wide, narrow)]
    np.testing.assert_array_equal(*results)


@pytest.mark.nightly
@many
@given(model=st.one_of(deepseek_v2(4), deepseek_v3(4), llama()), seed=st.integers(0, 999))
def test_any_of_them_equals_eager(model: nn.Module, seed: int) -> None:
    check(model, seed)
