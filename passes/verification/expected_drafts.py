"""What a step with fused draft layers must return: each draft program is run on its own.

The layer at depth ``j`` reads, at each position, the token ``j + 1`` places further and the hidden
state of the depth before: see `ascendfx.passes.fuse_mtp.FuseMtp`. Here that is told by position,
where the fused step moves rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import (
    DRAFT_CACHE_PREFIX,
    DRAFT_IDS,
    DRAFT_PROBS,
    HIDDEN_CACHE,
    KNOWN_TOKENS,
    RECENT,
)
from ascendfx.ir.step_state import DRAFT_CANDIDATES, RECENT_COLUMNS
from ascendfx.passes.expose_hidden import CHAININGS
from ascendfx.passes.serving_steps import cache_names
from ascendfx.passes.verification.drawn_step import DrawnStep
from ascendfx.passes.verification.expected_step import Expected, advanced
from ascendfx.passes.verification.run_with_noise import (
    Noisy,
    concatenated,
    tolerance,
    undisturbed,
)
from ascendfx.passes.verification.serve_rows import Piece, Served, serve
from ascendfx.passes.verification.step_parts import (
    HIDDEN,
    Parts,
    kept_at,
    kept_positions,
    numbers,
    result_names,
)


@dataclass(frozen=True)
class DraftLayers:
    """What is fused.

    Attributes:
        programs: Of the distinct layers, in serving form after the passes of the plan; with fewer
            of them than depths they are used in turn.
        chaining: Which hidden state a depth reads of the one before.
    """

    programs: Sequence[Program]
    chaining: str

    def at(self, depth: int) -> Program:
        """Return the program of a depth."""
        return self.programs[depth % len(self.programs)]


def expected_fused(
    step: DrawnStep,
    fused: Program,
    closed: Expected,
    layers: DraftLayers,
    tensors: Mapping[str, Array],
) -> Expected:
    """Return what the step must return with draft layers.

    If the choice of a draft is in doubt, nothing is expected of drafts.

    Args:
        step: What it is run on.
        fused: The step with draft layers; its inputs say what it keeps.
        closed: What the step before must return.
        layers: The draft layers.
        tensors: The checkpoint by key.
    """
    names = result_names(fused)
    depth = max(step.depths) if step.parents else sum(n.startswith("draft.") for n in names)
    made = replace(closed.made, depth=depth, drafted=_drafted(step, closed))
    drafts = _Drafts(step, fused, replace(closed, made=made), layers, tensors, depth)
    unfused = {name: each for name, each in closed.parts.items() if name != HIDDEN}
    more = advanced(step, made, closed.turns, drafts=True) if step.parents else {}
    clear = any(step.requests[number].runs for number in made.shown)
    found = drafts.run() if clear else None
    if found is None:
        following = ("token_ids", "positions", "slots")
        known = {**unfused, **more}.items()
        parts = {name: each for name, each in known if name not in following}
        return replace(closed, parts=parts, made=made, unclear=len(step.requests))
    return replace(closed, parts={**unfused, **more, **found}, made=made)


def _drafted(step: DrawnStep, closed: Expected) -> tuple[int, ...]:
    """Return how many drafts each request has in the next step."""
    most, on = len(step.parents) - 1, closed.made.goes_on
    return tuple(
        min(closed.turns[number].drafts, most) if number in on else 0
        for number in range(len(step.requests))
    )


class _Drafts:
    def __init__(
        self,
        step: DrawnStep,
        fused: Program,
        closed: Expected,
        layers: DraftLayers,
        tensors: Mapping[str, Array],
        depth: int,
    ) -> None:
        self._step, self._fused, self._closed = step, fused, closed
        self._layers, self._tensors, self._depth = layers, tensors, depth
        self._running = [n for n, request in enumerate(step.requests) if request.runs]
        self._keeps = HIDDEN_CACHE in fused.main.input_types
        self._made: dict[int, list[tuple[int, ...]]] = {n: [] for n in self._running}
        self._entries: Parts = {}

    def run(self) -> Parts | None:
        hidden = [self._hidden(number) for number in self._running]
        for depth in range(self._depth):
            served = self._serve(depth, hidden)
            if not self._choose(depth, served):
                return None
            self._note_entries(depth, served)
            chained = CHAININGS.index(self._layers.chaining)
            hidden = list(served.states[chained])
        return {**self._entries, **self._kept(), **self._told()}

    def _first(self, number: int) -> int:
        """Return the first position whose entries are written anew."""
        length = self._step.requests[number].length
        if not self._step.parents or not self._keeps:
            return length
        return max(0, length + self._closed.made.accepted[number] - self._depth)

    def _end(self, number: int) -> int:
        request = self._step.requests[number]
        more = self._closed.made.accepted[number] + 1 if self._step.parents else request.valid
        return request.length + more

    def _hidden(self, number: int) -> Noisy:
        """Return the hidden states of the main model from the first position on."""
        length, first = self._step.requests[number].length, self._first(number)
        before = [self._hidden_before(number, position) for position in range(first, length)]
        return concatenated([*before, self._closed.hidden[number]])

    def _hidden_before(self, number: int, position: int) -> Noisy:
        cache = self._step.input(self._fused.main, HIDDEN_CACHE)
        flat = cache.reshape(-1, *cache.shape[2:])
        at = kept_at(self._step, self._depth, number, position)
        return undisturbed(flat[at : at + 1])

    def _token(self, number: int, position: int) -> int:
        """Return the token at a position: of the text, of the prompt, or drafted."""
        request = self._step.requests[number]
        ahead = position - request.length
        if ahead < 0:
            return int(self._step.controls[RECENT][number, -1 - ahead])
        known = list(self._closed.tokens[number])
        if not self._step.parents:
            given = self._step.controls[KNOWN_TOKENS][number].tolist()
            behind = [known[-1], *(made[0] for made in self._made[number])]
            last = request.valid
            if ahead >= last:
                own = given[ahead - last]
                return own if own >= 0 else behind[ahead - last]
        drafted = [made[0] for made in self._made[number]]
        return [*known, *drafted][ahead]

    def _serve(self, depth: int, hidden: list[Noisy]) -> Served:
        program = self._layers.at(depth)
        pieces: list[Piece] = []
        for number, states in zip(self._running, hidden, strict=True):
            first, end = self._first(number), self._end(number)
            ids = [self._token(number, position + 1 + depth) for position in range(first, end)]
            pieces.append(Piece(ids, first, self._step.blocks(number), {"hidden": states}))
        caches = {
            own: self._step.input(self._fused.main, f"{DRAFT_CACHE_PREFIX}{depth}.{i}")
            for i, own in enumerate(cache_names(program))
        }
        return serve(program, self._tensors, pieces, caches)

    def _choose(self, depth: int, served: Served) -> bool:
        """Note the drafts of a depth; say whether they are beyond doubt."""
        count = self._step.depths.count(depth + 1) if self._step.parents else 1
        order = np.argsort(-served.logits[0], axis=1, kind="stable")[:, : count + 1]
        best = np.take_along_axis(served.logits[0], order, axis=1)
        if np.any(best[:, :-1] - best[:, 1:] <= 4 * tolerance(served.logits)):
            return False
        for number, tokens in zip(self._running, order[:, :count].tolist(), strict=True):
            self._made[number].append(tuple(tokens))
        return True

    def _note_entries(self, depth: int, served: Served) -> None:
        shown = self._closed.made.shown
        for i, own in enumerate(cache_names(self._layers.at(depth))):
            name = f"{DRAFT_CACHE_PREFIX}{depth}.{i}"
            kept: list[Noisy] = []
            for number in shown:
                if number in self._running:
                    place = self._running.index(number)
                    kept.append(served.entries(own, place, slice(self._end(number))))
                else:
                    cache = self._step.input(self._fused.main, name)
                    kept.append(undisturbed(self._step.entries(cache, number)))
            self._entries[name] = concatenated(kept)

    def _kept(self) -> Parts:
        if not self._keeps:
            return {}
        states: list[Noisy] = []
        for number, position in kept_positions(self._step, self._closed.made):
            ahead = position - self._step.requests[number].length
            if ahead < 0:
                states.append(self._hidden_before(number, position))
            else:
                clean, noisy = self._closed.hidden[number]
                states.append((clean[ahead : ahead + 1], noisy[ahead : ahead + 1]))
        parts: Parts = {HIDDEN_CACHE: concatenated(states)}
        if self._step.parents:
            parts[RECENT] = numbers(
                [
                    [self._token(number, self._end(number) - 1 - i) for i in range(RECENT_COLUMNS)]
                    for number in self._running
                    if number in self._closed.made.shown
                ]
            )
        return parts

    def _told(self) -> Parts:
        """Return the drafts, in the rows of the next step or as results."""
        shown = [number for number in self._running if number in self._closed.made.shown]
        if not self._step.parents:
            return {
                f"draft.{depth}": numbers([self._made[number][depth][0] for number in shown])
                for depth in range(self._depth)
            }
        made, rows = self._closed.made, []
        for number in shown:
            if number in made.goes_on:
                drafts = [token for tokens in self._made[number] for token in tokens]
                row = [self._closed.turns[number].new, *drafts]
                rows += row[: made.drafted[number] + 1]
        parts: Parts = {"token_ids": numbers(rows)}
        if DRAFT_IDS in self._fused.main.input_types:
            ids = np.full((len(shown), self._depth, DRAFT_CANDIDATES), -1)
            for i, number in enumerate(shown):
                ids[i, :, 0] = [tokens[0] for tokens in self._made[number]]
            parts |= {DRAFT_IDS: numbers(ids), DRAFT_PROBS: undisturbed((ids >= 0) * 1.0)}
        return parts
