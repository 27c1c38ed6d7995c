"""What a group of steps does to the device: places change, prompts are read, n steps run."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import ROW_START
from ascendfx.ir.cache_block import slots_of
from ascendfx.ir.step_names import ANCESTORS, COUNTS, DRAFT_IDS, DRAFT_PROBS, EMITTED, RECENT, SIZES
from ascendfx.ir.step_state import RECENT_COLUMNS, Finish, State
from ascendfx.runtime.engine.handover import put_rows, take_rows
from ascendfx.runtime.engine.prefill import (
    Joined,
    JoiningRequest,
    first_token,
    prefill,
    read_prompt,
    without_meaning,
)
from ascendfx.runtime.engine.token_counts import count_first, write_counts
from ascendfx.runtime.executor.plans_of import plans_of
from ascendfx.runtime.executor.step import StepExecutor

Ints = NDArray[np.int32]


class Group(NamedTuple):
    """Work that is handed over together; nothing of it changes afterwards.

    Attributes:
        steps: Decode steps; 0: only prompts are read.
        places: Places of the step, from 0 to the last that is used.
        context: Upper bound of the tokens of a request.
        left: Places whose request is gone.
        grown: ``[2, blocks]``: elements of the block table, counted over all rows; new blocks.
        step: ``[16]``, the tensor `step` before the first one.
        drafts: Drafts that each place shall have; None: as they are.
        joining: Requests that get a place.
    """

    steps: int
    places: int
    context: int
    left: Ints
    grown: Ints
    step: Ints
    drafts: Ints | None
    joining: Sequence[JoiningRequest]


class Readable:
    """Where the host reads what a group did.

    Attributes:
        emitted: ``[group_steps, requests, drafts + 2]``: count, tokens.
        state: ``[requests, 16]`` behind the last step.
        addresses: Of both.
    """

    def __init__(self, emitted: Ints, state: Ints) -> None:
        self.emitted, self.state = emitted, state
        self.addresses = (emitted.ctypes.data, state.ctypes.data)

    def copy(self) -> "Readable":
        """Return memory of the same size."""
        return Readable(self.emitted.copy(), self.state.copy())


class GroupResult(NamedTuple):
    """What the host reads of a group.

    Attributes:
        steps: Those that ran.
        places: Places of the step, from 0 to the last that is used.
        kept: What they left.
        joined: What prefill gave each request of ``joining``.
        not_finite: By place, what was wrong with the logits of a request that ended so. Where the
            next group does not run before the host has read this one, it can ask for those of a
            step itself.
    """

    steps: int
    places: int
    kept: Readable
    joined: Sequence[Joined]
    not_finite: dict[int, str]


Handover = tuple[int, tuple[int, ...], str, dict[str, NDArray[Any]]]
"""First token, drafts, why there is none, and the rows of the caches."""


class Device:
    """The control tensors of an executor's ``decode`` plan, written and read between groups."""

    def __init__(self, executor: StepExecutor, block_tokens: int) -> None:
        self.executor = executor
        self.block_tokens = block_tokens
        self.plans = plans_of(executor)
        prefill_only = "decode" not in self.plans
        self.decode = executor.capacities("prefill" if prefill_only else "decode")
        self.prefill = executor.capacities("prefill" if "prefill" in self.plans else "decode")
        self.drafts, self.tree = self.decode.drafts, self.decode.tree
        if prefill_only:
            self.group_steps = 1
            return
        names = ("token_ids", "positions", "slots", "row_request", "block_table", "options")
        more = ("state", "stop_ids", EMITTED, "step", SIZES)
        # Steps with several drafts keep the tokens before their rows, to draft some of them again.
        again = (RECENT,) if self.drafts > 1 else ()
        drawn = (DRAFT_IDS, DRAFT_PROBS) if self.drafts else ()
        if self.decode.branches:
            drawn = (ANCESTORS,)
        controls = (*names, *more, *again, *drawn)
        self._views = {name: executor.control("decode", name) for name in controls}
        self.group_steps = len(self._views[EMITTED])
        # The host reads one group while the next one runs.
        self._made = Readable(self._views[EMITTED], self._views["state"])
        self._copies = cycle([self._made.copy(), self._made.copy()])
        self._finished = self._made.state[:, State.FINISHED]
        each = self.drafts + 1
        places = np.arange(self.decode.requests, dtype=np.int32)
        self._column = np.arange(each, dtype=np.int32)
        self._depths = np.array(self.tree.depths, np.int32)
        self._views["row_request"][:] = np.repeat(places, each)
        if self.decode.branches:
            self._views[ANCESTORS][:] = np.tile(self.tree.ancestors, places.size)
        self._leave(places)

    def hand_over(self, request: JoiningRequest) -> Handover:
        """Read a prompt, for a decode elsewhere."""
        self._count(request)
        depth = self.tree.depth
        result = read_prompt(self.executor, self.prefill, request, self.block_tokens, depth)
        rows = take_rows(self.entries(), request.place, request.blocks, request.tokens.size)
        return *result, rows

    def entries(self) -> dict[str, NDArray[Any]]:
        """Return the caches that hold something of each token, by name."""
        caches = self.executor.caches()
        return {name: each for name, each in caches.items() if name != COUNTS}

    def run(self, group: Group, *, copy: bool) -> GroupResult:
        """Write what changed, read the prompts of those who join, run the steps.

        Args:
            group: What to do.
            copy: The next group may run before the host has read this one, but no other.
        """
        views, places = self._views, group.places
        if group.left.size:
            self._leave(group.left)
        if group.grown.size:
            at, blocks = group.grown
            views["block_table"].reshape(-1)[at] = blocks
        if group.drafts is not None:
            views["state"][: group.drafts.size, State.DRAFTS] = group.drafts
        joined = list(map(self._join, group.joining))
        reasons = {each.place: each.reason for each in joined if each.reason} if joined else {}
        steps = group.steps
        if (copy or joined) and self._finished[:places].all():  # none RUNS, which is 0
            steps = 0
        if steps:
            views["step"][:] = group.step
            self._run_steps(places, group.context, steps)
        kept = self._made
        if copy:
            kept = next(self._copies)
            np.copyto(kept.emitted, self._made.emitted)
            np.copyto(kept.state, self._made.state)
            failed = np.flatnonzero(self._finished[:places] == Finish.NOT_FINITE).tolist()
            reasons |= {place: self.not_finite(place) for place in failed}
        return GroupResult(steps, places, kept, joined, reasons)

    def _run_steps(self, places: int, context: int, steps: int) -> None:
        for slot, size in enumerate(self.decode.sizes(places * (self.drafts + 1), places, context)):
            self._views[SIZES][slot] = size
        self.executor.run_steps("decode", steps)

    def _leave(self, places: Ints) -> None:
        views = self._views
        state = views["state"]
        state[places] = 0
        state[places, State.FINISHED] = Finish.EMPTY
        state[places, State.PLACE] = places
        views["options"][places] = 0
        views["stop_ids"][places] = -1
        views["block_table"][places] = 0
        rows = (places[:, None] * self._column.size + self._column).ravel()
        views["token_ids"][rows] = 0
        # A row of a tree sees its ancestors at least, wherever it stands.
        views["positions"][rows] = np.tile(self._depths, places.size) if self.decode.branches else 0
        views["slots"][rows] = -1

    def _join(self, request: JoiningRequest) -> Joined:
        record = request.record
        self._count(request)
        if record is None:
            depth = self.tree.depth
            result = prefill(self.executor, self.prefill, request, self.block_tokens, depth)
        else:
            result = first_token(request, record.first_token, record.drafts)
        if result.finish != Finish.RUNS:
            return result
        views, place = self._views, request.place
        count_first(self.executor, place, result.token, request.options)
        if record is not None:
            put_rows(self.entries(), place, request.blocks, record.length, record.caches)
        table = views["block_table"][place]
        table[:] = 0
        table[: request.blocks.size] = request.blocks
        views["options"][place] = request.options
        views["stop_ids"][place] = request.stop_ids
        state = request.state.copy()
        state[State.GENERATED] += 1
        state[State.LENGTH] = length = request.tokens.size
        state[State.FINISHED] = Finish.RUNS
        state[State.PLACE] = place
        drafts = self.tree.spread(result.drafts)
        state[State.DRAFTED] = min(int(state[State.DRAFTS]), len(drafts))
        views["state"][place] = state
        entries = length + self._column
        # The last rows may lie behind the last block: the request ends before they count.
        slots = slots_of(request.blocks, entries, self.block_tokens)
        rows = place * self._column.size + self._column
        views["token_ids"][rows] = 0
        views["token_ids"][rows[0] : rows[0] + 1 + len(drafts)] = (result.token, *drafts)
        views["positions"][rows] = length + self._depths
        views["slots"][rows] = slots
        if DRAFT_IDS in views:
            views[DRAFT_IDS][place] = -1  # the first drafts are certain
        if RECENT in views:
            newest = request.tokens[: -RECENT_COLUMNS - 1 : -1]
            views[RECENT][place] = -1
            views[RECENT][place, : newest.size] = newest
        return result

    def _count(self, request: JoiningRequest) -> None:
        parts = (request.tokens, request.state, request.options)
        write_counts(self.executor, request.place, *parts)

    def not_finite(self, place: int) -> str:
        """Return which logit was none; a place that has ended keeps computing the same rows."""
        each = self.drafts + 1
        start, rows = place * each, each
        with suppress(KeyError):  # a step whose rows are not packed does not say where they start
            start = int(self.executor.control("decode", ROW_START)[place])
            rows = 1 + min(int(self._views["state"][place, State.DRAFTED]), self.drafts)
        logits = self.executor.control("decode", "logits")[start : start + rows]
        return without_meaning(logits) or "no token is possible"
