"""What a closed step must make of a drawn step: told by the form that it was closed from.

The form knows neither drafts nor the next step. Each row of the closed step is the last row of a
text there: that of its request, and the drafts on the way to it. What follows from the logits is
what the step promises, for requests that want the most likely token: see
`ascendfx.passes.close_step.CloseStep`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.step_state import RATE_ONE, RATE_SHIFT, RETRY_STEPS, Finish, State
from ascendfx.passes.verification.draw_decode import main_caches, paths_of, piece_of
from ascendfx.passes.verification.drawn_step import DrawnStep
from ascendfx.passes.verification.run_with_noise import (
    Noisy,
    concatenated,
    tolerance,
    undisturbed,
)
from ascendfx.passes.verification.serve_rows import Piece, serve
from ascendfx.passes.verification.step_parts import (
    HIDDEN,
    LOGITS,
    TOKENS,
    Outcome,
    Parts,
    entries_after,
    numbers,
)


@dataclass(frozen=True)
class Expected:
    """What a step must return.

    Attributes:
        parts: Results by name.
        made: What it does with its requests.
        hidden: Hidden states by request: of the rows of the tokens that stay; empty if the form
            returns none.
        tokens: The tokens that stay behind the cached ones, by request that runs: those of its rows
            but for rejected drafts, and the new one.
        turns: What requests that run get out of a decode step.
        unclear: Requests with two logits that are nearly equal.
    """

    parts: Parts
    made: Outcome
    hidden: Mapping[int, Noisy]
    tokens: Mapping[int, tuple[int, ...]]
    turns: "Mapping[int, Turn]"
    unclear: int = 0


def expected_prefill(step: DrawnStep, form: Program, tensors: Mapping[str, Array]) -> Expected:
    """Return what a closed prefill step must return."""
    caches = main_caches(step, form)
    pieces = [
        Piece(request.tokens, request.length, step.blocks(number))
        for number, request in enumerate(step.requests)
    ]
    served = serve(form, tensors, pieces, caches)
    shown = clear_rows(served.logits)
    chosen = np.argmax(served.logits[0], axis=1)
    made = Outcome(shown, (0,) * len(pieces), frozenset(), (0,) * len(pieces))
    parts: Parts = {TOKENS: numbers(chosen[list(shown)]), LOGITS: served.logits}
    hidden: dict[int, Noisy] = {}
    if served.states:
        hidden = dict(enumerate(served.states[0]))
        parts[HIDDEN] = concatenated(list(served.states[0]))
    for name in served.caches if shown else ():
        kept = [served.entries(name, number, slice(pieces[number].end)) for number in shown]
        parts[name] = concatenated(kept)
    tokens = {
        number: (*request.tokens, int(chosen[number]))
        for number, request in enumerate(step.requests)
    }
    return Expected(parts, made, hidden, tokens, {}, len(pieces) - len(shown))


def expected_decode(step: DrawnStep, form: Program, tensors: Mapping[str, Array]) -> Expected:
    """Return what a closed decode step must return, before draft layers are fused with it."""
    paths = paths_of(step.parents)
    rows = [
        (number, row)
        for number, request in enumerate(step.requests)
        for row in range(request.valid)
        if request.runs
    ]
    pieces = [piece_of(step, number, paths[row]) for number, row in rows]
    served = serve(form, tensors, pieces, main_caches(step, form))
    clear = set(clear_rows(served.logits))
    doubtful = {number for i, (number, _) in enumerate(rows) if i not in clear}
    chosen = dict(zip(rows, np.argmax(served.logits[0], axis=1).tolist(), strict=True))
    walks = {number: _walk(step, number, chosen) for number, row in rows if row == 0}
    shown = tuple(n for n in range(len(step.requests)) if n not in doubtful)
    turns = {number: Turn(step, number, walks[number], chosen) for number in walks}
    made = Outcome(
        shown,
        tuple(len(walks.get(number, (0,))) - 1 for number in range(len(step.requests))),
        frozenset(number for number, turn in turns.items() if turn.finish == Finish.RUNS),
        (0,) * len(step.requests),
        max(step.depths),
    )
    parts: Parts = {
        TOKENS: numbers([chosen[at] for at in rows if at[0] in shown]),
        LOGITS: served.logits,
        **advanced(step, made, turns),
    }
    places = {at: i for i, at in enumerate(rows)}
    hidden: dict[int, Noisy] = {}
    if served.states:
        last = [_taken(each, [-1]) for each in served.states[0]]
        parts[HIDDEN] = concatenated(last)
        hidden = {
            number: concatenated([last[places[number, row]] for row in walk])
            for number, walk in walks.items()
        }
    caches = main_caches(step, form)
    for name in served.caches if shown else ():
        kept: list[Noisy] = []
        for number in shown:
            if number in walks:
                at = places[number, walks[number][-1]]
                end = entries_after(step, made, number)
                kept.append(served.entries(name, at, slice(end)))
            else:
                kept.append(undisturbed(step.entries(caches[name], number)))
        parts[name] = concatenated(kept)
    tokens = {number: turn.tokens for number, turn in turns.items()}
    return Expected(parts, made, hidden, tokens, turns, len(step.requests) - len(shown))


def clear_rows(logits: Noisy) -> tuple[int, ...]:
    """Return the rows whose largest logit is largest whatever way numbers are rounded."""
    best = np.sort(logits[0], axis=1)[:, -2:]
    gaps = best[:, -1] - best[:, 0] if best.shape[1] > 1 else np.full(len(best), np.inf)
    return tuple(np.flatnonzero(gaps > 4 * tolerance(logits)).tolist())


def _walk(step: DrawnStep, number: int, chosen: Mapping[tuple[int, int], int]) -> tuple[int, ...]:
    """Return the rows of the tokens that stay: from each, the first draft that was chosen there."""
    request, walk = step.requests[number], [0]
    for row in range(1, request.valid):
        follows = step.parents[row] == walk[-1]
        if follows and request.tokens[row] == chosen[number, walk[-1]]:
            walk.append(row)
    return tuple(walk)


@dataclass(frozen=True)
class Turn:
    """What a request that runs gets out of a decode step.

    Attributes:
        step: The step.
        number: The request.
        walk: Rows of the tokens that stay.
        chosen: Token behind each row.
    """

    step: DrawnStep
    number: int
    walk: tuple[int, ...]
    chosen: Mapping[tuple[int, int], int]

    @property
    def tokens(self) -> tuple[int, ...]:
        """The token of the first row, the accepted drafts, and the new token."""
        request = self.step.requests[self.number]
        return (*(request.tokens[row] for row in self.walk), self.new)

    @property
    def new(self) -> int:
        """The token behind the last accepted one."""
        return self.chosen[self.number, self.walk[-1]]

    @property
    def emitted(self) -> tuple[int, ...]:
        """The tokens that the request is told."""
        return self._end()[0]

    @property
    def finish(self) -> Finish:
        """Why it ends, if it does."""
        return self._end()[1]

    @property
    def proposed(self) -> int:
        """Drafts of the step that could be accepted together."""
        return self.step.depths[self.step.requests[self.number].valid - 1]

    @property
    def rate(self) -> int:
        """The estimate of acceptance: each draft that was tried weighs a sixteenth."""
        accepted, weights = len(self.walk) - 1, 1 << RATE_SHIFT
        tried = accepted + (accepted < self.proposed)
        known = int(self.step.controls["state"][self.number, State.RATE])
        return (known * (weights - tried) + RATE_ONE * accepted) // weights

    @property
    def drafts(self) -> int:
        """Drafts of the next step: what the request wants, or as many as pay at its rate."""
        state, rates = self.step.controls["state"][self.number], self.step.controls["step"][1:]
        if not state[State.ADAPTIVE]:
            return int(state[State.DRAFTS])
        pays = sum(int(least) <= self.rate for least in rates[: max(self.step.depths)])
        if not pays and (state[State.STEPS] + 1) % RETRY_STEPS == 0:
            pays = 1
        return sum(0 < depth <= pays for depth in self.step.depths)

    def _end(self) -> tuple[tuple[int, ...], Finish]:
        state, stops = (self.step.controls[name][self.number] for name in ("state", "stop_ids"))
        left = int(state[State.LIMIT] - state[State.GENERATED])
        told: list[int] = []
        for token in self.tokens[1:]:
            if len(told) == left:
                return tuple(told), Finish.LIMIT
            if token in stops:
                return tuple(told), Finish.STOP
            told.append(token)
        return tuple(told), Finish.LIMIT if len(told) == left else Finish.RUNS


def advanced(
    step: DrawnStep, made: Outcome, turns: Mapping[int, Turn], *, drafts: bool = False
) -> Parts:
    """Return the control tensors of the next step, as far as drafts say nothing of them.

    Args:
        step: What the step was run on.
        made: What it does with its requests.
        turns: What requests that run get out of it.
        drafts: Whether it has draft layers: then it estimates how often drafts are accepted, and
            chooses how many there are in the next step.
    """
    state = step.controls["state"].copy()
    parts: Parts = {}
    for number, turn in turns.items():
        state[number, State.FINISHED] = turn.finish
        state[number, State.GENERATED] += len(turn.emitted)
        state[number, State.STEPS] += 1
        if drafts:
            state[number, State.RATE] = turn.rate
        if number in made.goes_on:
            state[number, State.PROPOSED] += turn.proposed
            state[number, State.ACCEPTED] += len(turn.walk) - 1
            state[number, State.LENGTH] += len(turn.walk)
            state[number, State.DRAFTED] = made.drafted[number]
            if drafts:
                state[number, State.DRAFTS] = turn.drafts
    shown = list(made.shown)
    parts |= {f"state.{each.name}": numbers(state[shown, each]) for each in State}
    counter = step.controls["step"].copy()
    counter[0] += 1
    parts["step"] = numbers(counter)
    for number in shown:
        told = turns[number].emitted if number in turns else ()
        count = made.accepted[number] + 1
        parts[f"emitted.{number}"] = numbers([len(told), *told, *(-1,) * (count - len(told))])
    length = state[:, State.LENGTH]
    on = [number for number in shown if number in made.goes_on]
    following = [(n, row) for n in on for row in range(made.drafted[n] + 1)]
    parts["positions"] = numbers([length[n] + step.depths[row] for n, row in following])
    parts["slots"] = numbers([step.slot(n, int(length[n]) + row) for n, row in following])
    parts["slots of others"] = numbers([-1] * len(step.parents) * (len(shown) - len(on)))
    if not any(made.drafted):
        parts["token_ids"] = numbers([turns[n].new for n in on])
    return parts


def _taken(value: Noisy, rows: list[int]) -> Noisy:
    clean, noisy = value
    return clean[rows], noisy[rows]
