"""Steps that prepare the next one, on NumPy, with a model that reads its cache token by token.

The paged cache holds the tokens themselves, and where each was. A wrong slot, position, block or
shift is then a wrong next token, or a failed assertion that names the row.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.ops.advance_requests import AdvanceRequests
from ascendfx.ir.ops.sample_drafts import SampleDrafts
from ascendfx.ir.ops.sample_tokens import SampleTokens
from ascendfx.ir.ops.verify_drafts import VerifyDrafts
from ascendfx.ir.step_state import (
    DRAFT_CANDIDATES,
    OPTION_COLUMNS,
    RECENT_COLUMNS,
    STATE_COLUMNS,
    STEP_COLUMNS,
    STOP_COLUMNS,
    Finish,
    State,
)
from ascendfx.runtime.executor.step import StepInputs, StepOutputs
from tests.engine.toy_model import VOCABULARY, hash_of, logits_of

Array = NDArray[Any]
CHANGED = ("token_ids", "positions", "slots", "state", "emitted", "step")


class FakeExecutor:
    """The contract of a step, executed.

    Attributes:
        right: Probability that a draft is what the model says; which ones are depends on the text
            before them alone.
        fail_in: The executor breaks down in so many calls; None: never.
        calls: Steps and chunks so far.
    """

    def __init__(
        self,
        *,
        places: int = 3,
        drafts: int = 0,
        blocks: int = 24,
        block_tokens: int = 4,
        table_blocks: int = 8,
        chunk: int = 4,
        steps: int = 4,
        right: float = 0.5,
        plans: tuple[str, ...] = ("decode", "prefill"),
        branches: tuple[int, ...] = (),
    ) -> None:
        self.block = block_tokens
        self.drafts = drafts
        self.right = right
        self.fail_in: int | None = None
        self.calls = 0
        context, rows = table_blocks * block_tokens, places * (drafts + 1)
        self._capacities = {
            "decode": Capacities(
                *(rows, places, context, blocks, table_blocks),
                steps=steps,
                drafts=drafts,
                branches=branches,
            ),
            "prefill": Capacities(
                chunk, 1, context, blocks, table_blocks, drafts=drafts, branches=branches
            ),
        }
        self._capacities = {name: self._capacities[name] for name in plans}
        shapes = {
            **dict.fromkeys(("token_ids", "positions", "slots", "row_request"), (rows,)),
            "block_table": (places, table_blocks),
            "state": (places, STATE_COLUMNS),
            "stop_ids": (places, STOP_COLUMNS),
            "emitted": (steps, places, drafts + 2),
            "step": (STEP_COLUMNS,),
            "sizes": (8,),
            "recent": (places, RECENT_COLUMNS),
            "draft_ids": (places, drafts, DRAFT_CANDIDATES),
        }
        # Whatever the host does not write must not matter.
        self.controls: dict[str, Array] = {n: np.full(s, 77, np.int32) for n, s in shapes.items()}
        self.controls["options"] = np.full((places, OPTION_COLUMNS), 77, np.float32)
        kept = (places, drafts, DRAFT_CANDIDATES)
        self.controls["draft_probs"] = np.full(kept, 0.77, np.float32)
        self.controls["logits"] = np.zeros((rows, VOCABULARY))
        self._tokens = np.full(blocks * block_tokens, -1, np.int32)
        self._places = np.full(blocks * block_tokens, -1, np.int32)
        self._counts = np.full((places, VOCABULARY), 77, np.int32)
        self._inside = False

    @property
    def most(self) -> int:
        """Drafts that can be accepted together."""
        return next(iter(self._capacities.values())).tree.depth

    def capacities(self, plan: str) -> Capacities:
        return self._capacities[plan]

    def control(self, plan: str, name: str) -> Array:
        assert plan == "decode"
        return self.controls[name]

    def caches(self) -> dict[str, Array]:
        parts = {"cache.0.0": self._tokens, "cache.draft.0.0": self._places}
        blocks = {name: each.reshape(-1, self.block) for name, each in parts.items()}
        return {**blocks, "cache.counts": self._counts}

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        assert plan == "prefill"
        self._begin()
        rows = self._capacities[plan].rows
        assert 1 <= inputs.rows <= rows
        further = inputs.further
        self._store(inputs.token_ids, inputs.positions, inputs.slots, inputs.row_request)
        (last,) = inputs.logit_rows.tolist()
        position = int(inputs.positions[last])
        assert position == further["logit_positions"][0] < inputs.context
        prefix = self._prefix(inputs.block_table[0], position)
        logits = logits_of(prefix)[None]
        choice = (further["options"], further["state"], further["stop_ids"])
        rest = (further["logit_positions"], further["logit_requests"])
        (tokens,) = SampleTokens().reference(logits, *choice, *rest, self._counts)
        behind = [*further["known_tokens"][0].tolist(), -1]
        known = behind[: behind.index(-1)]
        drafts = self._guess(
            [*prefix, *(known or tokens.tolist())], self._capacities[plan].tree.depth
        )
        self._inside = False
        made = tuple(np.array([each], np.int32) for each in drafts)
        return StepOutputs(tokens.astype(np.int32), logits, made)

    def run_steps(self, plan: str, steps: int) -> None:
        assert plan == "decode"
        assert 1 <= steps <= self._capacities[plan].steps
        for _ in range(steps):
            self._begin()
            self._step()
            self._inside = False

    def _begin(self) -> None:
        assert not self._inside, "two steps at a time"
        self.calls += 1
        if self.fail_in is not None:
            self.fail_in -= 1
            if self.fail_in < 0:
                self.fail_in = None
                raise BreakdownError
        self._inside = True

    def _step(self) -> None:
        controls, each = self.controls, self.drafts + 1
        rows, places, context = controls["sizes"][:3].tolist()
        assert rows == places * each
        state, stops = controls["state"][:places], controls["stop_ids"][:places]
        ids, positions, slots, owner = (
            controls[name][:rows] for name in ("token_ids", "positions", "slots", "row_request")
        )
        assert owner.tolist() == np.repeat(np.arange(places), each).tolist()
        assert positions.min() >= 0
        assert positions.max() < self._capacities["decode"].context
        self._store(ids, positions, slots, owner)
        finished = state[owner, State.FINISHED]
        # A place that has ended computes on; what is looked at is why its logits were no numbers.
        runs = (finished == Finish.RUNS) | (finished == Finish.NOT_FINITE)
        verified = np.arange(rows) % each <= state[owner, State.DRAFTED]
        logits = np.zeros((rows, VOCABULARY))
        for row in np.flatnonzero(runs & verified).tolist():
            assert positions[row] < context, "the host promised less context"
            table = controls["block_table"][owner[row]]
            right = self._slot(table, int(positions[row])) if not finished[row] else -1
            assert slots[row] == right, f"slot of row {row}"
            prefix = self._prefix(table, int(positions[row]))
            assert prefix[-1] == ids[row]
            logits[row] = logits_of(prefix)
            if self.drafts > 1 and row % each == 0 and not finished[row]:
                self._check_recent(int(owner[row]), prefix)
        controls["logits"][:rows] = logits
        options = controls["options"][:places]
        kept = [controls[name][:places] for name in ("draft_ids", "draft_probs")]
        operands = [logits, options, state, stops, positions, owner, self._counts]
        coupled = [ids, *kept] if self.drafts else []
        (sampled,) = SampleTokens(self.drafts).reference(*operands, *coupled)
        accepted, last, new = VerifyDrafts(self.drafts).reference(ids, sampled, state)
        guesses = self._draft(places, positions[last], accepted, new)
        changed = AdvanceRequests(self.drafts, self.block).reference(
            *(ids, positions, slots, controls["block_table"][:places], state, stops),
            *(accepted, new, controls["emitted"][:, :places], controls["step"]),
            *(self._counts, options, *guesses),
        )
        *changed, self._counts[:] = changed
        for name, values in zip(CHANGED, changed, strict=True):
            target = controls[name]
            (target[:, :places] if name == "emitted" else target[: len(values)])[:] = values
        for place in np.flatnonzero(state[:, State.FINISHED] == Finish.RUNS).tolist():
            length = int(state[place, State.LENGTH])
            before = self._prefix(controls["block_table"][place], length - 1)
            controls["recent"][place] = newest_first(before)

    def _draft(self, places: int, at: Array, accepted: Array, new: Array) -> Array:
        """Return the drafts of each depth, and keep what they were drawn from."""
        controls = self.controls
        choice = [controls[name][:places] for name in ("options", "state", "stop_ids")]
        kept = [controls[name][:places] for name in ("draft_ids", "draft_probs")]
        drafts = np.zeros((self.drafts, places), np.int32)
        for depth in range(self.drafts):
            logits = np.zeros((places, VOCABULARY))
            for place in np.flatnonzero((choice[1][:, State.FINISHED] == 0) & (new >= 0)).tolist():
                prefix = self._prefix(controls["block_table"][place], int(at[place]))
                text = [*prefix, int(new[place]), *drafts[:depth, place].tolist()]
                logits[place] = self._draft_logits(text)
            drafts[depth], *values = SampleDrafts(depth).reference(logits, *choice, accepted, *kept)
            for target, each in zip(kept, values, strict=True):
                target[:] = each
        return drafts

    def _check_recent(self, place: int, prefix: list[int]) -> None:
        """Check the tokens before the rows of a place, which later drafts are made from."""
        assert self.controls["recent"][place].tolist() == newest_first(prefix[:-1])

    def _store(self, ids: Array, positions: Array, slots: Array, owner: Array) -> None:
        kept = slots >= 0
        assert len(set(slots[kept].tolist())) == kept.sum(), f"two rows share a slot: {owner}"
        self._tokens[slots[kept]] = ids[kept]
        self._places[slots[kept]] = positions[kept]

    def _slot(self, table: Array, position: int) -> int:
        return int(table[position // self.block]) * self.block + position % self.block

    def _prefix(self, table: Array, position: int) -> list[int]:
        at = np.arange(position + 1)
        slots = table[at // self.block] * self.block + at % self.block
        assert (self._places[slots] == at).all(), "an entry of another position"
        return self._tokens[slots].tolist()

    def _guess(self, prefix: list[int], count: int) -> list[int]:
        drafts: list[int] = []
        for _ in range(count):
            logits = self._draft_logits([*prefix, *drafts])
            drafts.append(0 if np.isnan(logits).any() else int(np.argmax(logits)))
        return drafts

    def _draft_logits(self, text: list[int]) -> Array:
        logits = logits_of(text)
        if hash_of([*text, 5]) / 2**64 < self.right:
            return logits
        return np.maximum(np.roll(logits, 1), logits - 0.3)  # the right token comes second


def newest_first(tokens: list[int]) -> list[int]:
    return [*tokens[::-1], *[-1] * RECENT_COLUMNS][:RECENT_COLUMNS]


class BreakdownError(Exception):
    """The device is gone for a moment."""
