"""Rows for which wrong samplers choose other tokens: every way that a row can go."""

import numpy as np

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.sample_tokens import (
    emit_sample_tokens,
    plan_sample_tokens,
)
from ascendfx.ir.step_state import Option, State
from ascendfx.ir.tensor_type import DType
from tests.kernels.sampling_case import Integers, Rows
from tests.kernels.vector_case import FEW_CORES, Array

COLUMNS = 9_001

OPTIONS: list[dict[str, float]] = [
    {},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 20},
    {"temperature": 0.3, "top_p": 0.9},
    {"temperature": 1.5, "top_p": 0.97},
    {"temperature": 1.0, "min_p": 0.1},
    {"temperature": 3.0, "min_p": 0.05},
    {"temperature": 1.0, "top_k": 3_000},
    {"temperature": 2.0, "top_k": 4_000, "top_p": 0.9, "min_p": 0.01},
    {"temperature": 1.0, "top_k": 900, "top_p": 0.99, "min_p": 0.01},
    {"temperature": 0.0, "top_k": 3},
]


def alone() -> tuple[Kernel, dict[str, Array], tuple[int, ...]]:
    """Greedy, plain, each filter within and beyond what is kept, ties, bans, penalties."""
    count = 88
    random = np.random.default_rng(0)
    logits = (random.standard_normal((count, COLUMNS)) * 2).astype(np.float32)
    logits[22:33] = np.round(logits[22:33] * 4) / 4
    logits[33:44] = np.linspace(-9, 9, COLUMNS)
    logits[44], logits[45] = np.inf, -np.inf
    logits[46:50] = 0.0
    logits[48, 8_999] = -1e-30
    logits[49, 5_000] = np.nan
    logits[55:66] = 0.5  # one token more or less in the prefix is another token
    logits[84:86] = 0.0
    logits[85, 5_000] = -1.0
    logits[86, 1:] = 0.0
    rows = Rows.of(logits, OPTIONS)
    rows.stop_ids[::2, [1, 7]] = np.argsort(-logits.astype(np.float64), axis=1)[::2, :2]
    rows.stop_ids[48, 0] = 17
    rows.state[:, State.LENGTH] = rows.positions - 1
    rows.state[:, State.GENERATED] = 5
    rows.state[:, State.MINIMUM] = np.arange(count) % 4 + 5
    rows.row_request[:] = random.permutation(count)
    rows.row_request[44:] = np.arange(44, count)
    rows.counts = _counts(random, logits)
    rows.state[:, State.PLACE] = random.integers(0, len(rows.counts), count)
    for first, option in ((66, Option.REPETITION), (73, Option.FREQUENCY), (80, Option.PRESENCE)):
        rows.options[first : first + 8, option] = random.choice([-0.5, 0.75, 1.5], 8)
    repetition = rows.options[66:, Option.REPETITION]
    repetition[repetition < 0] = 1.25
    plan = plan_sample_tokens(
        rows=DeviceSize(0, count), requests=count, places=len(rows.counts), columns=COLUMNS,
        dtype=DType.F32, target=FEW_CORES,
    )  # fmt: skip
    return emit_sample_tokens(plan, "sample"), rows.inputs, (0, 1, 51, count)


def coupled() -> tuple[Kernel, dict[str, Array], tuple[int, ...]]:
    """Each verification with each of these, drafts of all kinds, prefixes that end between ties."""
    drafts, places = 2, 80
    random = np.random.default_rng(1)
    chosen = [{"temperature": 1.5}, *OPTIONS[:5], OPTIONS[7], OPTIONS[9]]
    options = [
        {**chosen[i % 8], "verification": i // 8 % 5, "threshold": 0.02, "scale": 0.5, "ranks": 3}
        for i in range(places)
    ]
    count = places * (drafts + 1)
    logits = (random.standard_normal((count, COLUMNS)) * 2).astype(np.float32)
    logits[30:60] = np.round(logits[30:60] * 4) / 4
    logits[60:78] = 0.5
    logits[90, 5], logits[95], logits[100, 9] = np.nan, -np.inf, np.inf
    for row in range(120, 240):  # what drafts are drawn from is half of everything
        logits[row, random.permutation(COLUMNS)[:30]] += 7
    rows = Rows.of(logits, options, 3, drafts)
    rows.draw_drafts(4)
    order = random.permutation(32)  # any order will do, with gaps
    rows.draft_ids = rows.draft_ids[:, :, order].copy()
    rows.draft_probs = rows.draft_probs[:, :, order].copy()
    rows.draft_probs[:, :, 31] *= 0.01  # what is last has much left, if it is in the prefix
    two = slice(74, 80)  # it is not: of three likely tokens two are left, the third is the last
    rows.options[two, [Option.TEMPERATURE, Option.TOP_K, Option.TOP_P]] = 1.0, 2.0, 0.0
    rows.options[two, Option.VERIFICATION] = random.integers(1, 3, 6)
    rows.logits[3 * 74 :] = -9
    rows.logits[3 * 74 :, [7, 77, 777]] = 5
    rows.token_ids[3 * 74 :] = 7
    rows.draft_ids[two], rows.draft_probs[two] = -1, 0
    rows.draft_ids[two, :, ::31] = 7, 777
    rows.draft_probs[two, :, ::31] = 0.99, 0.001
    rows.counts = _counts(random, logits)
    rows.state[:, State.PLACE] = random.integers(0, len(rows.counts), places)
    rows.state[::7, State.DRAFTED] = 1
    rows.state[3::11, State.DRAFTED] = 0
    rows.options[::4, Option.FREQUENCY] = 0.5
    rows.options[1::9, Option.RANKS] = 2_000
    plan = plan_sample_tokens(
        rows=DeviceSize(0, count), requests=places, places=len(rows.counts), columns=COLUMNS,
        dtype=DType.F32, target=FEW_CORES, drafts=drafts,
    )  # fmt: skip
    few = rows.packed()
    return emit_sample_tokens(plan, "sample_coupled"), few.inputs, (0, 3, 12, len(few.logits))


def _counts(random: np.random.Generator, logits: Array) -> Integers:
    counts = np.zeros((4, COLUMNS), np.int32)
    for each, row in zip(counts, random.permutation(len(logits)), strict=False):
        best = np.argsort(-np.nan_to_num(logits[row].astype(np.float64)))[:99]
        each[best] = random.integers(0, 5, 99)
    return counts
