"""The engine on the reference executor: batches, chunks, limits, end tokens, bad input."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.close_step import CloseStep
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.random_weights import random_weights
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.executor.reference import ReferenceExecutor
from ascendfx.runtime.executor.step import StepExecutor, StepInputs, StepOutputs
from tests.passes.serving_steps import full_logits

PROGRAM = Path(__file__).parents[1] / "passes" / "programs" / "latent_attention.ir"
BLOCK, VOCABULARY = 4, 11
PLAIN = parse_program(PROGRAM.read_text(encoding="utf-8"), file=PROGRAM.name)
WEIGHTS = random_weights(PLAIN, seed=3)


def engine(
    *, batch: int = 3, chunk: int = 4, blocks: int = 24, ends: frozenset[int] = frozenset()
) -> Engine:
    serving = DeriveIncrementalForm(block_tokens=BLOCK).run(PLAIN).program
    table = 8
    executor = ReferenceExecutor(
        {kind: CloseStep(kind).run(serving).program for kind in ("decode", "prefill")},
        {
            "decode": Capacities(batch, batch, table * BLOCK, blocks, table),
            "prefill": Capacities(chunk, 1, table * BLOCK, blocks, table),
        },
        ArraySource(WEIGHTS),
    )
    return Engine(ServingConfig(VOCABULARY, ends, BLOCK), executor)


def greedy(prompt: Sequence[int], count: int) -> tuple[int, ...]:
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(np.argmax(full_logits(PLAIN, WEIGHTS, ids)[-1])))
    return tuple(ids[len(prompt) :])


PROMPTS = [[1], [2, 3, 4, 5, 6], [7, 8], [9, 10, 0, 1, 2, 3, 4, 5, 6], [5, 5, 5, 5]]


def test_a_batch_equals_each_prompt_alone_and_the_full_forward() -> None:
    together = engine().generate(PROMPTS, max_new_tokens=6)
    for prompt, result in zip(PROMPTS, together, strict=True):
        assert result.prompt_ids == tuple(prompt)
        assert result.token_ids == greedy(prompt, 6)
        assert result.finish_reason == "length"
        assert engine().generate([prompt], max_new_tokens=6)[0].token_ids == result.token_ids


def test_an_end_token_stops_its_request_only() -> None:
    plain = engine().generate(PROMPTS, max_new_tokens=8)
    end = plain[1].token_ids[3]
    results = engine(ends=frozenset({end})).generate(PROMPTS, max_new_tokens=8)
    for before, after in zip(plain, results, strict=True):
        expected = before.token_ids
        if end in expected:
            expected = expected[: expected.index(end)]
        assert after.token_ids == expected
        assert after.finish_reason == ("stop" if end in before.token_ids else "length")
    ignored = engine(ends=frozenset({end})).generate(PROMPTS, max_new_tokens=8, stop_at_eos=False)
    assert [r.token_ids for r in ignored] == [r.token_ids for r in plain]


def test_no_end_token_comes_before_the_minimum() -> None:
    plain = engine().generate(PROMPTS, max_new_tokens=8)
    end = plain[1].token_ids[0]
    results = engine(ends=frozenset({end})).generate(PROMPTS, max_new_tokens=8, min_new_tokens=5)
    for prompt, result in zip(PROMPTS, results, strict=True):
        assert len(result.token_ids) >= 5
        assert end not in result.token_ids
        first = full_logits(PLAIN, WEIGHTS, prompt)[-1]
        first[end] = -np.inf
        assert result.token_ids[0] == np.argmax(first)


def test_requests_wait_when_the_cache_has_no_room_and_blocks_come_back() -> None:
    small = engine(blocks=4)
    results = small.generate(PROMPTS, max_new_tokens=6)
    assert [r.token_ids for r in results] == [greedy(p, 6) for p in PROMPTS]
    assert small.generate(PROMPTS, max_new_tokens=6) == results


def test_progress_ends_at_the_total() -> None:
    seen: list[tuple[int, int]] = []
    engine().generate(PROMPTS, max_new_tokens=3, progress=lambda *at: seen.append(at))
    assert seen[-1] == (15, 15)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("prompts", "tokens", "message"),
    [
        ([[]], 1, r"error\[empty-prompt\]: prompt 0 has no tokens"),
        ([[1], [11]], 1, r"error\[token-range\]: prompt 1 holds token id 11.*0\.\.10"),
        ([[-1]], 1, r"error\[token-range\]: prompt 0 holds token id -1"),
        (
            [[1] * 30],
            3,
            r"error\[context-limit\]: .*30 tokens, with 3 new ones 33; the plan serves 32",
        ),
        ([[1]], 0, r"error\[bad-limit\]"),
        ([[1]], 2.5, r"error\[bad-limit\]: max_new_tokens must be at least 1, got 2.5"),
        ([[1]], None, r"error\[bad-limit\]"),
        ([[1.7]], 1, r"error\[bad-prompt\]: prompt 0 is neither text nor a list of token ids"),
        ([1, 2], 1, r"error\[bad-prompt\]: prompt 0 .*\n\nhint: pass a list of prompts"),
        ([[[1, 2]]], 1, r"error\[bad-prompt\]"),
        (["text"], 1, r"error\[no-tokenizer\]"),
        ("text", 1, r"error\[bad-prompt\]"),
    ],
)
def test_bad_requests_get_one_clear_error(
    prompts: list[list[int]], tokens: int, message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        engine().generate(prompts, max_new_tokens=tokens)


def test_an_engine_of_a_package_has_nothing_to_save(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="copy the package") as caught:
        engine().save(tmp_path / "pkg")
    assert caught.value.code == "nothing-to-save"
    assert not list(tmp_path.iterdir())


def test_a_request_larger_than_the_whole_cache_is_refused() -> None:
    with pytest.raises(GraphError, match=r"error\[cache-full\]"):
        engine(blocks=2).generate([[1] * 9], max_new_tokens=6)


class Interrupted:
    """Runs steps until one is interrupted."""

    def __init__(self, executor: StepExecutor, steps: int) -> None:
        self._executor = executor
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        self._count()
        return self._executor.run(plan, inputs)

    def run_steps(self, plan: str, steps: int) -> None:
        for _ in range(steps):
            self._count()
            self._executor.run_steps(plan, 1)

    def _count(self) -> None:
        self._steps -= 1
        if self._steps == -1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("steps", range(12))
def test_an_interrupted_engine_goes_on(steps: int) -> None:
    """Chunks of prefill and steps of decode; every block must come back."""
    small = engine(blocks=4)
    wanted = small.generate(PROMPTS, max_new_tokens=4)
    small.executor = Interrupted(small.executor, steps)
    with pytest.raises(KeyboardInterrupt):
        small.generate(PROMPTS, max_new_tokens=4)
    assert small.generate(PROMPTS, max_new_tokens=4) == wanted


def test_end_tokens_outside_the_vocabulary_hide_nothing() -> None:
    plain = engine().generate(PROMPTS, max_new_tokens=4)
    ends = frozenset({VOCABULARY + 9, -1})
    results = engine(ends=ends).generate(PROMPTS, max_new_tokens=4, min_new_tokens=4)
    assert results == plain
    with_first = ends | {plain[0].token_ids[0]}
    results = engine(ends=with_first).generate(PROMPTS, max_new_tokens=4, min_new_tokens=4)
    first = full_logits(PLAIN, WEIGHTS, PROMPTS[0])[-1]
    first[plain[0].token_ids[0]] = -np.inf
    assert results[0].token_ids[0] == np.argmax(first)


def test_integers_of_numpy_are_token_ids() -> None:
    given = [np.array(each, np.int32) for each in PROMPTS]
    assert engine().generate(given, max_new_tokens=2) == engine().generate(  # pyright: ignore[reportArgumentType]
        PROMPTS, max_new_tokens=2
    )
