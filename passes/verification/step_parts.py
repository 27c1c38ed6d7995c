"""What counts of the results of a closed step: by request, in whatever rows the step has them.

Rows of placeholders, of requests that have ended, and entries of rejected drafts hold anything.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, Input
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import (
    CACHE_PREFIX,
    COUNTS,
    DRAFT_IDS,
    DRAFT_PROBS,
    EMITTED,
    HIDDEN_CACHE,
    RECENT,
)
from ascendfx.ir.step_state import State, hidden_window
from ascendfx.passes.step_inputs import is_packed
from ascendfx.passes.verification.drawn_step import STEPS, DrawnStep
from ascendfx.passes.verification.run_with_noise import Noisy, undisturbed

TOKENS, LOGITS, HIDDEN = "tokens", "logits", "hidden"
"""Names of the first results, and of the third one before draft layers are fused."""
_OF_DRAFTS = (DRAFT_IDS, DRAFT_PROBS, RECENT)
Parts = dict[str, Noisy]
"""What is compared, by the name of the result or of the input that the step changes in place."""


@dataclass(frozen=True)
class Outcome:
    """What a step does with its requests; decides which of its results count.

    Attributes:
        shown: Requests whose tokens are beyond doubt: no two logits are nearly equal.
        accepted: Drafts of each request that are accepted.
        goes_on: Requests that have another step.
        drafted: Valid drafts of each request in the next step.
        depth: Drafts that can be accepted together.
    """

    shown: tuple[int, ...]
    accepted: tuple[int, ...]
    goes_on: frozenset[int]
    drafted: tuple[int, ...]
    depth: int = 0


def result_names(program: Program) -> tuple[str, ...]:
    """Return a name for each result of a closed step.

    What a step writes in place has the name of the input; results are tokens, logits, and then
    hidden states or ``draft.0`` and so on.
    """
    main = program.main
    names = [_origin(program, main, value) for value in main.outputs]
    found: list[str] = []
    for i, (name, kind) in enumerate(zip(names, main.output_types, strict=True)):
        further = HIDDEN if kind.dtype.is_float else f"draft.{i - 2}"
        found.append(name or (TOKENS, LOGITS, further)[min(i, 2)])
    return tuple(found)


def _origin(program: Program, graph: Graph, value: Value) -> str:
    """Return the input whose memory a value is in, or nothing."""
    while True:
        node = graph.nodes[value.node]
        if isinstance(node.op, Input):
            return node.op.name
        if isinstance(node.op, Call):
            body = program.by_name[node.op.callee]
            name = _origin(program, body, body.outputs[value.result])
            if not name:
                return ""
            value = node.operands[list(body.input_types).index(name)]
        elif value.result in node.op.in_place:
            value = node.operands[node.op.in_place[value.result]]
        else:
            return ""


def parts_of(step: DrawnStep, program: Program, outputs: Iterable[Noisy], made: Outcome) -> Parts:
    """Return what counts of the results of a step.

    Args:
        step: What it was run on.
        program: The step.
        outputs: Its results.
        made: What it should do with its requests.
    """
    names = result_names(program)
    given = dict(zip(names, outputs, strict=True))
    starts = _starts(step, program)
    take = _Take(step, made, starts)
    parts: Parts = {}
    for name, value in given.items():
        parts |= {each: _mapped(value, rows) for each, rows in take.of(name)}
    return parts


def _mapped(value: Noisy, rows: "_Rows") -> Noisy:
    clean, noisy = value
    own = rows(clean)
    return (own, own) if clean is noisy else (own, rows(noisy))


class _Rows:
    """Takes elements along the first axes of an array, after reshaping it."""

    def __init__(self, *index: int | slice | list[int], axes: int = 1) -> None:
        self._index, self._axes = index, axes

    def __call__(self, array: Array) -> Array:
        if self._axes > 1:
            array = array.reshape(-1, *array.shape[self._axes :])
        return array[self._index] if self._index else array


def _starts(step: DrawnStep, program: Program) -> list[int]:
    """Return the first row of each request; rows without placeholders stand close together."""
    packed = is_packed(program)
    counts = [
        (request.valid if request.runs else 1) if packed else len(request.tokens)
        for request in step.requests
    ]
    return [sum(counts[:number]) for number in range(len(counts))]


@dataclass(frozen=True)
class _Take:
    step: DrawnStep
    made: Outcome
    starts: list[int]

    def of(self, name: str) -> Iterator[tuple[str, _Rows]]:
        """Yield what counts of a result, and the names of the parts."""
        shown = list(self.made.shown)
        if name == "state":
            for column in State:
                yield f"state.{column.name}", _Rows(shown, int(column))
        elif name == EMITTED:
            ring = int(self.step.controls["step"][0]) % STEPS
            for number in shown:
                count = self.made.accepted[number] + 2
                yield f"emitted.{number}", _Rows(ring, number, slice(count))
        elif name in (TOKENS, LOGITS, HIDDEN):
            yield name, _Rows(self._rows(name), axes=1)
        elif name in ("token_ids", "positions", "slots"):
            yield name, _Rows(self._next_rows())
            if name == "slots":
                yield "slots of others", _Rows(self._idle_rows())
        elif name == HIDDEN_CACHE:
            yield name, _Rows(self._kept(), axes=2)
        elif name == COUNTS or not name.startswith(CACHE_PREFIX):
            yield name, self._control(name)
        else:
            yield name, _Rows(self._slots(), axes=2)

    def _control(self, name: str) -> _Rows:
        if name in ("step", COUNTS):
            return _Rows()
        runs = [number for number in self.made.shown if self.step.requests[number].runs]
        return _Rows(runs if name in _OF_DRAFTS else list(self.made.shown))

    def _rows(self, name: str) -> list[int]:
        """Return the rows of a result; numbers are beyond doubt where the choice is not."""
        step = self.step
        count = range(len(step.requests))
        numbers = self.made.shown if name == TOKENS else count
        if not step.parents and name != HIDDEN:
            return list(numbers)
        return [
            self.starts[number] + row
            for number in numbers
            for row in range(step.requests[number].valid)
            if step.requests[number].runs
        ]

    def _next_rows(self) -> list[int]:
        return [
            number * len(self.step.parents) + row
            for number in self.made.shown
            for row in range(self.made.drafted[number] + 1)
            if number in self.made.goes_on
        ]

    def _idle_rows(self) -> list[int]:
        rows = len(self.step.parents)
        return [
            number * rows + row
            for number in self.made.shown
            for row in range(rows)
            if number not in self.made.goes_on
        ]

    def _slots(self) -> list[int]:
        return [
            self.step.slot(number, position)
            for number in self.made.shown
            for position in range(entries_after(self.step, self.made, number))
        ]

    def _kept(self) -> list[int]:
        """Return where hidden states are kept that a later step may read."""
        return [
            kept_at(self.step, self.made.depth, number, position)
            for number, position in kept_positions(self.step, self.made)
        ]


def entries_after(step: DrawnStep, made: Outcome, number: int) -> int:
    """Return how many tokens of a request the caches hold behind a step."""
    request = step.requests[number]
    if not request.runs:
        return request.length
    return request.length + (made.accepted[number] + 1 if step.parents else request.valid)


def kept_positions(step: DrawnStep, made: Outcome) -> list[tuple[int, int]]:
    """Return request and position of the hidden states that a later step may read."""
    window = hidden_window(made.depth)
    found: list[tuple[int, int]] = []
    for number in made.shown:
        request = step.requests[number]
        if request.runs:
            end = entries_after(step, made, number)
            first = request.length - made.depth if step.parents else end - window
            found += [(number, position) for position in range(max(first, 0), end)]
    return found


def kept_at(step: DrawnStep, depth: int, number: int, position: int) -> int:
    """Return where the hidden state of a position is kept, in a table of places and positions."""
    window = hidden_window(depth)
    return int(step.controls["state"][number, State.PLACE]) * window + position % window


def result_of(key: str, names: Sequence[str]) -> int:
    """Return which result a part is of; the first if it is missing."""
    whole = key.split(" ", maxsplit=1)[0]
    name = whole if whole in names else whole.rpartition(".")[0]
    return names.index(name) if name in names else 0


def numbers(values: object) -> Noisy:
    """Return whole numbers without noise."""
    return undisturbed(np.asarray(values, np.int64))
