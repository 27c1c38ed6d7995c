"""Run a serving-form program step by step on the reference interpreter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size

BLOCK = 4
TABLE_BLOCKS = 8


def checkpoint_of(program: Program, seed: int) -> dict[str, Array]:
    """Return random float64 tensors for every checkpoint key of a program without recipes."""
    random = np.random.default_rng(seed)
    keys: dict[str, tuple[int, ...]] = {}
    for graph in program.graphs:
        formals = {graph.op_of(v).name: graph.type_of(v).shape for v in graph.params}
        if graph is program.main:
            keys.update(formals)
        for node in graph.nodes:
            if isinstance(node.op, Call):
                callee = program.by_name[node.op.callee]
                shapes = {callee.op_of(v).name: callee.type_of(v).shape for v in callee.params}
                keys.update({key: shapes[name] for name, key in node.op.keys if name in shapes})
    return {
        key: random.standard_normal([bind_size(d, {}) for d in shape]) / np.sqrt(max(shape[-1], 1))
        for key, shape in keys.items()
    }


@dataclass
class Serving:
    """A program with its caches; `step` feeds rows of several requests."""

    program: Program
    weights: Mapping[str, Array]
    requests: int
    caches: dict[str, Array] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        blocks = self.requests * TABLE_BLOCKS
        for name, kind in self.program.main.input_types.items():
            if name.startswith("cache."):
                shape = [bind_size(d, {"blocks": blocks}) for d in kind.shape]
                self.caches[name] = np.full(shape, np.nan)
        # Blocks are dealt out of order, so that a wrong block table cannot go unnoticed.
        order = np.random.default_rng(0).permutation(blocks).astype(np.int32)
        self.table = order.reshape(self.requests, TABLE_BLOCKS)
        self.lengths = [0] * self.requests

    def step(self, ids: Sequence[Sequence[int]], only: Sequence[int] | None = None) -> Array:
        """Append ``ids[i]`` to request ``only[i]``; return the logits after each last token."""
        requests = list(range(self.requests)) if only is None else list(only)
        rows = [(i, r, t) for i, r in enumerate(requests) for t in ids[i]]
        positions = [
            self.lengths[r] + j for i, r in enumerate(requests) for j in range(len(ids[i]))
        ]
        table = self.table[requests]
        slots = [
            table[i][p // BLOCK] * BLOCK + p % BLOCK
            for (i, _, _), p in zip(rows, positions, strict=True)
        ]
        ends = np.cumsum([len(each) for each in ids])
        for r, each in zip(requests, ids, strict=True):
            self.lengths[r] += len(each)
        outputs = interpret(
            self.program,
            {
                **self.weights,
                **self.caches,
                "token_ids": np.array([t for _, _, t in rows], np.int32),
                "positions": np.array(positions, np.int32),
                "slots": np.array(slots, np.int32),
                "row_request": np.array([i for i, _, _ in rows], np.int32),
                "block_table": table,
                "logit_rows": (ends - 1).astype(np.int32),
            },
            sizes={"context": max(self.lengths[r] for r in requests)},
        )
        self.caches = dict(zip(self.caches, outputs[2:], strict=True))
        np.testing.assert_array_equal(outputs[0], np.argmax(outputs[1], axis=-1))
        return outputs[1]


def full_logits(program: Program, weights: Mapping[str, Array], ids: Sequence[int]) -> Array:
    """Return the logits ``[tokens, vocab]`` of the captured form."""
    return interpret(program, {**weights, "token_ids": np.array([ids])})[0][0]


def spans(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return ``(start, stop)`` of consecutive pieces of the given lengths."""
    return list(pairwise(np.concatenate([[0], np.cumsum(lengths)]).tolist()))
