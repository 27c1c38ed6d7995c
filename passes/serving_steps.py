"""Run a program in serving form step by step on the reference interpreter."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np

from ascendfx.ir.cache_block import BLOCK_TOKENS, slots_of
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_names import CACHE_PREFIX, COUNTS, LOGIT_ROWS

T = TypeVar("T")


def given_first(given: Mapping[str, Array], tensors: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return both as one mapping; no tensor is read before it is asked for."""
    return ChainMap(dict(given), cast("dict[str, Array]", tensors))


@dataclass(frozen=True)
class Pages:
    """Which cache blocks belong to which request.

    Attributes:
        requests: Number of requests.
        table_blocks: Blocks of a request.
        block: Tokens of a block.
    """

    requests: int
    table_blocks: int
    block: int

    @property
    def blocks(self) -> int:
        """Blocks of every cache."""
        return self.requests * self.table_blocks

    @property
    def table(self) -> Array:
        """Return i32 ``[requests, table_blocks]``.

        Blocks are dealt out of order, so that a wrong block table cannot go unnoticed.
        """
        order = np.random.default_rng(0).permutation(self.blocks).astype(np.int32)
        return order.reshape(self.requests, self.table_blocks)

    def controls(
        self, ids: Sequence[Sequence[int]], starts: Sequence[int], only: Sequence[int]
    ) -> dict[str, Array]:
        """Return the control inputs of a step.

        Args:
            ids: Tokens to append to each request of the step.
            starts: How many tokens each of them has already.
            only: Which requests take part.
        """
        table = self.table[list(only)]
        rows = [
            (i, starts[i] + j, token) for i, each in enumerate(ids) for j, token in enumerate(each)
        ]
        owner = np.array([i for i, _, _ in rows], np.int32)
        positions = np.array([p for _, p, _ in rows], np.int32)
        slots = slots_of(table[owner], positions[:, None], self.block)
        return {
            "token_ids": np.array([token for _, _, token in rows], np.int32),
            "positions": positions,
            "slots": slots[:, 0].astype(np.int32),
            "row_request": owner,
            "block_table": table,
            LOGIT_ROWS: (np.cumsum([len(each) for each in ids]) - 1).astype(np.int32),
        }


def cache_names(program: Program) -> tuple[str, ...]:
    """Return the names of the entry's cache inputs, in order."""
    return tuple(name for name in program.main.input_types if name.startswith(CACHE_PREFIX))


def caches_after(program: Program, outputs: Sequence[T]) -> dict[str, T]:
    """Return the caches that a step returns, by name: they are the last of its results."""
    names = cache_names(program)
    return dict(zip(names, outputs[len(outputs) - len(names) :], strict=True))


def block_tokens(program: Program) -> int:
    """Return the tokens of a cache block; a program without caches has none to say."""
    names = (name for name in cache_names(program) if name != COUNTS)
    kinds = [program.main.input_types[name] for name in names]
    return bind_size(kinds[0].shape[1], {}) if kinds else BLOCK_TOKENS


def empty_caches(program: Program, blocks: int) -> dict[str, Array]:
    """Return caches that hold nothing: reading a token that was not written gives no number."""
    kinds = program.main.input_types
    return {
        name: np.full([bind_size(size, {"blocks": blocks}) for size in kinds[name].shape], np.nan)
        for name in cache_names(program)
    }


@dataclass
class ServingSteps:
    """A program with its caches; `step` feeds rows of several requests.

    Attributes:
        program: In serving form.
        weights: The checkpoint by key.
        requests: Number of requests.
        table_blocks: Blocks of a request.
        states: What the last step returned between logits and caches: hidden states of its rows.
    """

    program: Program
    weights: Mapping[str, Array]
    requests: int
    table_blocks: int = 8
    caches: dict[str, Array] = field(init=False)
    lengths: list[int] = field(init=False)
    pages: Pages = field(init=False)
    states: tuple[Array, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.pages = Pages(self.requests, self.table_blocks, block_tokens(self.program))
        self.caches = empty_caches(self.program, self.pages.blocks)
        self.lengths = [0] * self.requests

    def step(
        self, ids: Sequence[Sequence[int]], only: Sequence[int] | None = None, **given: Array
    ) -> Array:
        """Append ``ids[i]`` to request ``only[i]``; return the logits after each last token.

        Args:
            ids: Tokens by request.
            only: Which requests take part; by default all.
            given: Further inputs, such as the hidden states of all rows for a draft layer.
        """
        requests = list(range(self.requests)) if only is None else list(only)
        starts = [self.lengths[request] for request in requests]
        controls = self.pages.controls(ids, starts, requests)
        for request, each in zip(requests, ids, strict=True):
            self.lengths[request] += len(each)
        outputs = interpret(
            self.program,
            given_first({**self.caches, **controls, **given}, self.weights),
            sizes={"context": max(self.lengths[request] for request in requests)},
        )
        self.caches = caches_after(self.program, outputs)
        self.states = tuple(outputs[2 : len(outputs) - len(self.caches)])
        if not np.array_equal(outputs[0], np.argmax(outputs[1], axis=-1)):
            raise AssertionError("the sampled tokens are not those of the largest logits")
        return outputs[1]
