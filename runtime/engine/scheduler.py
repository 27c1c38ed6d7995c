"""Who runs in which group of steps: waiting requests, places, groups in flight."""

from bisect import insort
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import Finish, State
from ascendfx.runtime.engine.device import Device, Group, GroupResult
from ascendfx.runtime.engine.draft_policy import DraftPolicy
from ascendfx.runtime.engine.metrics import Acceptance, Metrics, Tally
from ascendfx.runtime.engine.places import Entry, Places
from ascendfx.runtime.engine.prefill import JoiningRequest
from ascendfx.runtime.engine.transfer_record import TransferRecord

_REASONS = {Finish.STOP: "stop", Finish.LIMIT: "length", Finish.NOT_FINITE: "error"}


@dataclass(frozen=True)
class _Flight:
    """A group that was handed over and is not yet read."""

    number: int
    steps: int
    live: NDArray[np.bool_]
    result: "Future[GroupResult]"


class Scheduler:
    """Moves requests between the queue and the places; see "Scheduling" in runtime/README.md.

    Attributes:
        places: Of the decode batch.
        waiting: Requests without a place, the oldest first.
        changed: Requests without a place of which the caller does not know all, by id.
        tally: Figures for `Metrics`.
        policy: Chooses the number of drafts; None: all.
        due: Warnings to give when the engine's state is in order.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.places = Places(device)
        self.waiting: list[Entry] = []
        self.changed: dict[int, Entry] = {}
        self.tally = Tally(device.drafts)
        self.policy: DraftPolicy | None = None
        self.due: list[str] = []
        self._flights: deque[_Flight] = deque()
        self._submitted = 0
        self._leaving: list[tuple[int, int]] = []
        self._left: list[int] = []
        self._worker: ThreadPoolExecutor | None = None

    @property
    def metrics(self) -> Metrics:
        """What was done so far."""
        of = self.places.state
        running = {e.id: Acceptance.of_state(of[e.place]) for e in self.places.entries if e}
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
        """Let a request wait."""
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
            adaptive=entry.adaptive,
            caches=rows,
        )

    def cancel(self, entry: Entry) -> None:
        """End a request; what is read of it later is dropped."""
        if entry.finish_reason:
            return
        if entry.place < 0:
            self.waiting.remove(entry)
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
            if not ahead:
                self._read_all_but(0)
            group = self._prepare(steps)
            if group is None:
                self._read_all_but(0)
                return 0
            self._submit(group, ahead=ahead)
            self._read_all_but(1 if ahead else 0)
        except BaseException:  # also an interruption: the engine can be used again
            self._start_over()
            raise
        return group.steps

    def _prepare(self, steps: int) -> Group | None:
        places = self.places
        steps, wanted = self._reserve(steps)
        grown = places.grow(wanted)
        joining: list[JoiningRequest] = []
        while self.waiting and (joined := places.join(self.waiting[0], steps)):
            joining.append(joined)
            self.changed.pop(self.waiting.pop(0).id, None)
        # A step gives each request at least one token, or ends it.
        left = places.state[:, State.LIMIT] - places.state[:, State.GENERATED] - places.ahead
        steps = min(steps, int(left.max(where=places.live, initial=0)))
        if steps <= 0 and not joining:
            return None
        used = places.used
        length = (places.state[:, State.LENGTH] + (places.ahead + steps) * self._rows)[:used]
        context = min(int(length.max(where=places.live[:used], initial=1)), self._context)
        gone, self._left = np.array(self._left, np.int32), []
        drafts = self._choose_drafts(used)
        return Group(steps, used, context, gone, grown, places.table[grown], drafts, tuple(joining))

    @property
    def _rows(self) -> int:
        return self._device.drafts + 1

    @property
    def _context(self) -> int:
        return self._device.decode.context

    def _reserve(self, steps: int) -> tuple[int, NDArray[np.int32]]:
        """Return how many steps the blocks suffice for, and which they are.

        The youngest leave until the blocks suffice for one step.
        """
        while True:
            wanted = self.places.wanted_blocks(steps)
            if int(wanted.sum()) <= self.places.pool.free:
                return steps, wanted
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
        places = self.places
        if self.policy is None or not self._device.drafts or not places.adaptive[:used].any():
            return None
        state = places.state[:used]
        chosen = self.policy(
            state[:, State.PROPOSED], state[:, State.ACCEPTED], self._device.drafts
        )
        chosen = np.clip(chosen, 0, self._device.drafts)
        return np.where(places.adaptive[:used], chosen, state[:, State.DRAFTS]).astype(np.int32)

    def _submit(self, group: Group, *, ahead: bool) -> None:
        live = self.places.live.copy()
        self.places.ahead[live] += group.steps
        self._submitted += 1
        if ahead:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="ascendfx-steps")
            result = self._worker.submit(self._device.run, group)
        else:
            result = Future[GroupResult]()
            result.set_result(self._device.run(group))
        self._flights.append(_Flight(self._submitted, group.steps, live, result))

    def _read_all_but(self, count: int) -> None:
        while len(self._flights) > count:
            result = self._flights[0].result.result()
            self._read(self._flights.popleft(), result)

    def _read(self, flight: _Flight, result: GroupResult) -> None:
        places = self.places
        places.ahead[flight.live] -= flight.steps
        reading = places.read(result, flight.live)
        if result.emitted.size:
            warning = self.tally.add(
                reading.counts, reading.ran, reading.ends, reading.drafted, reading.wanted
            )
            if warning:
                self.due.append(warning)
        joined = {each.place for each in result.joined if each.reason}
        for place, why in zip(reading.ended, reading.why, strict=True):
            found = result.not_finite.get(place)
            plan = "prefill" if place in joined else "decode"
            error = None
            if found:
                entry = self.places.entries[place]
                assert entry is not None, place  # noqa: S101
                error = not_finite(entry, found, plan)
            self._end(place, _REASONS[Finish(why)], error)
        self._release_read()

    def _end(self, place: int, reason: str, error: GraphError | None) -> None:
        entry = self.places.retire(place)
        entry.finish_reason, entry.error = reason, error
        self.tally.end(entry.id, entry.state)
        self.changed[entry.id] = entry
        self._left.append(place)
        self._leaving.append((self._submitted, place))

    def _release_read(self) -> None:
        """Free the places of requests that no group in flight still runs."""
        if not self._leaving:
            return
        pending = self._flights[0].number if self._flights else self._submitted + 1
        for number, place in self._leaving:
            if number < pending:
                self.places.release(place)
        self._leaving = [each for each in self._leaving if each[0] >= pending]

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
