"""Engines on a device of the tests, and a caller that waits for what they make."""

from typing import Any

from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.engine.text_codec import TextCodec
from tests.engine.fake_executor import FakeExecutor
from tests.engine.toy_model import BROKEN, VOCABULARY, expected

LIMIT = 12


def whole(length: int) -> list[int]:
    """Return a prompt of some length whose text does not break."""
    prompts = ([start, *range(length - 1)] for start in range(BROKEN))
    return next(each for each in prompts if ends(each) == "length")


def ends(prompt: list[int]) -> str:
    return expected(Request(prompt=prompt, max_new_tokens=LIMIT))[1]


PROMPTS = [whole(length) for length in (1, 5, 2, 9, 4)]


def served_by(
    device: FakeExecutor,
    *,
    ends: frozenset[int] = frozenset(),
    model: str = "",
    codec: TextCodec | None = None,
) -> Engine:
    return Engine(ServingConfig(VOCABULARY, ends, device.block, model), device, codec)


def engine(ends: frozenset[int] = frozenset(), **options: Any) -> Engine:
    return served_by(FakeExecutor(**options), ends=ends)


def run(served: Engine, *, n: int = 4, wait: bool = True) -> dict[int, tuple[tuple[int, ...], str]]:
    """Return the tokens and the end of every request."""
    tokens: dict[int, tuple[int, ...]] = {}
    ends: dict[int, str] = {}
    while served.busy:
        served.step(n, wait=wait)
        for each in served.poll():
            tokens[each.request] = tokens.get(each.request, ()) + each.token_ids
            if each.finish_reason:
                ends[each.request] = each.finish_reason
    return {request: (tokens[request], reason) for request, reason in ends.items()}
