"""Steps with draft trees for which wrong kernels do something else."""

from dataclasses import replace

import numpy as np

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.branch_drafts import emit_branch_drafts, plan_branch_drafts
from ascendfx.codegen.ascendc.kernels.move_entries import emit_move_entries, plan_move_entries
from ascendfx.codegen.ascendc.kernels.verify_tree import emit_verify_tree, plan_verify_tree
from ascendfx.ir.step_state import STATE_COLUMNS, STOP_COLUMNS, State
from ascendfx.ir.tensor_type import DType
from tests.kernels.vector_case import FEW_CORES, Array

Made = tuple[Kernel, dict[str, Array], tuple[int, ...]]
"""A kernel, what it reads, and how many places it is run for."""


def verify_tree() -> Made:
    parents = (-1, 0, 0, 1, 1, 2, 4)
    plan = plan_verify_tree(requests=DeviceSize(0, 140), parents=parents, target=FEW_CORES)
    random = np.random.default_rng(0)
    inputs: dict[str, Array] = {
        "token_ids": random.integers(0, 2, 980).astype(np.int32),
        "sampled": random.integers(0, 2, 980).astype(np.int32),
        "state": random.integers(0, 9, (140, STATE_COLUMNS)).astype(np.int32),
    }
    return (emit_verify_tree(plan, "verify_tree"), inputs, (0, 1, 77, 140))


def move() -> Made:
    n, nodes, block = 70, 6, 4
    plan = plan_move_entries(
        requests=DeviceSize(0, n), nodes=nodes, columns=(40, 23, 16), cache_blocks=360, block=block,
        table_blocks=5, dtype=DType.BF16, target=replace(FEW_CORES, vector_cores=4),
    )  # fmt: skip
    random = np.random.default_rng(0)
    state = random.integers(0, 5, (n, STATE_COLUMNS))
    state[:, State.LENGTH] = random.integers(0, 22, n)
    state[:, State.FINISHED] = random.integers(0, 2, n) * (random.random(n) < 0.3)
    table = random.permutation(360)[: n * 5].reshape(n, 5)
    path = np.full((n, nodes), -1)
    for row in path:
        chosen = np.flatnonzero(random.random(nodes - 1) < 0.6) + 1
        row[: len(chosen) + 1] = [0, *chosen]
    inputs = {
        "block_table": np.where(random.random((n, 5)) < 0.1, -1, table),
        "state": state,
        "path": path,
    }
    numbers: dict[str, Array] = {name: each.astype(np.int32) for name, each in inputs.items()}
    return (emit_move_entries(plan, "move_entries"), numbers, (0, 1, 37, n))


def paths(parents: tuple[int, ...], n: int) -> tuple[Array, Array]:
    """Return a path from the root to each node in turn, and how many drafts it has."""
    ways: list[list[int]] = []
    for node, parent in enumerate(parents):
        ways.append([*(ways[parent] if node else []), node])
    path = np.full((n, len(parents)), -1)
    for b, row in enumerate(path):
        way = ways[b * 5 % len(parents)]
        row[: len(way)] = way
    return path, (path >= 0).sum(axis=1) - 1


def branch() -> Made:
    columns = 1_700
    random = np.random.default_rng(0)
    count, special = 54, 6
    logits = random.permutation(np.arange(-600, 600).repeat(77))[: count * columns]
    logits = logits.reshape(count, columns).astype(np.float32)
    logits[0, 5], logits[1], logits[2, 9], logits[3, 2:] = np.nan, 0, np.inf, -np.inf
    logits[4], logits[5, 1:] = -np.inf, -np.inf
    state = random.integers(0, 9, (count, STATE_COLUMNS))
    stops = np.argsort(-logits, axis=1, kind="stable")[:, :STOP_COLUMNS].copy()
    stops[:special], stops[::3, 2:] = -1, -1
    inputs: dict[str, Array] = {
        "logits": logits,
        "state": state.astype(np.int32),
        "stop_ids": stops.astype(np.int32),
        "accepted": random.integers(0, 4, count).astype(np.int32),
    }
    plan = plan_branch_drafts(
        requests=DeviceSize(0, count), depth=1, branches=3, columns=columns, dtype=DType.F32,
        target=FEW_CORES,
    )  # fmt: skip
    return (emit_branch_drafts(plan, "branch"), inputs, (0, 1, 29, count))
