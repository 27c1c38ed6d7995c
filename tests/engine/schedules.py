"""An engine driven at random: whatever happens around a request, its tokens are its own."""

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ascendfx.runtime.emulator.kernel_cache import default_cache_dir
from ascendfx.runtime.emulator.runner_tools import tools_of_host
from ascendfx.runtime.engine.draft_policy import DraftPolicy, ExpectedGain, Ints
from ascendfx.runtime.engine.request import Request, Update
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.verification import LOSSLESS
from tests.engine.columns import assert_columns_tell
from tests.engine.fake_executor import BreakdownError, FakeExecutor
from tests.engine.served import served_by
from tests.engine.toy_model import VOCABULARY, expected

ENDS = frozenset({3})
TOKENS = st.integers(0, VOCABULARY - 2)
CONTEXT = 20
STEPS = st.integers(1, 6)
PENALTIES = {
    "repetition_penalty": st.sampled_from([1.0, 0.5, 2.0]),
    "presence_penalty": st.sampled_from([0.0, -1.0, 1.5]),
    "frequency_penalty": st.sampled_from([0.0, 0.7]),
}
SAMPLINGS = st.one_of(
    st.just(Sampling()),
    st.builds(Sampling, verification=st.sampled_from(LOSSLESS), **PENALTIES),
    st.builds(
        Sampling,
        temperature=st.floats(0.1, 3.0),
        top_k=st.integers(0, 5),
        top_p=st.floats(0.2, 1.0),
        min_p=st.floats(0.0, 0.5, width=32),  # others may be 0 on the device, and are refused
        seed=st.integers(0, 2**64 - 1),
        **PENALTIES,
    ),
)


def at_most_one(proposed: Ints, accepted: Ints, most: int) -> Ints:
    """Choose on the host, differently for each place and as it goes on."""
    return (proposed + np.arange(proposed.size)) % 2 * min(most, 1) + accepted * 0


POLICIES = (None, ExpectedGain(cost=0.3), at_most_one)


class Schedules(RuleBasedStateMachine):
    """An engine on the fake device, driven at random.

    Requests never hold more than 17 tokens and 3 drafts, so that ``CONTEXT`` serves each. Small
    blocks make requests grow in every step; few blocks make them wait for each other.
    """

    ran = 0

    @initialize(
        places=st.integers(1, 4),
        drafts=st.integers(0, 3),
        block_tokens=st.sampled_from([1, 2, 4]),
        spare=st.integers(0, 16),
        chunk=st.integers(1, 6),
        steps=st.integers(1, 4),
        right=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
        policy=st.sampled_from(POLICIES),
        native=st.booleans(),
    )
    def begin(
        self,
        *,
        policy: ExpectedGain | DraftPolicy | None,
        native: bool,
        block_tokens: int,
        spare: int,
        **sizes: Any,
    ) -> None:
        table = CONTEXT // block_tokens
        blocks = table + spare // block_tokens
        self.device = FakeExecutor(
            block_tokens=block_tokens, table_blocks=table, blocks=blocks, **sizes
        )
        self.serve(policy, native=native)

    def serve(self, policy: ExpectedGain | DraftPolicy | None, *, native: bool) -> None:
        """Begin with a device."""
        if native:  # it compiles the passes over its places
            self.device.tools = tools_of_host(default_cache_dir())
        self.engine = served_by(self.device, ends=ENDS)
        self.engine.draft_policy = policy
        self.requests: dict[int, Request] = {}
        self.tokens: dict[int, tuple[int, ...]] = {}
        self.ended: dict[int, Update] = {}
        self.cancelled: set[int] = set()
        Schedules.ran += 1

    @rule(
        prompts=st.lists(st.lists(TOKENS, min_size=1, max_size=7), min_size=1, max_size=3),
        limit=st.sampled_from([1, 2, 3, 5, 8, 10, 10, 10]),
        minimum=st.integers(0, 11),
        stop_at_eos=st.booleans(),
        stop_ids=st.lists(TOKENS, max_size=3),
        sampling=SAMPLINGS,
        drafts=st.none() | st.integers(0, 3),
    )
    def start(
        self,
        prompts: list[list[int]],
        limit: int,
        minimum: int,
        drafts: int | None,
        sampling: Sampling,
        **rest: Any,
    ) -> None:
        wanted = None if drafts is None else min(drafts, self.device.most)
        requests = [
            Request(
                prompt=prompt,
                max_new_tokens=limit,
                min_new_tokens=minimum,
                draft_tokens=wanted,
                sampling=self.allowed(sampling),
                **rest,
            )
            for prompt in prompts
        ]
        ids = self.engine.start(requests)
        assert not self.requests.keys() & set(ids)
        self.requests |= dict(zip(ids, requests, strict=True))
        self.tokens |= dict.fromkeys(ids, ())

    def allowed(self, sampling: Sampling) -> Sampling:
        """Return what the device can do of it."""
        return sampling

    @rule(n=STEPS, wait=st.booleans())
    def step(self, n: int, *, wait: bool) -> None:
        assert 0 <= self.engine.step(n, wait=wait) <= n

    @rule(n=STEPS, wait=st.booleans(), after=st.integers(0, 6))
    def break_down(self, n: int, after: int, *, wait: bool) -> None:
        self.device.fail_in = after
        try:
            self.engine.step(n, wait=wait)
            if not wait:
                self.engine.step(1)
        except BreakdownError:
            pass
        self.device.fail_in = None

    @rule()
    def poll(self) -> None:
        updates = self.engine.poll()
        assert_columns_tell(updates)
        assert len({each.request for each in updates}) == len(updates)
        for each in updates:
            assert each.request not in self.ended, "news of a request that had ended"
            assert each.token_ids or each.finish_reason
            self.tokens[each.request] += each.token_ids
            right, _ = expected(self.requests[each.request], ENDS)
            have = self.tokens[each.request]
            assert have == right[: len(have)], "a wrong, lost or repeated token"
            if each.finish_reason:
                self.ended[each.request] = each

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        # Whether a request has ended by now is a matter of time (``wait=False``), and hypothesis
        # wants the same choices when it repeats a schedule. To cancel an ended one does nothing.
        request = data.draw(st.sampled_from(sorted(self.requests)))
        self.engine.cancel(request)
        self.cancelled.add(request)

    @invariant()
    def blocks_have_one_owner(self) -> None:
        places = self.engine._scheduler.places
        owned = [
            block
            for place, entry in enumerate(places.entries)
            if entry is not None
            for block in places.table[place, : places.owned[place]].tolist()
        ]
        free = places.pool.stack[: places.pool.free].tolist()
        assert sorted(owned + free) == list(range(places.pool.capacity))

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        for turn in range(2_000):
            if not self.engine.busy:
                break
            self.engine.step(1 + turn % 4, wait=turn % 3 == 0)
            self.poll()
        assert not self.engine.busy, "a request waits for ever"
        self.poll()
        places = self.engine._scheduler.places
        assert places.pool.free == places.pool.capacity, "blocks are lost"
        assert places.entries == [None] * len(places.entries)
        assert self.ended.keys() == self.requests.keys()
        for request, update in self.ended.items():
            right, reason = expected(self.requests[request], ENDS)
            if update.finish_reason == "cancelled":
                assert request in self.cancelled
                continue
            assert update.finish_reason == reason
            assert self.tokens[request] == right
            assert (update.error is not None) == (reason == "error")
            assert update.acceptance is not None
            assert update.acceptance.tokens == len(right)


COMMON = settings(
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
