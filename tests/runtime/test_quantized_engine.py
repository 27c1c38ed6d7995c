"""The bundled model with codes: what the emulator generates, as the reference does."""

from pathlib import Path

import pytest

import ascendfx
from ascendfx import Request, TransferRecord
from ascendfx.runtime.start_engine import start_engine
from tests.models.bundled import golden_generations


@pytest.mark.nightly
@pytest.mark.parametrize("quant", ["w8a8", "w4a8", "w8a8kv8"])
def test_the_emulator_generates_what_the_reference_generates(quant: str) -> None:
    """By four bits in float32: of one prompt two tokens are 0.04 apart, which bfloat16 decides."""
    pytest.importorskip("torch")
    given = golden_generations()[:2]
    found = {}
    for executor in ("emulator", "reference"):
        engine = ascendfx.compile(
            ascendfx.bundled_model(),
            quant=quant,
            dtype="float32" if quant == "w4a8" else None,
            max_batch=2,
            max_context=128,
            executor=executor,
        )
        results = engine.generate([each.prompt for each in given], max_new_tokens=6)
        found[executor] = [tuple(result.token_ids) for result in results]
    assert found["emulator"] == found["reference"]
    if quant == "w8a8":
        assert found["emulator"] == [each.output_ids[:6] for each in given]


@pytest.mark.nightly
def test_a_cache_of_codes_is_handed_over_with_that_of_the_draft_layer(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    prompt = golden_generations()[0].prompt_ids
    first = ascendfx.compile(
        ascendfx.bundled_model(), quant="w8a8kv8", max_batch=1, max_context=128, draft_tokens=1,
        executor="reference",
    )  # fmt: skip
    (wanted,) = first.generate([prompt], max_new_tokens=5, stop_at_eos=False)
    request = Request(prompt=prompt, max_new_tokens=5, stop_at_eos=False)
    first.prefill(request).save(tmp_path / "record.safetensors")
    record = TransferRecord.load(tmp_path / "record.safetensors")
    assert record.caches["cache.4.0"].dtype.kind == "i"
    assert record.caches["cache.4.2"].shape == record.caches["cache.draft.0.2"].shape
    second = start_engine(first.compiled, "reference")
    second.start_from(record)
    found: tuple[int, ...] = ()
    while second.busy:
        second.step()
        for update in second.poll():
            found += update.token_ids
    assert found == tuple(wanted.token_ids)
