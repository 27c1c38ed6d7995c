"""The form that the search chooses writes what transformers writes, and is the same every time."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from transformers import PretrainedConfig

import ascendfx
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.runtime import compile_model as compiler
from ascendfx.runtime.compiled_model import CompiledModel
from tests.models import test_random_configs as random_configs
from tests.models.bundled import Golden
from tests.models.random_config import v2_configs, v3_configs
from tests.models.random_steps import LIMITS

_DIGEST = """
import hashlib
import ascendfx
from ascendfx.codegen.ascendc.launch_plan import print_plan
from ascendfx.ir.text.printer import print_program
from ascendfx.runtime.compile_model import compile_model

model = compile_model(ascendfx.bundled_model(), dtype="bfloat16", strategy="search")
text = "".join(
    print_program(model.programs[name]) + print_plan(plan) + "".join(k.source for k in plan.kernels)
    for name, plan in model.plans.items()
)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_the_searched_form_generates_the_golden_tokens(golden: tuple[Golden, ...]) -> None:
    engine = ascendfx.compile(
        ascendfx.bundled_model(), "ascend910b", dtype="float32", strategy="search"
    )
    assert engine.compiled is not None
    for each in engine.compiled.searches:  # every layer of every plan is another than in order
        assert re.fullmatch(r"@layer_0 -\d\d\.\d %, @layer_1 -\d\d\.\d %", each.gain), each
    assert [each.stage for each in engine.compiled.searches] == ["decode", "prefill"]
    results = engine.generate(
        [each.prompt_ids for each in golden], max_new_tokens=64, min_new_tokens=64
    )
    for each, result in zip(golden, results, strict=True):
        assert result.token_ids == each.output_ids, each.prompt


@pytest.mark.nightly
def test_the_searched_form_does_not_depend_on_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(digests) == 1


def compile_by_search(captured: CapturedModel) -> CompiledModel:
    with patch.object(compiler, "capture_model", lambda *_, **__: captured):
        return compiler.compile_model(None, limits=LIMITS, strategy="search")


@pytest.fixture(scope="session")
def passing_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a kernel cache for kernels that no later run will ask for again."""
    return tmp_path_factory.mktemp("kernels")


@pytest.mark.nightly
@given(config=v2_configs() | v3_configs())
@settings(max_examples=8, **random_configs.DRAWN)
def test_searched_forms_of_random_configs_equal_the_full_forward(
    config: PretrainedConfig, passing_cache: Path
) -> None:
    with patch.object(random_configs, "compile_captured", compile_by_search):
        random_configs.check(config, Counter(), passing_cache)
