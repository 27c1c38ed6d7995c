"""Vector kernels to break: every family that no cube or attention table has."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ascendfx.codegen.ascendc.kernel import DeviceSize, Direction, Kernel
from ascendfx.codegen.ascendc.kernels.advance_requests import (
    emit_advance_requests,
    plan_advance_requests,
)
from ascendfx.codegen.ascendc.kernels.align_drafts import emit_align_drafts, plan_align_drafts
from ascendfx.codegen.ascendc.kernels.argmax import emit_argmax, plan_argmax
from ascendfx.codegen.ascendc.kernels.combine_attention_splits import (
    emit_combine_attention_splits,
    plan_combine_attention_splits,
)
from ascendfx.codegen.ascendc.kernels.combine_experts import (
    emit_combine_experts,
    plan_combine_experts,
)
from ascendfx.codegen.ascendc.kernels.dispatch_experts import (
    emit_dispatch_experts,
    plan_dispatch_experts,
)
from ascendfx.codegen.ascendc.kernels.gather_cache import emit_gather_cache, plan_gather_cache
from ascendfx.codegen.ascendc.kernels.gather_rows import emit_gather_rows, plan_gather_rows
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import plan_latent_decode_attention
from ascendfx.codegen.ascendc.kernels.pack_rows import emit_pack_rows, plan_pack_rows
from ascendfx.codegen.ascendc.kernels.route_topk import emit_route_topk, plan_route_topk
from ascendfx.codegen.ascendc.kernels.route_topk_plan import Routing, Scoring
from ascendfx.codegen.ascendc.kernels.sample_drafts import (
    emit_sample_drafts,
    plan_sample_drafts,
)
from ascendfx.codegen.ascendc.kernels.shift_tokens import emit_shift_tokens, plan_shift_tokens
from ascendfx.codegen.ascendc.kernels.vector_kernel import RowView
from ascendfx.codegen.ascendc.kernels.verify_drafts import emit_verify_drafts, plan_verify_drafts
from ascendfx.codegen.ascendc.kernels.write_cache import emit_write_cache, plan_write_cache
from ascendfx.ir.packed_rows import rows_of_places
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    RATE_ONE,
    RECENT_COLUMNS,
    STATE_COLUMNS,
    STEP_COLUMNS,
    STOP_COLUMNS,
    Option,
    Size,
    State,
)
from ascendfx.ir.tensor_type import DType
from tests.ir.packed_cases import states
from tests.ir.tree_cases import depths_of
from tests.kernels import chain_mutant_cases, sampling_mutant_cases, tree_mutant_cases
from tests.kernels.attention_shapes import decode_shape
from tests.kernels.drafting_case import Places
from tests.kernels.vector_case import FEW_CORES, Array, random_array


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel to break, its inputs and the row counts to launch it with."""

    kernel: Kernel
    inputs: dict[str, Array]
    rows: tuple[int, ...]
    known: str = ""
    """Text of another case: it has the mutants of lines that both have."""


def _write_cache() -> Case:
    plan = plan_write_cache(
        rows=DeviceSize(0, 60), columns=2_051, cache_rows=128, dtype=DType.BF16,
        target=FEW_CORES, view=RowView(2_060, 3),
    )  # fmt: skip
    slots = np.random.default_rng(0).permutation(128)[:60].astype(np.int32)
    slots[[2, 40]] = -1
    return _case(emit_write_cache(plan, "write_cache"), {"slots": slots}, (0, 1, 27, 60))


def _gather_rows() -> Case:
    plan = plan_gather_rows(
        rows=DeviceSize(0, 60), columns=2_051, table_rows=9, dtype=DType.BF16, target=FEW_CORES
    )
    ids = np.random.default_rng(0).integers(0, 9, 60).astype(np.int32)
    return _case(emit_gather_rows(plan, "gather_rows"), {"ids": ids}, (0, 1, 27, 60))


def _gather_cache() -> Case:
    plan = plan_gather_cache(
        context=DeviceSize(0, 600), columns=135, cache_blocks=9, max_blocks=5, dtype=DType.BF16,
        target=FEW_CORES,
    )  # fmt: skip
    table = np.random.default_rng(0).permutation(9)[:5].astype(np.int32)
    kernel = emit_gather_cache(plan, "gather_cache")
    return _case(kernel, {"block_table": table}, (0, 1, 127, 300, 600))


def _argmax(dtype: DType) -> Callable[[], Case]:
    def make() -> Case:
        rows, columns = 6, 35_001
        plan = plan_argmax(rows=DeviceSize(0, rows), columns=columns, dtype=dtype, target=FEW_CORES)
        random = np.random.default_rng(0)
        logits = random.integers(-3, 3, (rows, columns)).astype(dtype.numpy)
        for row, place in enumerate((16_383, 16_384, 34_999, 35_000, 20_001)):
            logits[row, place:] = np.where(logits[row, place:] > 0, 0, logits[row, place:])
            logits[row, place] = 9
        return _case(emit_argmax(plan, "argmax"), {"logits": logits}, (0, 1, 5, rows))

    return make


def _merge(dtype: DType) -> Callable[[], Case]:
    def make() -> Case:
        shape = decode_shape(dtype, 36, 144, 16, rows=9)
        splits = plan_latent_decode_attention(shape, FEW_CORES, splits=3)
        plan = plan_combine_attention_splits(splits, FEW_CORES)
        kernel = emit_combine_attention_splits(plan, "merge")
        elements = {each.name: each.elements for each in kernel.arguments}
        total = np.abs(random_array((elements["total"],), DType.F32, 7)) + np.float32(0.5)
        # So far apart that the exponential overflows if the largest is not subtracted.
        maximum = random_array((elements["maximum"],), DType.F32, 8) * np.float32(200)
        return _case(kernel, {"total": total, "maximum": maximum}, (0, 1, 5, 9))

    return make


def _combine() -> Case:
    plan = plan_combine_experts(
        rows=DeviceSize(0, 30), columns=2_060, top_k=3, dtype=DType.BF16, target=FEW_CORES,
        shared=True, residual=True,
    )  # fmt: skip
    place = np.random.default_rng(0).permutation(90).astype(np.int32)
    return _case(emit_combine_experts(plan, "combine_experts"), {"place": place}, (0, 1, 17, 30))


def _dispatch() -> Case:
    plan = plan_dispatch_experts(rows=DeviceSize(0, 100), top_k=8, experts=33, target=FEW_CORES)
    ids = np.random.default_rng(0).integers(0, 33, 800).astype(np.int32)
    return _case(emit_dispatch_experts(plan, "dispatch"), {"ids": ids}, (0, 1, 17, 72, 100))


def _route() -> Case:
    routing = Routing(72, 6, Scoring.SIGMOID, bias=True, groups=9, topk_groups=4, normalize=True)
    plan = plan_route_topk(rows=DeviceSize(0, 40), routing=routing, target=FEW_CORES)
    return _case(emit_route_topk(plan, "route_topk"), {}, (0, 1, 17, 40))


_PACKED = DeviceSize(int(Size.PACKED_ROWS), 560)


def _pack() -> Case:
    plan = plan_pack_rows(requests=DeviceSize(0, 140), drafts=3, pairs=8, target=FEW_CORES)
    random = np.random.default_rng(0)
    inputs: dict[str, Array] = {
        name: random.integers(0, 999, 560).astype(np.int32)
        for name in ("token_ids", "positions", "slots")
    }
    inputs["state"] = _states(random)
    return _case(emit_pack_rows(plan, "pack_rows"), inputs, (0, 1, 77, 140))


def _states(random: np.random.Generator) -> Array:
    return states(random, 140, 3).astype(np.int32)


def _packed(state: Array) -> dict[str, Array]:
    each = rows_of_places(state, 3)
    ends = np.cumsum(each).astype(np.int32)
    return {"row_start": (ends - each).astype(np.int32), "row_ends": ends}


def _verify(*, packed: bool = False) -> Case:
    plan = plan_verify_drafts(
        requests=DeviceSize(0, 140), drafts=3, target=FEW_CORES, rows=_PACKED if packed else None
    )
    random = np.random.default_rng(0)
    op_inputs: dict[str, Array] = {
        "token_ids": random.integers(0, 2, 560).astype(np.int32),
        "sampled": random.integers(0, 2, 560).astype(np.int32),
        "state": random.integers(0, 5, (140, STATE_COLUMNS)).astype(np.int32),
    }
    if packed:
        op_inputs["state"] = _states(random)
        op_inputs |= _packed(op_inputs["state"])
    known = _verify().kernel.source if packed else ""
    case = _case(emit_verify_drafts(plan, "verify_drafts"), op_inputs, (0, 1, 77, 140))
    return replace(case, known=known)


def _align(parents: tuple[int, ...] = (), *, packed: bool = False) -> Case:
    n, drafts = 140, max(depths_of(parents), default=3)
    rows = len(parents) or drafts + 1
    plan = plan_align_drafts(
        requests=DeviceSize(0, n), drafts=drafts, block=4, table_blocks=5, target=FEW_CORES,
        nodes=len(parents), packed=_PACKED if packed else None,
    )  # fmt: skip
    random = np.random.default_rng(0)
    state = random.integers(0, 5, (n, STATE_COLUMNS))
    state[:, State.LENGTH] = random.integers(0, 24, n)
    state[:, State.FINISHED] = random.integers(0, 2, n) * (random.random(n) < 0.3)
    inputs: dict[str, Array] = {
        "token_ids": random.integers(0, 90, rows * n),
        "block_table": random.integers(-1, 90, (n, 5)),
        "state": state,
        "accepted": random.integers(0, 4, n),
        "new_tokens": random.integers(100, 190, n),
        "recent": random.integers(200, 290, (n, RECENT_COLUMNS)),
    }
    if parents:
        inputs["path"], inputs["accepted"] = tree_mutant_cases.paths(parents, n)
    if packed:
        state[:, State.DRAFTED] = random.integers(0, 4, n)
        inputs |= _packed(state)
    numbers: dict[str, Array] = {name: each.astype(np.int32) for name, each in inputs.items()}
    known = _align().kernel.source if packed else ""
    case = _case(emit_align_drafts(plan, "align_drafts"), numbers, (0, 1, 77, n))
    return replace(case, known=known)


def _shift() -> Case:
    places = DeviceSize(0, 2_100)
    plan = plan_shift_tokens(rows=places, requests=places, depth=1, known=3, target=FEW_CORES)
    random = np.random.default_rng(0)
    requests = np.arange(2_100) // 3
    op_inputs = {
        "ids": random.integers(0, 90, 2_100),
        "row_request": requests,
        "last_rows": np.minimum(3 * np.arange(2_100) + random.integers(0, 3, 2_100), 2_099),
        "new_tokens": random.integers(100, 190, 2_100),
        "known_tokens": random.integers(-1, 2, (2_100, 3)),
    }
    op_inputs["last_rows"][:2] = 0, 4
    numbers: dict[str, Array] = {n: each.astype(np.int32) for n, each in op_inputs.items()}
    return _case(emit_shift_tokens(plan, "shift_tokens"), numbers, (1, 5, 1_031, 2_100))


def _advance(drafts: int, *, drafting: bool, parents: tuple[int, ...] = ()) -> Callable[[], Case]:
    def make() -> Case:
        n, rows = 140, 140 * (drafts + 1)
        plan = plan_advance_requests(
            requests=DeviceSize(0, n), drafts=drafts, block=2, table_blocks=9, steps=3,
            counted=n + 3, vocabulary=9, drafting=drafting, target=FEW_CORES, parents=parents,
        )  # fmt: skip
        random = np.random.default_rng(0)
        options = np.zeros((n, OPTION_COLUMNS), np.float32)
        for i, penalty in enumerate((Option.REPETITION, Option.PRESENCE, Option.FREQUENCY)):
            options[i::5, penalty] = 0.5
        options[::2, Option.REPETITION] += 1
        state = random.integers(0, 6, (n, STATE_COLUMNS))
        state[:, State.FINISHED] *= random.random(n) < 0.3
        state[:, State.LENGTH] = random.integers(0, 19, n)
        state[:, State.LIMIT] += 2
        state[:, State.PLACE] = random.permutation(n + 3)[:n]
        state[:, State.STEPS] = random.choice([14, 15, 16, 23, 159], n)
        state[:, State.ADAPTIVE] = random.random(n) < 0.7
        state[:, State.RATE] = random.integers(0, RATE_ONE, n)
        # What pays is not sorted, so that each is looked at; for many places nothing does.
        pays = random.integers(0, RATE_ONE, STEP_COLUMNS)
        op_inputs = {
            "token_ids": random.integers(-1, 9, rows),
            "positions": random.integers(0, 99, rows),
            "slots": random.integers(0, 99, rows),
            "block_table": random.integers(-1, 99, (n, 9)),
            "state": state,
            "stop_ids": np.where(np.arange(STOP_COLUMNS) % 7, -1, random.integers(0, 9, (n, 8))),
            "accepted": random.integers(0, drafts + 1, n),
            "new_tokens": random.integers(0, 9, n),
            "emitted": random.integers(0, 9, 3 * n * (drafts + 2)),
            "step": np.array([5, 30_000, *pays[2:]]),
            "counts": random.integers(0, 9, (n + 3, 9)),
            **{f"draft_{i}": random.integers(0, 9, n) for i in range(drafts)},
        }
        numbers: dict[str, Array] = {
            name: each.astype(np.int32) for name, each in op_inputs.items()
        }
        numbers["options"] = options
        if parents:
            path, accepted = tree_mutant_cases.paths(parents, n)
            numbers |= {"path": path.astype(np.int32), "accepted": accepted.astype(np.int32)}
        return _case(emit_advance_requests(plan, "advance"), numbers, (0, 1, 77, n))

    return make


def _sample() -> Case:
    return Case(*sampling_mutant_cases.alone())


def _couple() -> Case:
    return Case(*sampling_mutant_cases.coupled(), _sample().kernel.source)


def _draft() -> Case:
    """Drafts that are drawn and that are not, filters within and beyond what is kept, ties."""
    options: list[dict[str, float]] = [
        {},
        {"temperature": 1.0, "verification": 3},
        {"temperature": 1.0, "verification": 1},
        {"temperature": 0.7, "top_k": 20, "verification": 2},
        {"temperature": 0.3, "top_p": 0.6, "verification": 1},
        {"temperature": 1.0, "top_k": 33, "min_p": 0.4, "verification": 2},
        {"temperature": 0.3, "top_k": 4_000, "top_p": 0.4, "verification": 1},
        {"temperature": 0.2, "top_k": 1_025, "top_p": 0.5, "min_p": 0.01, "verification": 2},
        {"temperature": 0.5, "top_k": 900, "top_p": 0.1, "verification": 1},
        {"temperature": 0.0, "top_k": 3, "verification": 2},
        # What ends the nucleus is the mass of tokens that are not kept.
        {"temperature": 2.0, "top_k": 4_000, "top_p": 0.005, "verification": 2},
        {"temperature": 30.0, "top_k": 1_025, "top_p": 0.02, "verification": 1},
    ]
    count, columns = 72, 9_001
    random = np.random.default_rng(0)
    logits = (random.standard_normal((count, columns)) * 2).astype(np.float32)
    logits[20:30] = np.round(logits[20:30] * 4) / 4
    logits[30], logits[31] = np.inf, -np.inf
    logits[32:34] = 0.0
    logits[33, 8_999] = -1e-30
    logits[34, 5_000] = np.nan
    logits[24:28, 30:] = -np.inf
    logits[36:48] = np.linspace(-9, 9, columns)
    logits[48:60] = 0.5  # one token more or less in the prefix is another token
    logits[60:72] = np.round(logits[60:72])
    places = Places.of(logits, options, drafts=3, depth=1)
    places.stop_ids[::2, [1, 7]] = np.argsort(-logits.astype(np.float64), axis=1)[::2, :2]
    places.state[:, State.GENERATED] = 5
    places.state[:, State.MINIMUM] = np.arange(count) % 5 + 6
    plan = plan_sample_drafts(
        requests=DeviceSize(0, count), drafts=3, depth=1, columns=columns, dtype=DType.F32,
        target=FEW_CORES,
    )  # fmt: skip
    return _case(emit_sample_drafts(plan, "drafts"), places.inputs, (0, 1, 53, count))


def _case(kernel: Kernel, inputs: dict[str, Array], rows: tuple[int, ...]) -> Case:
    """Fill the inputs that are not given with random numbers, around 1 or, i32, around 1,000."""
    given = dict(inputs)
    for seed, argument in enumerate(kernel.arguments):
        if argument.direction is not Direction.OUT and argument.name not in {*given, "sizes"}:
            numbers = random_array((argument.elements,), DType.F32, seed).astype(np.float32)
            scale = np.float32(1_000 if argument.dtype is DType.I32 else 1)
            given[argument.name] = (numbers * scale).astype(argument.dtype.numpy)
    return Case(kernel, given, rows)


def _made(make: Callable[[], tuple[Kernel, dict[str, Array], tuple[int, ...]]]) -> Case:
    return _case(*make())


def _branch() -> Case:
    """What the pass over the logits has in common with other samplers is shown there."""
    return Case(*tree_mutant_cases.branch(), _sample().kernel.source)


CASES: dict[str, Callable[[], Case]] = {
    "write_cache": _write_cache,
    "gather_rows": _gather_rows,
    "gather_cache": _gather_cache,
    "gather_codes": partial(_made, chain_mutant_cases.gather_codes),
    "argmax_f32": _argmax(DType.F32),
    "argmax_bf16": _argmax(DType.BF16),
    "merge_f32": _merge(DType.F32),
    "merge_bf16": _merge(DType.BF16),
    "combine": _combine,
    "row_groups": partial(_made, chain_mutant_cases.row_groups),
    "dispatch": _dispatch,
    "route": _route,
    "draft": _draft,
    "sample": _sample,
    "sample_coupled": _couple,
    "pack": _pack,
    "verify": _verify,
    "verify_packed": partial(_verify, packed=True),
    "verify_tree": lambda: _case(*tree_mutant_cases.verify_tree()),
    "move": lambda: _case(*tree_mutant_cases.move()),
    "align": _align,
    "align_packed": partial(_align, packed=True),
    "shift": _shift,
    "advance_drafts": _advance(3, drafting=True),
    "advance_placeholders": _advance(2, drafting=False),
    "advance_tree": _advance(5, drafting=True, parents=(-1, 0, 0, 1, 1, 3)),
    "align_tree": partial(_align, (-1, 0, 0, 1, 1, 3)),
    "branch": _branch,
    **{name: partial(_made, make) for name, make in chain_mutant_cases.CHAINS.items()},
}
"""Kernels by the name of their file of excuses."""
