"""Places to draft for, and which drafts and probabilities rounding allows.

With the bounds of `sampling_bounds`: a probability is a weight over the sum of at most
``DRAFT_CANDIDATES`` of them.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.sample_drafts import emit_sample_drafts, plan_sample_drafts
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.ops import SampleDrafts
from ascendfx.ir.ops.sample_drafts import DRAWN
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
from ascendfx.ir.uniform import uniform
from tests.kernels.sampling_bounds import Row, around
from tests.kernels.vector_case import TARGET, Array, Floats, build, run

Integers = NDArray[np.int32]
Drafts = tuple[Integers, Integers, NDArray[np.float32]]
"""Drafts, and the tables of ids and probabilities."""


@dataclass(frozen=True)
class Places:
    """Operands of a draft of each place."""

    logits: Array
    options: NDArray[np.float32]
    state: Integers
    stop_ids: Integers
    accepted: Integers
    drafts: int = 1
    depth: int = 0
    kept: tuple[Integers, NDArray[np.float32]] = field(init=False)

    def __post_init__(self) -> None:
        """Fill the tables with what no place may keep, nor lose."""
        shape = len(self.logits), self.drafts, DRAFT_CANDIDATES
        ids, shares = np.full(shape, -7, np.int32), np.full(shape, 7, np.float32)
        object.__setattr__(self, "kept", (ids, shares))

    @classmethod
    def of(
        cls,
        logits: Array,
        options: list[dict[str, float]],
        seed: int = 1,
        drafts: int = 1,
        depth: int = 0,
    ) -> "Places":
        """Give place ``i`` the options ``i``, over and over."""
        count = len(logits)
        chosen = np.zeros((count, OPTION_COLUMNS), np.float32)
        for place in range(count):
            for name, value in options[place % len(options)].items():
                chosen[place, Option[name.upper()]] = value
        state = np.zeros((count, STATE_COLUMNS), np.int32)
        state[:, State.SEED_LOW] = seed
        state[:, State.SEED_HIGH] = -np.arange(count)
        state[:, State.LENGTH] = 7 * np.arange(count)
        stops = np.full((count, STOP_COLUMNS), -1, np.int32)
        accepted = np.arange(count, dtype=np.int32) % (drafts + 1)
        return cls(logits, chosen, state, stops, accepted, drafts, depth)

    @property
    def inputs(self) -> dict[str, Array]:
        """The operands by name."""
        names = ("logits", "options", "state", "stop_ids", "accepted")
        given: dict[str, Array] = {name: getattr(self, name) for name in names}
        return {**given, "draft_ids": self.kept[0], "draft_probs": self.kept[1]}

    def expected(self) -> Drafts:
        """Return drafts, ids and probabilities of the reference."""
        logits, options, *rest = self.inputs.values()
        floats = (logits.astype(np.float64), options.astype(np.float64))
        *integers, probabilities = rest
        operands = (*floats, *(each.astype(np.int64) for each in integers))
        found = SampleDrafts(self.depth).reference(*operands, probabilities.astype(np.float64))
        return _numbers(*found)

    def drawn(self) -> Floats:
        """Return the random number of each place."""
        low, high, length = (
            self.state[:, each].astype(np.int64)
            for each in (State.SEED_LOW, State.SEED_HIGH, State.LENGTH)
        )
        index = length + self.accepted + 2 + self.depth
        return uniform(low, high, index, Stream.DRAFT, length)


def drafting_kernel(
    columns: int,
    dtype: DType,
    requests: int,
    *,
    drafts: int = 1,
    depth: int = 0,
    target: Target = TARGET,
) -> Kernel:
    """Return the kernel of places counted by ``sizes[0]``."""
    plan = plan_sample_drafts(
        requests=DeviceSize(0, requests),
        drafts=drafts,
        depth=depth,
        columns=columns,
        dtype=dtype,
        target=target,
    )
    return emit_sample_drafts(plan, "sample_drafts")


def draft(places: Places, dtype: DType = DType.F32, target: Target = TARGET) -> Drafts:
    """Return drafts, ids and probabilities of the kernel."""
    count, columns = places.logits.shape
    kernel = drafting_kernel(
        columns, dtype, count, drafts=places.drafts, depth=places.depth, target=target
    )
    found = run(build(kernel), places.inputs, count)
    shape = places.kept[0].shape
    tables = (found[name].reshape(shape) for name in ("draft_ids", "draft_probs"))
    return _numbers(found["drafts"], *tables)


def _numbers(drafts: Array, ids: Array, shares: Array) -> Drafts:
    return drafts.astype(np.int32), ids.astype(np.int32), shares.astype(np.float32)


def check(places: Places, dtype: DType = DType.F32, target: Target = TARGET) -> float:
    """Check every place; return the share of those where rounding allows only one draft.

    Places without stop tokens that are banned.
    """
    tokens, ids, shares = draft(places, dtype, target)
    expected, wanted_ids, wanted_shares = places.expected()
    others = np.arange(places.drafts) != places.depth
    np.testing.assert_array_equal(ids[:, others], wanted_ids[:, others])
    np.testing.assert_array_equal(shares[:, others], wanted_shares[:, others])
    drawn, certain = places.drawn(), 0
    for place, token in enumerate(tokens):
        options = places.options[place].astype(np.float64)
        kept = ids[place, places.depth], shares[place, places.depth]
        if _is_drawn(options) and wanted_ids[place, places.depth, 0] >= 0:
            row = Row(places.logits[place].astype(np.float64), options)
            certain += _check_drawn(row, kept, int(token), float(drawn[place]))
            continue
        certain += 1
        assert token == expected[place]
        np.testing.assert_array_equal(kept[0], wanted_ids[place, places.depth])
        np.testing.assert_array_equal(kept[1], wanted_shares[place, places.depth])
    return certain / max(len(tokens), 1)


def _is_drawn(options: Floats) -> bool:
    return options[Option.TEMPERATURE] > 0 and options[Option.VERIFICATION] in DRAWN


def _check_drawn(
    row: Row, kept: tuple[Integers, NDArray[np.float32]], token: int, drawn: float
) -> bool:
    """Check what a draft was drawn from, and that it was; return whether it had to be this one."""
    ids, shares = kept
    count = int((ids >= 0).sum())
    assert (ids[count:] == -1).all()
    assert (shares[count:] == 0).all()
    counts = {min(np.count_nonzero(p), DRAFT_CANDIDATES) for p in row.distributions}
    assert min(counts) <= count <= max(counts), f"{count} tokens, not one of {counts}"
    best = np.argsort(-row.logits, kind="stable")[:count]
    np.testing.assert_array_equal(ids[:count], best)
    weights = np.exp(-row.distance[best])
    off = max(row.error_of(int(each)) for each in best)
    np.testing.assert_allclose(shares[:count], weights / weights.sum(), rtol=off, atol=1e-37)
    by_id = np.argsort(best)
    fine = around(weights[by_id], best[by_id], drawn, row.error)
    assert token in fine, f"{token}, not {fine}"
    return len(fine) == len(counts) == 1
