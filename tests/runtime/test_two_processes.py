"""The bundled model in two processes: one reads prompts, one goes on; both run the kernels."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ascendfx
from ascendfx import Request, Sampling, TransferRecord
from ascendfx.ir.diagnostic import GraphError

CHUNK, BLOCK, LIMIT = 48, 128, 7
LENGTHS = (1, CHUNK, CHUNK + 1, BLOCK - 2, BLOCK)
"""Ends of chunks, and texts that go on over the end of a block."""

PROCESS = """
import json, sys
import ascendfx
from ascendfx import Request, Sampling

folder, prompts = sys.argv[1], json.loads(sys.argv[2])
engine = ascendfx.load(folder + "/prefill")
for number, (ids, temperature, seed) in enumerate(prompts):
    sampling = Sampling(temperature=temperature, top_p=0.95, seed=seed)
    request = Request(prompt=ids, max_new_tokens=7, stop_at_eos=False, sampling=sampling)
    engine.prefill(request).save(f"{folder}/{number}.safetensors")
"""


@pytest.mark.parametrize("drafts", [pytest.param(0, marks=pytest.mark.nightly), 2])
def test_two_processes_say_what_one_says(drafts: int, tmp_path: Path) -> None:
    whole = ascendfx.compile(
        ascendfx.bundled_model(),
        dtype="float32",
        draft_tokens=drafts,
        max_batch=3,
        max_context=160,
        prefill_chunk=CHUNK,
    )
    for plan in ("prefill", "decode"):
        whole.save(tmp_path / plan, plans=(plan,))
        assert [each.name for each in (tmp_path / plan).glob("plan-*")] == [f"plan-{plan}.json"]
    prompts = [
        ([(7 * place + 11 * length) % 250 for place in range(length)], number % 2 * 0.8, number)
        for number, length in enumerate(LENGTHS)
    ]
    wanted = whole.generate(
        [ids for ids, *_ in prompts],
        sampling=[Sampling(temperature=t, top_p=0.95, seed=seed) for _, t, seed in prompts],
        max_new_tokens=LIMIT,
        stop_at_eos=False,
    )
    command = [sys.executable, "-c", PROCESS, str(tmp_path), json.dumps(prompts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    engine = ascendfx.load(tmp_path / "decode")
    records = [TransferRecord.load(tmp_path / f"{i}.safetensors") for i in range(len(prompts))]
    assert [each.length for each in records] == list(LENGTHS)
    assert [each.bytes_per_token for each in records] == [1600 + 320 * drafts] * len(records)
    assert records[0].draft_bytes_per_token == 320 * drafts
    ids = [engine.start_from(each) for each in reversed(records)]  # other places, other blocks
    tokens: dict[int, tuple[int, ...]] = dict.fromkeys(ids, ())
    while engine.busy:
        engine.step(4)
        for update in engine.poll():
            tokens[update.request] += update.token_ids
    assert list(reversed(tokens.values())) == [each.token_ids for each in wanted]
    with pytest.raises(GraphError, match="other-half"):
        engine.prefill(Request(prompt=[1]))
    with pytest.raises(GraphError, match="unknown-plan"):
        whole.save(tmp_path / "none", plans=("encode",))
