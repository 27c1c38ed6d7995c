"""The bundled model with eight-bit codes: what the emulator generates, as the reference does."""

import pytest

import ascendfx
from tests.models.bundled import golden_generations


@pytest.mark.nightly
def test_the_emulator_generates_what_the_reference_generates() -> None:
    pytest.importorskip("torch")
    given = golden_generations()[:2]
    found = {}
    for executor in ("emulator", "reference"):
        engine = ascendfx.compile(
            ascendfx.bundled_model(), quant="w8a8", max_batch=2, max_context=128, executor=executor
        )
        results = engine.generate([each.prompt for each in given], max_new_tokens=6)
        found[executor] = [tuple(result.token_ids) for result in results]
    assert found["emulator"] == found["reference"]
    assert found["emulator"] == [each.output_ids[:6] for each in given]
