"""Who runs in which group of steps: waiting requests, places, groups in flight."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import Finish, State
from ascendfx.runtime.engine.device import Device, Group, GroupResult
from ascendfx.runtime.engine.draft_policy import (
    DraftPolicy,
    ExpectedGain,
    chosen_drafts,
    first_rate,
    step_row,
)
from ascendfx.runtime.engine.metrics import Acceptance, Metrics, Tally
from ascendfx.runtime.engine.place_arrays import Room
from ascendfx.runtime.engine.places import Entry, Places
from ascendfx.runtime.engine.prefill import JoiningRequest
from ascendfx.runtime.engine.transfer_record import TransferRecord

_REASONS = {Finish.STOP: "stop", Finish.LIMIT: "length", Finish.NOT_FINITE: "error"}
_NONE = np.zeros(0, np.int32)


class _Flight(NamedTuple):
    """A group that was handed over and is not yet read."""

    number: int
    steps: int
    result: "Future[GroupResult]"


class Scheduler:
    """Moves requests between the queue and the places; see README.md.

    Attributes:
        places: Of the decode batch.
        waiting: Requests without a place, the oldest first.
        changed: Requests without a place of which the caller does not know all, by id.
        tally: Figures for `Metrics`.
        due: Warnings to give when the engine's state is in order.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.places = Places(device)
        self.waiting: list[Entry] = []
        self.changed: dict[int, Entry] = {}
        self.tally = Tally(self.places.sums, device.tree)
        self.policy = None
        self.due: list[str] = []
        self._flights: deque[_Flight] = deque()
        self._submitted = 0
        self._leaving: list[tuple[int, int]] = []
        self._left: list[int] = []
        self._worker: ThreadPoolExecutor | None = None

    @property
    def policy(self) -> DraftPolicy | ExpectedGain | None:
        """Chooses the number of drafts, between two groups or on the device; None: all."""
        return self._policy

    @policy.setter
    def policy(self, policy: DraftPolicy | ExpectedGain | None) -> None:
        self._policy = policy
        self._step = step_row(policy, self._device.tree.depth)

    @property
    def metrics(self) -> Metrics:
        """What was done so far."""
        of, tree = self.places.state, self._device.tree
        running = {e.id: Acceptance.of_state(of[e.place], tree) for e in self.places.entries if e}
        return self.tally.result(running)

    @property
    def busy(self) -> bool:
        """Whether there is anything to run or to read."""
        return bool(self.waiting or self._flights or self.places.live.any())

    def take_warnings(self) -> list[str]:
        """Return the warnings that are due, once."""
        due, self.due = self.due, []
        return due

    def check(self, entry: Entry, tokens: int | None = None) -> None:
        """Check that a request can be served when it is alone.

        Args:
            entry: The request.
            tokens: So many are cached; None: what it can become.

        Raises:
            GraphError: Its blocks are more than there are.
        """
        blocks = self.places.blocks_for(tokens or self.places.ceiling_of(entry))
        if blocks > self.places.pool.capacity:
            raise GraphError(
                code="cache-full",
                reason=f"{entry.name}: {blocks} cache blocks are needed, "
                f"there are {self.places.pool.capacity}",
                hint="ask for fewer tokens, or compile with a larger `cache_blocks`",
            )

    def add(self, entry: Entry) -> None:
        """Let a new request wait."""
        entry.state[State.RATE] = first_rate(self.policy)
        insort(self.waiting, entry, key=lambda each: each.id)

    def hand_over(self, entry: Entry, model: str) -> TransferRecord:
        """Read the prompt of a request that goes on elsewhere; it keeps no place and no blocks.

        Raises:
            GraphError: There is no place, are not enough blocks, or the logits are no numbers.
        """
        places = self.places
        self.check(entry, entry.prompt.size)
        try:
            self._read_all_but(0)
            lent = places.lend(entry)
            try:
                token, drafts, reason, rows = self._device.hand_over(lent)
            finally:
                places.pool.give_back(lent.blocks)
        except GraphError:
            raise
        except BaseException:  # also an interruption: nobody knows what the caches hold
            self._start_over()
            raise
        if reason:
            raise not_finite(entry, reason, "prefill")
        return TransferRecord(
            model=model,
            tokens=entry.prompt,
            first_token=token,
            drafts=drafts,
            options=entry.options,
            state=entry.state,
            stop_ids=entry.stop_ids,
            caches=rows,
        )

    def cancel(self, entry: Entry) -> None:
        """End a request; what is read of it later is dropped."""
        if entry.finish_reason:
            return
        if entry.place < 0:
            del self.waiting[bisect_left(self.waiting, entry.id, key=lambda each: each.id)]
            entry.finish_reason = "cancelled"
            self.changed[entry.id] = entry
        else:
            self._end(entry.place, "cancelled", None)
            self._release_read()

    def run(self, steps: int, *, ahead: bool) -> int:
        """Hand over a group of at most ``steps`` steps; returns how many it has.

        Args:
            steps: At least 1, at most those that the device keeps tokens of.
            ahead: Return while the group runs; what is read is the group before it.
        """
        try:
            if self._flights and not ahead:
                self._read_all_but(0)
            group = self._prepare(steps)
            if group is None:
                self._read_all_but(0)
                return 0
            self._submitted += 1
            if ahead:
                self._submit(group)
                self._read_all_but(1)
            else:
                self._read(self._submitted, self._device.run(group, copy=False))
        except BaseException:  # also an interruption: the engine can be used again
            self._start_over()
            raise
        return group.steps

    def _prepare(self, steps: int) -> Group | None:
        places, rows = self.places, self._device.drafts + 1
        steps, ahead, room = self._reserve(steps)
        grown, left, used, longest = room
        longest += ahead * rows
        joining: list[JoiningRequest] = []
        number = self._submitted + 1
        while self.waiting and (joined := places.join(self.waiting[0], steps, number)):
            joining.append(joined)
            self.changed.pop(self.waiting.pop(0).id, None)
            left = max(left, int(joined.state[State.LIMIT] - joined.state[State.GENERATED]))
            used, longest = max(used, joined.place + 1), max(longest, joined.tokens.size)
        # A step gives each request at least one token, or ends it.
        steps = min(steps, left)
        if steps <= 0 and not joining:
            return None
        context = min(longest + steps * rows, self._device.decode.context)
        gone = _NONE
        if self._left:
            gone, self._left = np.array(self._left, np.int32), []
        drafts = self._choose_drafts(used)
        return Group(steps, used, context, gone, grown, self._step, drafts, joining)

    def _reserve(self, steps: int) -> tuple[int, int, Room]:
        """Reserve the blocks of a group; returns its steps, those in flight, and who may run.

        Its steps are halved, and the youngest leave, until the blocks suffice.
        """
        while True:
            ahead = sum(flight.steps for flight in self._flights) if self._flights else 0
            room = self.places.turn.reserve(steps, ahead)
            if room is not None:
                return steps, ahead, room
            if self._flights:
                self._read_all_but(0)
            elif steps > 1:
                steps //= 2
            else:
                self._pause(int(np.where(self.places.live, self.places.ids, -1).argmax()))

    def _pause(self, place: int) -> None:
        """Put a request back into the queue; nothing is in flight."""
        entry = self.places.retire(place)
        self._left.append(place)
        self.places.release(place)
        insort(self.waiting, entry, key=lambda each: each.id)
        self.changed[entry.id] = entry

    def _choose_drafts(self, used: int) -> NDArray[np.int32] | None:
        """Return the drafts of places by a policy of the host."""
        policy, state = self.policy, self.places.state[:used]
        if policy is None or isinstance(policy, ExpectedGain) or not self._device.drafts:
            return None
        adaptive = state[:, State.ADAPTIVE] != 0
        if not adaptive.any():
            return None
        tree = self._device.tree
        proposed, accepted = state[:, State.PROPOSED], state[:, State.ACCEPTED]
        depths = chosen_drafts(policy, proposed, accepted, tree.depth)
        chosen = np.array(tree.ends)[depths]
        return np.where(adaptive, chosen, state[:, State.DRAFTS]).astype(np.int32)

    def _submit(self, group: Group) -> None:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="ascendfx-steps")
        result = self._worker.submit(self._device.run, group, copy=True)
        self._flights.append(_Flight(self._submitted, group.steps, result))

    def _read_all_but(self, count: int) -> None:
        while len(self._flights) > count:
            result = self._flights[0].result.result()
            self._read(self._flights.popleft().number, result)

    def _read(self, number: int, result: GroupResult) -> None:
        ended = self.places.read(result, number)
        self.tally.steps += result.steps
        if warning := self.tally.judge():
            self.due.append(warning)
        if ended:
            self._end_all(ended, result)
        if self._leaving:
            self._release_read()

    def _end_all(self, ended: list[int], result: GroupResult) -> None:
        joined = {each.place for each in result.joined if each.reason}
        for place in ended:
            why = Finish(self.places.state[place, State.FINISHED])
            found = result.not_finite.get(place)
            if why is Finish.NOT_FINITE and found is None:
                found = self._device.not_finite(place)
            plan = "prefill" if place in joined else "decode"
            error = None
            if found:
                entry = self.places.entries[place]
                assert entry is not None, place  # noqa: S101
                error = not_finite(entry, found, plan)
            self._end(place, _REASONS[why], error)

    def _end(self, place: int, reason: str, error: GraphError | None) -> None:
        entry = self.places.retire(place)
        entry.finish_reason, entry.error = reason, error
        self.tally.end(entry.id, entry.state)
        self.changed[entry.id] = entry
        self._left.append(place)
        self._leaving.append((self._submitted, place))

    def _release_read(self) -> None:
        """Free the places of requests that no group in flight still runs."""
        pending = self._flights[0].number if self._flights else self._submitted + 1
        for number, place in self._leaving:
            if number < pending:
                self.places.release(place)
        self._leaving = [each for each in self._leaving if each[0] >= pending]

    def give_up(self, entries: Iterable[Entry]) -> None:
        """Wait for what runs, and end requests that go on nowhere."""
        wait([flight.result for flight in self._flights])
        for entry in entries:
            if not entry.finish_reason:
                entry.finish_reason = "cancelled"

    def _start_over(self) -> None:
        """Put every request back into the queue, after a group whose end is not known.

        What was read stays; what was not is computed again, from the same tokens and seeds.
        """
        wait([flight.result for flight in self._flights])
        self._flights.clear()
        self._release_read()
        for place in np.flatnonzero(self.places.live).tolist():
            self._pause(place)
        self._left = list(range(len(self.places.entries)))


def not_finite(entry: Entry, found: str, plan: str) -> GraphError:
    """Return the error for logits that are no numbers."""
    return GraphError(
        code="logits-overflow",
        reason=f"{entry.name}: {found} in a step of plan `{plan}`",
        hint="the model's numbers overflow, or its output weights are zero: look at the "
        'weights, or compare with executor="reference", which computes in float64',
    )
