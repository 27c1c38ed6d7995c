"""What a closed step is run on: requests in various states, with caches that hold drawn numbers.

A step is a function of its caches, whatever numbers they hold. So texts before the step need not
be run: entries are drawn, and both sides of a comparison read the same ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np

from ascendfx.ir.draft_tree import depths_of
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim, bind_size, names_in
from ascendfx.ir.step_names import CACHE_PREFIX, HIDDEN_CACHE
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.serving_steps import block_tokens

BLOCK = 4
"""Tokens of a cache block here: a short text fills several of them."""
STEPS = 3
"""Of the ring of emitted tokens."""


@dataclass(frozen=True)
class DrawnRequest:
    """A request of a step.

    Attributes:
        length: Tokens whose entries the caches hold.
        tokens: Of its rows.
        valid: How many of its rows count; the others are placeholders.
        runs: Whether it has not ended.
    """

    length: int
    tokens: tuple[int, ...]
    valid: int
    runs: bool = True


@dataclass(frozen=True)
class DrawnStep:
    """A step.

    Attributes:
        requests: In the order of places.
        parents: Of the rows of a request in a decode step: the row before each, -1 of the first;
            empty for a prefill.
        table: Blocks of each request, ``[requests, table_blocks]``.
        controls: Control tensors by name.
    """

    requests: tuple[DrawnRequest, ...]
    parents: tuple[int, ...]
    table: Array
    controls: Mapping[str, Array] = field(default_factory=dict[str, Array])

    @property
    def depths(self) -> tuple[int, ...]:
        """How far each row of a decode step is from the first of its request."""
        return depths_of(self.parents)

    @property
    def sizes(self) -> dict[str, int]:
        """Named sizes of the step."""
        rows = sum(len(request.tokens) for request in self.requests)
        return {
            "rows": rows,
            "requests": len(self.requests),
            "places": len(self.requests),
            "context": max(request.length + len(request.tokens) for request in self.requests),
            "blocks": self.table.size,
            "table_blocks": self.table.shape[1],
            "steps": STEPS,
        }

    def slot(self, request: int, position: int) -> int:
        """Return where the caches hold a position of a request."""
        # Not by `slots_of`: operations call it, and their mistakes are what is looked for here.
        return int(self.table[request][position // BLOCK]) * BLOCK + position % BLOCK

    def entries(self, cache: Array, request: int) -> Array:
        """Return what a cache ``[blocks, block, ...]`` holds of a request before the step."""
        flat = cache.reshape(-1, *cache.shape[2:])
        return flat[[self.slot(request, i) for i in range(self.requests[request].length)]]

    def blocks(self, request: int) -> Array:
        """Return the blocks of a request."""
        return self.table[request]

    def inputs(self, program: Program) -> dict[str, Array]:
        """Return all inputs of a program; a control tensor of no known name holds zeros."""
        return {name: self.input(program.main, name) for name in program.main.input_types}

    def input(self, main: Graph, name: str) -> Array:
        """Return one input of an entry."""
        if name in self.controls:
            return self.controls[name]
        kind = main.input_types[name]
        shape = [self._size(size) for size in kind.shape]
        if kind.dtype is DType.I8:  # a cache of codes
            return np.random.default_rng(crc32(name.encode())).integers(-127, 128, shape)
        if not kind.dtype.is_float or not name.startswith(CACHE_PREFIX):
            return np.zeros(shape, np.float64 if kind.dtype.is_float else np.int64)
        random = np.random.default_rng(crc32(name.encode()))
        if name == HIDDEN_CACHE:
            return random.standard_normal(shape)
        return self._entries(random, (shape[0], BLOCK, *shape[2:]))

    def all_sizes(self, program: Program) -> dict[str, int]:
        """Return the named sizes of a program; one of no known name is that of the rows."""
        names = {
            name
            for graph in program.graphs
            for node in graph.nodes
            for kind in node.types
            for size in kind.shape
            for name in names_in(size)
        }
        return {**dict.fromkeys(names, self.sizes["rows"]), **self.sizes}

    def _size(self, size: Dim) -> int:
        return bind_size(size, {**dict.fromkeys(names_in(size), self.sizes["rows"]), **self.sizes})

    def _entries(self, random: np.random.Generator, shape: Sequence[int]) -> Array:
        """Return a cache: no number where the step has to write before it reads."""
        cache = random.standard_normal(shape)
        flat = cache.reshape(-1, *shape[2:])
        for number, request in enumerate(self.requests):
            if request.runs:
                for position in range(request.length, self.table.shape[1] * BLOCK):
                    flat[self.slot(number, position)] = np.nan
        return cache


def block_table(requests: int, tokens: int) -> Array:
    """Return the blocks of requests with so many tokens at most, dealt out of order."""
    each = -(-tokens // BLOCK)
    order = np.random.default_rng(0).permutation(requests * each)
    return order.reshape(requests, each)


def with_small_blocks(program: Program) -> Program:
    """Return a program whose operations count with blocks of `BLOCK` tokens.

    The operations of a closed step know how many tokens a block of the caches has; one that has
    another number than the caches is left alone, for it is wrong.
    """
    block = block_tokens(program)

    def small(node: Node) -> Node:
        op = node.op
        if getattr(op, "block", None) == block:
            return replace(node, op=replace(op, block=BLOCK))  # pyright: ignore[reportCallIssue]
        return node

    main = program.main
    nodes = tuple(map(small, main.nodes))
    return Program((Graph(main.name, nodes, main.outputs), *program.graphs[1:]), program.recipes)
