"""Rows to sample, and which tokens rounding allows.

Bound, with u = 2^-24 and d the distance of a logit to the largest over the temperature: the
difference is rounded, the inverse of the temperature and the product are, exp is off by at most
4 u. So a weight is off by (3 d + 4) u relatively; in a tile, whose weights are relative to its own
maximum, and scaled by another weight, by (3 d + 9) u. A sum over repeats of 64 adds
(6 + TILE / 64) u, one of tiles TILES u, the walk of `Find` 12 u. What two sums that are compared
are off by together, relative to all of the mass, is `error`. A token is allowed if its interval of
the distribution is within that of the random number, for a prefix whose end is within it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.sample_tokens import emit_sample_tokens, plan_sample_tokens
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.ops import SampleTokens
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
    Stream,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.uniform import uniform
from tests.kernels.vector_case import TARGET, Array, Floats, build, run

Integers = NDArray[np.int32]

_U = DType.F32.unit_roundoff
_TILE = 4_096


def sampling_kernel(
    columns: int, dtype: DType, rows: int, requests: int, target: Target = TARGET
) -> Kernel:
    """Return the kernel of rows counted by ``sizes[0]``."""
    plan = plan_sample_tokens(
        rows=DeviceSize(0, rows), requests=requests, columns=columns, dtype=dtype, target=target
    )
    return emit_sample_tokens(plan, "sample_tokens")


@dataclass
class Rows:
    """Operands, one request per row unless ``row_request`` says otherwise."""

    logits: Array
    options: NDArray[np.float32]
    state: Integers = field(default_factory=lambda: np.zeros((0, STATE_COLUMNS), np.int32))
    stop_ids: Integers = field(default_factory=lambda: np.zeros((0, STOP_COLUMNS), np.int32))
    positions: Integers = field(default_factory=lambda: np.zeros(0, np.int32))
    row_request: Integers = field(default_factory=lambda: np.zeros(0, np.int32))

    @classmethod
    def of(cls, logits: Array, options: list[dict[str, float]], seed: int = 1) -> "Rows":
        """Give row ``i`` the options ``i``, over and over."""
        count = len(logits)
        chosen = np.zeros((count, OPTION_COLUMNS), np.float32)
        for row in range(count):
            for name, value in options[row % len(options)].items():
                chosen[row, Option[name.upper()]] = value
        state = np.zeros((count, STATE_COLUMNS), np.int32)
        state[:, State.SEED_LOW] = seed
        state[:, State.SEED_HIGH] = -np.arange(count)
        number = np.arange(count, dtype=np.int32)
        stops = np.full((count, STOP_COLUMNS), -1, np.int32)
        return cls(logits, chosen, state, stops, 7 * number, number)

    @property
    def inputs(self) -> dict[str, Array]:
        """The operands by name."""
        names = ("logits", "options", "state", "stop_ids", "positions", "row_request")
        return {name: getattr(self, name) for name in names}

    def expected(self) -> NDArray[np.int64]:
        """Return the tokens of the reference."""
        floats = (self.logits.astype(np.float64), self.options.astype(np.float64))
        rest = (self.state, self.stop_ids, self.positions, self.row_request)
        operands = (*floats, *(each.astype(np.int64) for each in rest))
        return SampleTokens().reference(*operands)[0].astype(np.int64)

    def drawn(self) -> Floats:
        """Return the random number of each row."""
        low, high = (self.state[self.row_request, c] for c in (State.SEED_LOW, State.SEED_HIGH))
        index = self.positions.astype(np.int64) + 1
        return uniform(low.astype(np.int64), high.astype(np.int64), index, Stream.SAMPLE)


def sample(rows: Rows, dtype: DType = DType.F32, target: Target = TARGET) -> Integers:
    """Return the tokens of the kernel."""
    count, columns = rows.logits.shape
    kernel = sampling_kernel(columns, dtype, count, len(rows.options), target)
    return run(build(kernel), rows.inputs, count)["tokens"].astype(np.int32)


def check(rows: Rows, dtype: DType = DType.F32, target: Target = TARGET) -> float:
    """Check every token; return the share of rows where rounding allows only one.

    Rows without stop tokens; see `allowed`.
    """
    tokens, expected, drawn = sample(rows, dtype, target), rows.expected(), rows.drawn()
    certain = 0
    for row, token in enumerate(tokens):
        options = rows.options[rows.row_request[row]].astype(np.float64)
        fine = {int(expected[row])}
        if expected[row] >= 0 and options[Option.TEMPERATURE] > 0:
            fine = allowed(rows.logits[row].astype(np.float64), options, float(drawn[row]))
            assert int(expected[row]) in fine
        assert int(token) in fine, f"row {row}: {token}, not {expected[row]}: {options.tolist()}"
        certain += len(fine) == 1
    return certain / max(len(tokens), 1)


def allowed(logits: Floats, options: Floats, drawn: float) -> set[int]:
    """Return the tokens that rounding allows for a row."""
    order = np.argsort(-logits, kind="stable")
    order = order[logits[order] > -np.inf]
    distance = (logits[order[0]] - logits[order]) / options[Option.TEMPERATURE]
    weights = np.exp(-distance)
    mean = float((weights * distance).sum() / weights.sum())
    tiles = -(-logits.size // _TILE)
    error = 2 * (3 * mean + 9 + 6 + _TILE / 64 + tiles + 12) * _U
    lowest = highest = order.size
    if options[Option.TOP_K] >= 1:
        lowest = highest = min(lowest, int(options[Option.TOP_K]))
    if 0 < options[Option.TOP_P] < 1:
        mass = np.cumsum(weights[:highest])
        ends = mass[-1] * (options[Option.TOP_P] + np.array([-error, error]))
        lowest, highest = (min(highest, int(np.searchsorted(mass, end)) + 1) for end in ends)
    if options[Option.MIN_P] > 0:
        least = options[Option.MIN_P]
        near = (3 * abs(np.log(least)) + 5) * _U
        lowest = min(lowest, int((weights >= least * (1 + near)).sum()))
        highest = min(highest, int((weights >= least * (1 - near)).sum()))
    found: set[int] = set()
    for count in range(max(lowest, 1), max(highest, 1) + 1):
        places = np.argsort(order[:count])
        ids, mass = order[:count][places], np.cumsum(weights[:count][places])
        first = np.searchsorted(mass, (drawn - error) * mass[-1], side="right")
        last = np.searchsorted(mass, (drawn + error) * mass[-1], side="right")
        found |= set(ids[first : last + 1].tolist())
    return found
