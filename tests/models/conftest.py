"""Engines that several end-to-end tests share; kernels come from the user's kernel cache."""

import pytest

import ascendfx
from ascendfx.runtime.engine.engine import Engine
from tests.models.bundled import Golden, golden_generations


@pytest.fixture(scope="session")
def golden() -> tuple[Golden, ...]:
    return golden_generations()


@pytest.fixture(scope="session")
def engine_f32() -> Engine:
    return ascendfx.compile(ascendfx.bundled_model(), "ascend910b", dtype="float32")


@pytest.fixture(scope="session")
def engine_bf16() -> Engine:
    return ascendfx.compile(ascendfx.bundled_model(), "ascend910b", dtype="bfloat16")
