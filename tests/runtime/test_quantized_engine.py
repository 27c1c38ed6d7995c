"""The bundled model with codes: what the emulator generates, as the reference does."""

import pytest

import ascendfx
from tests.models.bundled import golden_generations


@pytest.mark.nightly
@pytest.mark.parametrize("quant", ["w8a8", "w4a8"])
def test_the_emulator_generates_what_the_reference_generates(quant: str) -> None:
    pytest.importorskip("torch")
    given = golden_generations()[:2]
    found = {}
    for executor in ("emulator", "reference"):
        engine = ascendfx.compile(
            ascendfx.bundled_model(), quant=quant, max_batch=2, max_context=128, executor=executor
        )
        results = engine.generate([each.prompt for each in given], max_new_tokens=6)
        found[executor] = [tuple(result.token_ids) for result in results]
    assert found["emulator"] == found["reference"]
    if quant == "w8a8":
        assert found["emulator"] == [each.output_ids[:6] for each in given]
