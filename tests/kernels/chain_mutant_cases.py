"""Vector chains to break, and kernels of codes and of the group of each row."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.gather_codes import emit_gather_codes, plan_gather_codes
from ascendfx.codegen.ascendc.kernels.row_groups import emit_row_groups, plan_row_groups
from ascendfx.codegen.ascendc.kernels.vector_chain import emit_vector_chain, plan_vector_chain
from ascendfx.ir.graph import Graph
from ascendfx.ir.tensor_type import DType
from tests.kernels.chain_graphs import (
    expert_sums,
    gated_codes,
    gated_digits,
    latent,
    residual_norm,
    rotary,
    swiglu,
)
from tests.kernels.vector_case import FEW_CORES, Array

Made = tuple[Kernel, dict[str, Array], tuple[int, ...]]
"""A kernel, the inputs that are not drawn, and the row counts to launch it with."""


def row_groups() -> Made:
    plan = plan_row_groups(rows=DeviceSize(0, 5_000), groups=9, target=FEW_CORES)
    ends = np.cumsum([3, 0, 170, 1, 0, 2_100, 2, 0, 2_500]).astype(np.int32)
    return emit_row_groups(plan, "row_groups"), {"ends": ends}, (0, 1, 2_276, 4_776, 5_000)


def gather_codes() -> Made:
    plan = plan_gather_codes(
        context=DeviceSize(0, 600), columns=96, cache_blocks=9, max_blocks=5, dtype=DType.BF16,
        target=FEW_CORES,
    )  # fmt: skip
    random = np.random.default_rng(0)
    inputs: dict[str, Array] = {
        "codes": random.integers(-127, 128, 9 * 128 * 96).astype(np.int8),
        "block_table": random.permutation(9)[:5].astype(np.int32),
    }
    return emit_gather_codes(plan, "gather_codes"), inputs, (0, 1, 127, 300, 600)


def _chain(graph: Graph, rows: int, unified_buffer: int) -> Callable[[], Made]:
    def make() -> Made:
        target = replace(FEW_CORES, unified_buffer=unified_buffer)
        plan = plan_vector_chain(graph, rows=DeviceSize(0, rows), target=target)
        return emit_vector_chain(plan, "chain"), {}, (0, 1, rows // 2 + 2, rows)

    return make


def _expert_sums() -> Made:
    target = replace(FEW_CORES, unified_buffer=9_000)
    graph = expert_sums(40, 44, 5, DType.BF16)
    plan = plan_vector_chain(graph, rows=DeviceSize(0, 40), target=target)
    experts = np.sort(np.random.default_rng(0).integers(0, 5, 40)).astype(np.int32)
    assert plan.program.inputs[2].dtype is DType.I32
    return emit_vector_chain(plan, "chain"), {"x2": experts}, (0, 1, 22, 40)


CHAINS: dict[str, Callable[[], Made]] = {
    "norm": _chain(residual_norm(40, 200, DType.BF16), 40, 20_000),
    "latent": _chain(latent(40, 40, 12, DType.BF16), 40, 9_000),
    "rotary": _chain(rotary(40, 3, 24, DType.F32, (True, True)), 40, 9_000),
    "codes": _chain(gated_codes(40, 40), 40, 20_000),
    "digits": _chain(gated_digits(40, 40), 40, 20_000),
    "expert_sums": _expert_sums,
    "pieces": _chain(swiglu(5, 4_100, DType.BF16), 5, 100_000),
}
"""By the name of their file of excuses."""
