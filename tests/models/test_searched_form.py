"""The form that the search chooses writes what transformers writes, and is the same every time."""

import os
import subprocess
import sys

import pytest

import ascendfx
from tests.models.bundled import Golden

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
