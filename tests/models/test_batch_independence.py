"""Row e of the main job: the tokens of a request do not depend on its batch mates."""

from itertools import chain, islice

import pytest

from ascendfx.runtime.engine.engine import Engine
from tests.models.bundled import heldout_tokens

# The prefill chunk and the cache block both hold 128 tokens. Prompts of 1 token, of less than a
# chunk, exactly one, one more, several chunks, and such that the answer crosses a block.
LENGTHS = (1, 7, 64, 122, 127, 128, 129, 300)
NEW_TOKENS = 12


def prompts() -> list[tuple[int, ...]]:
    texts = islice(chain(*heldout_tokens(1, max(LENGTHS)).values()), len(LENGTHS))
    return [ids[:length] for ids, length in zip(texts, LENGTHS, strict=True)]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_batch_of_eight_gives_each_prompt_the_tokens_it_gets_alone(
    dtype: str, request: pytest.FixtureRequest
) -> None:
    engine: Engine = request.getfixturevalue(f"engine_{dtype}")
    together = engine.generate(prompts(), max_new_tokens=NEW_TOKENS, stop_at_eos=False)
    alone = [
        engine.generate([prompt], max_new_tokens=NEW_TOKENS, stop_at_eos=False)[0]
        for prompt in prompts()
    ]
    assert together == alone
    assert len({result.token_ids for result in alone}) == len(LENGTHS)


def test_more_prompts_than_the_batch_wait_and_get_the_same_tokens(engine_f32: Engine) -> None:
    many = [prompt[:40] for prompt in prompts()] * 3
    assert len(many) > engine_f32.executor.capacities("decode").requests
    results = engine_f32.generate(many, max_new_tokens=3, stop_at_eos=False)
    assert results[:8] == results[8:16] == results[16:]
    assert results[0] == engine_f32.generate(many[:1], max_new_tokens=3, stop_at_eos=False)[0]
