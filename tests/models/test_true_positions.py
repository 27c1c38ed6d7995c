"""Row b: shifted rows, shared positions and chained depths compute what true positions would.

The programs of both plans run on the float64 interpreter; the truth sees whole texts.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from ascendfx import Request, bundled_model
from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.step_state import State
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.executor.reference import ReferenceExecutor
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.presets import TO_SERVING, closing_passes, passes_for, serving_passes
from tests.models.bundled import golden_generations, heldout_tokens
from tests.models.reference_draft import BLOCK, Depth, ReferenceDraft

CHUNK = 48
ALLOWED = (3, 0, 3, 1, 3, 2, 3, 0, 1, 3)
"""Drafts that may be right in each step: the ones behind are replaced by wrong tokens."""
TOLERANCE = 1e-9
"""Relative to the largest number: sums of up to 512 terms in float64, six matrix products deep."""


@dataclass(frozen=True)
class Snapshot:
    """What a step left of a request.

    Attributes:
        text: Its tokens, the newest included.
        drafts: What the step drafted.
        accepted: How many drafts of the step before it took.
        entries: Of each depth, what its caches hold of every token but the newest.
    """

    text: tuple[int, ...]
    drafts: tuple[int, ...]
    accepted: int
    entries: tuple[tuple[Array, ...], ...]


class OpenExecutor(ReferenceExecutor):
    """Shows what is in the caches."""

    def cache(self, name: str) -> Array:
        return self._caches[name]


def prompts() -> list[tuple[int, ...]]:
    """Return texts that the model goes on with for sure, just before a border of blocks."""
    golden = golden_generations()
    (filler, *_) = heldout_tokens(1, 128)["en"]
    known = [(*each.prompt_ids, *each.output_ids) for each in (golden[0], golden[1])]
    return [
        (*filler[: BLOCK - 7 - len(known[0])], *known[0]),
        (*filler[: BLOCK - 9 - len(known[1])], *known[1]),
    ]


@dataclass(frozen=True)
class Run:
    """What is run.

    Attributes:
        drafts: Draft tokens per step.
        chaining: Which hidden state a depth reads of the one before.
        texts: How many of `prompts`.
        steps: Of the device.
    """

    drafts: int
    chaining: str
    texts: int
    steps: int

    def __str__(self) -> str:
        return f"{self.drafts}-{self.chaining}"


RUNS = (
    Run(1, "post-norm", texts=2, steps=10),
    Run(3, "post-norm", texts=2, steps=10),
    Run(2, "pre-norm", texts=1, steps=7),
    pytest.param(Run(3, "pre-norm", texts=1, steps=7), marks=pytest.mark.nightly),
)


@cache
def captured() -> CapturedModel:
    return ReferenceDraft.of(bundled_model()).captured


@cache
def reference(chaining: str) -> ReferenceDraft:
    return ReferenceDraft(captured(), chaining)


def fused_executor(drafts: int, chaining: str) -> OpenExecutor:
    """Return both plans as `compile` makes them, in float64."""
    limits = Limits(2, 192, CHUNK, draft_tokens=drafts)
    model = captured()
    serving, _ = run_pipeline(model.program, serving_passes(hidden=chaining))
    draft, _ = run_pipeline(model.drafts[0], TO_SERVING)
    programs: dict[str, Program] = {}
    capacities: dict[str, Capacities] = {}
    for plan in ("decode", "prefill"):
        passes = passes_for(plan, target=find_target("ascend910b"), limits=limits)
        layers = (run_pipeline(draft, passes)[0],) * drafts
        closed = (*passes, *closing_passes(plan, layers, chaining=chaining))
        programs[plan], _ = run_pipeline(serving, closed)
        step = limits.step(plan)
        capacities[plan] = Capacities(
            rows=step.rows,
            requests=step.requests,
            context=limits.context,
            blocks=limits.blocks,
            table_blocks=limits.table_blocks,
            steps=limits.group_steps,
            drafts=drafts,
        )
    return OpenExecutor(programs, capacities, model.source)


def snapshots(run: Run) -> list[list[Snapshot]]:
    """Return what each step left of each request."""
    drafts = run.drafts
    executor = fused_executor(drafts, run.chaining)
    facts = captured().facts
    given = prompts()[: run.texts]
    engine = Engine(ServingConfig(facts.vocabulary, frozenset(facts.end_ids), BLOCK), executor)
    started = engine.start(
        [Request(prompt=each, max_new_tokens=60, min_new_tokens=60) for each in given]
    )
    texts = dict(zip(started, given, strict=True))
    found: list[list[Snapshot]] = [[] for _ in texts]
    before = np.zeros(len(texts), np.int64)
    for step in range(run.steps):
        engine.step(1)
        for update in engine.poll():
            texts[update.request] += update.token_ids
        ids = executor.control("decode", "token_ids").reshape(-1, drafts + 1)
        state = executor.control("decode", "state")
        taken = state[: len(texts), State.ACCEPTED] - before
        before = state[: len(texts), State.ACCEPTED].astype(np.int64)
        for place, text in enumerate(texts.values()):
            assert state[place, State.LENGTH] == len(text) - 1
            assert ids[place, 0] == text[-1]
            entries = tuple(entries_of(executor, place, len(text) - 1, j) for j in range(drafts))
            drafted = tuple(ids[place, 1:].tolist())
            found[place].append(Snapshot(text, drafted, int(taken[place]), entries))
        for i in range(min(ALLOWED[step % len(ALLOWED)], drafts), drafts):
            ids[:, i + 1] = (ids[:, i + 1] + 1) % facts.vocabulary
    return found


def entries_of(executor: OpenExecutor, place: int, tokens: int, depth: int) -> tuple[Array, ...]:
    table = executor.control("decode", "block_table")[place]
    positions = np.arange(tokens)
    slots = table[positions // BLOCK] * BLOCK + positions % BLOCK
    caches = (executor.cache(f"cache.draft.{depth}.{i}") for i in range(2))
    return tuple(each.reshape(-1, *each.shape[2:])[slots].copy() for each in caches)


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_entries_and_drafts_are_those_of_true_positions(run: Run) -> None:
    drafts, truths = run.drafts, reference(run.chaining)
    for steps in snapshots(run):
        _, hidden = truths.main(np.array([steps[-1].text[:-1]]))
        assert {each.accepted for each in steps} == set(range(drafts + 1))
        assert len(steps[0].text) < BLOCK + 1 < len(steps[-1].text)
        for each in steps:
            truth = truths.depths(each.text, hidden[0, : len(each.text) - 1], drafts)
            for mine, its in zip(each.entries, truth, strict=True):
                assert_same_entries(mine, its)
            assert each.drafts == tuple(int(np.argmax(depth.logits)) for depth in truth)


def assert_same_entries(mine: tuple[Array, ...], truth: Depth) -> None:
    """Assert that latent vectors are equal, and that rotated keys differ by a rotation of all.

    A depth's latent vectors are made of the hidden states of the depth before: these are equal,
    too. Keys are rotated by other positions and in another order of pairs; scores see their
    products only.
    """
    latent, rotated = mine
    assert_close(latent, truth.entries[0])
    keys, its = (each.reshape(len(each), -1) for each in (rotated, truth.entries[1]))
    assert_close(keys @ keys.T, its @ its.T)
    assert np.abs(keys - its).max() > 0.1, "no position is that of training"


def assert_close(mine: Array, truth: Array) -> None:
    np.testing.assert_allclose(mine, truth, rtol=0, atol=TOLERANCE * np.abs(truth).max())
