"""Rows to sample, and the tokens of the kernel for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.sample_tokens import emit_sample_tokens, plan_sample_tokens
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir import draft_acceptance
from ascendfx.ir.ops import SampleTokens
from ascendfx.ir.packed_rows import rows_of_places
from ascendfx.ir.step_state import (
    DRAFT_CANDIDATES,
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
    Stream,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.token_choice import allowed_logits, wants_penalties
from ascendfx.ir.uniform import uniform
from tests.kernels.sampling_bounds import fits
from tests.kernels.vector_case import TARGET, Array, Floats, build, run, sizes

Integers = NDArray[np.int32]
F32 = NDArray[np.float32]


def sampling_kernel(
    columns: int,
    dtype: DType,
    rows: int,
    requests: int,
    target: Target = TARGET,
    *,
    drafts: int = 0,
    places: int = 1,
    recorded: int = DRAFT_CANDIDATES,
) -> Kernel:
    """Return the kernel of rows counted by ``sizes[0]``."""
    plan = plan_sample_tokens(
        rows=DeviceSize(0, rows), requests=requests, places=places, columns=columns, dtype=dtype,
        target=target, drafts=drafts, recorded=recorded,
    )  # fmt: skip
    return emit_sample_tokens(plan, "sample_tokens")


@dataclass
class Rows:
    """Operands; ``drafts``: of a place, whose rows stand together."""

    logits: Array
    options: F32
    state: Integers
    stop_ids: Integers
    positions: Integers
    row_request: Integers
    counts: Integers
    drafts: int
    token_ids: Integers
    draft_ids: Integers
    draft_probs: F32

    @classmethod
    def of(
        cls, logits: Array, options: Sequence[dict[str, float]], seed: int = 1, drafts: int = 0
    ) -> "Rows":
        """Give request ``i`` the options ``i``, over and over; drafts are certain, and token 0."""
        rows, columns = logits.shape
        count = rows // (drafts + 1)
        chosen = np.zeros((count, OPTION_COLUMNS), np.float32)
        for place in range(count):
            for name, value in options[place % len(options)].items():
                chosen[place, Option[name.upper()]] = value
        state = np.zeros((count, STATE_COLUMNS), np.int32)
        state[:, State.SEED_LOW] = seed
        state[:, State.SEED_HIGH] = -np.arange(count)
        state[:, State.LENGTH] = 7 * np.arange(count)
        state[:, State.DRAFTED] = drafts
        within = np.tile(np.arange(drafts + 1), count)
        number = np.repeat(np.arange(count), drafts + 1)
        return cls(
            logits=logits,
            options=chosen,
            state=state,
            stop_ids=np.full((count, STOP_COLUMNS), -1, np.int32),
            positions=(7 * number + within).astype(np.int32),
            row_request=number.astype(np.int32),
            counts=np.zeros((1, columns), np.int32),
            drafts=drafts,
            token_ids=np.zeros(rows, np.int32),
            draft_ids=np.full((count, drafts, DRAFT_CANDIDATES), -1, np.int32),
            draft_probs=np.zeros((count, drafts, DRAFT_CANDIDATES), np.float32),
        )

    @property
    def inputs(self) -> dict[str, Array]:
        """The operands by name."""
        names = ["logits", "options", "state", "stop_ids", "positions", "row_request", "counts"]
        if self.drafts:
            names += ["token_ids", "draft_ids", "draft_probs"]
        return {name: getattr(self, name) for name in names}

    def packed(self) -> "Rows":
        """Return the rows without placeholders."""
        each = rows_of_places(self.state, self.drafts)
        kept = (np.arange(self.drafts + 1) < each[:, None]).reshape(-1)
        of_rows = ("logits", "positions", "row_request", "token_ids")
        return replace(self, **{name: getattr(self, name)[kept] for name in of_rows})

    def count_texts(self, seed: int, most: int = 40) -> None:
        """Give every request a text of its own."""
        random = np.random.default_rng(seed)
        places, columns = len(self.options), self.logits.shape[1]
        self.counts = np.zeros((places, columns), np.int32)
        for place in range(places):
            ids = random.integers(0, columns, (2, random.integers(0, most)))
            np.add.at(self.counts[place], ids[0], 2)
            self.counts[place, ids[1]] |= 1
        self.state[:, State.PLACE] = random.permutation(places)

    def draw_drafts(self, seed: int, sharpness: float = 1.0) -> None:
        """Give every draft a distribution that resembles its row's, and draw it: most of them."""
        random = np.random.default_rng(seed)
        columns = self.logits.shape[1]
        for place in range(len(self.options)):
            for i in range(self.drafts):
                row = place * (self.drafts + 1) + i
                near = self.logits[row].astype(np.float64) * sharpness
                near = np.nan_to_num(near, nan=0, posinf=0, neginf=-99)
                near += random.standard_normal(columns) * random.choice([0, 0.3, 3])
                most = min(int(random.choice([1, 3, DRAFT_CANDIDATES])), columns)
                ids = np.argsort(-near, kind="stable")[:most]
                q = np.exp(near[ids] - near[ids[0]])
                q /= q.sum()
                self.token_ids[row + 1] = random.choice(ids, p=q)
                kind = random.integers(0, 8)
                if kind == 0:  # not recorded
                    continue
                if kind == 1:  # not among what is recorded
                    self.token_ids[row + 1] = random.integers(0, columns)
                self.draft_ids[place, i, :most] = ids
                self.draft_probs[place, i, :most] = q

    def expected(self) -> NDArray[np.int64]:
        """Return the tokens of the reference."""
        operands = [
            each.astype(np.int64 if each.dtype == np.int32 else np.float64)
            for each in self.inputs.values()
        ]
        return SampleTokens(self.drafts).reference(*operands)[0].astype(np.int64)

    def drawn(self) -> Floats:
        """Return the random number of each row."""
        return self._uniform(1, Stream.SAMPLE)

    def _uniform(self, ahead: int, stream: Stream) -> Floats:
        own = self.state[self.row_request].astype(np.int64)
        step = own[:, State.LENGTH] if stream is Stream.ACCEPT else 0
        index = self.positions.astype(np.int64) + ahead
        return uniform(own[:, State.SEED_LOW], own[:, State.SEED_HIGH], index, stream, step)

    def place(self, first: int) -> draft_acceptance.Rows:
        """Return the rows of the place that starts there, with logits as f32 has them."""
        place, end = self.row_request[first], first + self.drafts + 1
        drafts = self.token_ids[first + 1 : end].astype(np.int64)
        return draft_acceptance.Rows(
            logits=[self._logits(row, drafts[: row - first]) for row in range(first, end)],
            options=self.options[place].astype(np.float64),
            drafts=drafts,
            valid=min(int(self.state[place, State.DRAFTED]), self.drafts),
            ids=self.draft_ids[place],
            probabilities=self.draft_probs[place],
            sampled=self.drawn()[first:end],
            accepted=self._uniform(0, Stream.ACCEPT)[first:end],
        )

    def _logits(self, row: int, before: NDArray[np.int64]) -> Floats | None:
        place = self.row_request[row]
        state, options = self.state[place], self.options[place]
        given = self.logits[row].astype(np.float32)
        allowed = allowed_logits(given, state, self.stop_ids[place], int(self.positions[row]))
        if allowed is None:
            return None
        if wants_penalties(options):
            seen = self.counts[state[State.PLACE]].copy()
            np.add.at(seen, before, 2)
            given = penalised_f32(given, options, seen)
        return np.where(np.isneginf(allowed), -np.inf, given.astype(np.float64))


def penalised_f32(logits: F32, options: F32, counts: Integers) -> F32:
    """Return logits after penalties, rounded as the kernel rounds them."""
    repetition, frequency, presence = options[
        [Option.REPETITION, Option.FREQUENCY, Option.PRESENCE]
    ]
    result = logits
    if repetition not in (0, 1):
        both = logits * repetition, logits * (np.float32(1) / repetition)
        scaled = np.minimum(*both) if repetition > 1 else np.maximum(*both)
        result = np.where(counts > 0, scaled, logits)
    emitted = (counts >> 1).astype(np.float32)
    result = result - emitted * frequency
    result = result - np.minimum(emitted, 1) * presence
    return result.astype(np.float32)


def sample(rows: Rows, dtype: DType = DType.F32, target: Target = TARGET) -> Integers:
    """Return the tokens of the kernel."""
    kernel = _kernel(rows, dtype, target)
    return run(build(kernel), rows.inputs, len(rows.logits))["tokens"].astype(np.int32)


def _kernel(rows: Rows, dtype: DType, target: Target) -> Kernel:
    count, columns = rows.logits.shape
    return sampling_kernel(
        columns, dtype, count, len(rows.options), target,
        drafts=rows.drafts, places=len(rows.counts), recorded=rows.draft_ids.shape[2],
    )  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Of a row, on average: vector instructions and their elements, copies and bytes read."""

    instructions: float
    elements: float
    copies: float
    bytes_read: float


def costs(rows: Rows, dtype: DType = DType.F32, target: Target = TARGET) -> Cost:
    """Return what the kernel does."""
    count = len(rows.logits)
    kernel = _kernel(rows, dtype, target)
    inputs = rows.inputs
    tensors = [inputs[each.name].reshape(-1) for each in kernel.arguments if each.name in inputs]
    record = build(kernel).launch([*tensors, np.full(count, -1, np.int32), sizes(rows=count)])
    vector, copies = record.instructions["V"], record.instructions["MTE2"]
    return Cost(
        vector / count,
        record.elements["V"] / count,
        copies / count,
        record.bytes["MTE2"] / count,
    )


def check(rows: Rows, dtype: DType = DType.F32, target: Target = TARGET) -> float:
    """Check every token; return the share of rows where rounding allows only one."""
    tokens = sample(rows, dtype, target)
    return check_tokens(rows, tokens)


def check_tokens(rows: Rows, tokens: Integers) -> float:
    """Check tokens, and that those of the reference would pass; see `check`."""
    expected, certain = rows.expected(), 0
    for first in range(0, len(tokens), rows.drafts + 1):
        place, at = rows.place(first), slice(first, first + rows.drafts + 1)
        verdict = fits(place, tokens[at].tolist())
        shown = dict(zip((option.name for option in Option), place.options.tolist(), strict=False))
        assert verdict.fits, f"rows {first}: {tokens[at]}, not {expected[at]}: {shown}"
        if not wants_penalties(place.options) and (tokens[at] != expected[at]).any():
            assert fits(place, expected[at].tolist()).fits
        certain += verdict.certain
    return certain / max(len(tokens), 1)
