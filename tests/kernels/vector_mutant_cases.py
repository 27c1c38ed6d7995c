"""Vector kernels to break: every family that no cube or attention table has."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ascendfx.codegen.ascendc.kernel import DeviceSize, Direction, Kernel
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
from ascendfx.codegen.ascendc.kernels.route_topk import emit_route_topk, plan_route_topk
from ascendfx.codegen.ascendc.kernels.route_topk_plan import Routing, Scoring
from ascendfx.codegen.ascendc.kernels.vector_chain import emit_vector_chain, plan_vector_chain
from ascendfx.codegen.ascendc.kernels.vector_kernel import RowView
from ascendfx.codegen.ascendc.kernels.write_cache import emit_write_cache, plan_write_cache
from ascendfx.ir.graph import Graph
from ascendfx.ir.tensor_type import DType
from tests.kernels.attention_shapes import decode_shape
from tests.kernels.chain_graphs import latent, residual_norm, rotary, swiglu
from tests.kernels.vector_case import FEW_CORES, Array, random_array


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel to break, its inputs and the row counts to launch it with."""

    kernel: Kernel
    inputs: dict[str, Array]
    rows: tuple[int, ...]


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


def _chain(graph: Graph, rows: int, unified_buffer: int) -> Callable[[], Case]:
    def make() -> Case:
        target = replace(FEW_CORES, unified_buffer=unified_buffer)
        plan = plan_vector_chain(graph, rows=DeviceSize(0, rows), target=target)
        return _case(emit_vector_chain(plan, "chain"), {}, (0, 1, rows // 2 + 2, rows))

    return make


def _case(kernel: Kernel, inputs: dict[str, Array], rows: tuple[int, ...]) -> Case:
    """Fill the float inputs that are not given with random numbers."""
    given = dict(inputs)
    for seed, argument in enumerate(kernel.arguments):
        if argument.direction is not Direction.OUT and argument.name not in {*given, "sizes"}:
            given[argument.name] = random_array((argument.elements,), argument.dtype, seed)
    return Case(kernel, given, rows)


CASES: dict[str, Callable[[], Case]] = {
    "write_cache": _write_cache,
    "gather_rows": _gather_rows,
    "gather_cache": _gather_cache,
    "argmax_f32": _argmax(DType.F32),
    "argmax_bf16": _argmax(DType.BF16),
    "merge_f32": _merge(DType.F32),
    "merge_bf16": _merge(DType.BF16),
    "combine": _combine,
    "dispatch": _dispatch,
    "route": _route,
    "norm": _chain(residual_norm(40, 200, DType.BF16), 40, 20_000),
    "latent": _chain(latent(40, 40, 12, DType.BF16), 40, 9_000),
    "rotary": _chain(rotary(40, 3, 24, DType.F32, (True, True)), 40, 9_000),
    "pieces": _chain(swiglu(5, 4_100, DType.BF16), 5, 100_000),
}
"""Kernels by the name of their file of excuses."""
