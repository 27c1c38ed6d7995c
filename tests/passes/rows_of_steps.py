"""Random steps of a serving form that choose one row of each request from what they compute."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import (
    Add,
    CacheRead,
    CacheWrite,
    Call,
    CombineExperts,
    Concat,
    CumulativeSum,
    DispatchExperts,
    Expand,
    GatherRows,
    GroupedLinear,
    Input,
    Linear,
    Multiply,
    Param,
    RaggedAttention,
    Reshape,
    RmsNorm,
    Rotary,
    RouteTopk,
    Slice,
    Softmax,
    Transpose,
)
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType

ROWS, REQUESTS, CONTEXT = named_size("rows"), named_size("requests"), named_size("context")
WIDTH, HEADS, EXPERTS, CHOSEN, BLOCK, BLOCKS = 8, 2, 4, 2, 4, 4
STARTS = (0, 2, 1)
"""Tokens that each request has in its cache before the step."""


@dataclass
class StepDrawer:
    """Draws operations; every value of `values` is ``[rows, 8]``.

    Attributes:
        draw: Of hypothesis.
        name: Of the graph.
        builder: Of the graph.
        controls: Slots, positions, requests of rows and block table.
        values: So far.
        ids: Numbers of chosen rows.
        caches: Inputs for caches, each used once.
        written: Caches behind their writes.
        params: Names of parameters.
    """

    draw: Any
    name: str
    builder: GraphBuilder
    controls: dict[str, Value]
    values: list[Value]
    caches: list[Value]
    written: list[Value] = field(default_factory=list[Value])
    params: int = 0

    def add(self, op: Op, *operands: Value) -> Value:
        return self.builder.add(op, *operands)

    def param(self, *shape: int) -> Value:
        self.params += 1
        name = f"{self.name}.{self.params}"
        return self.add(Param(name, TensorType(DType.F32, shape)))

    def pick(self) -> Value:
        return self.draw(st.sampled_from(self.values[-4:]))

    def step(self) -> None:
        kinds = [self.token_wise] * 3 + [self.experts, self.rotated]
        if self.draw(st.integers(0, 9)) == 0:
            kinds = [self.meet]
        if self.caches:
            kinds.append(self.attention)
        self.values.append(self.draw(st.sampled_from(kinds))())

    def token_wise(self) -> Value:
        x = self.pick()
        match self.draw(st.integers(0, 7)):
            case 0:
                return self.add(Linear(), x, self.param(WIDTH, WIDTH))
            case 1:
                return self.add(Add(), x, self.pick())
            case 2:
                return self.add(Multiply(), x, self.param(WIDTH))
            case 3:
                return self.add(RmsNorm(1e-3), x, self.param(WIDTH))
            case 4:
                halves = [self.add(Slice(1, a, a + 4), x) for a in (4, 0)]
                return self.add(Concat(1), *halves)
            case 5:
                return self.add(Softmax(1), x)
            case 6:
                by_head = self.add(Reshape((ROWS, 2, 4)), x)
                turned = self.add(Transpose((0, 2, 1)), by_head)
                return self.add(Reshape((ROWS, WIDTH)), turned)
            case _:
                same = self.add(Expand((ROWS, WIDTH)), self.param(1, WIDTH))
                return self.add(Add(), x, same)

    def rotated(self) -> Value:
        tables = [self.add(Slice(1, a, a + 4), self.pick()) for a in (0, 4)]
        tables = [self.add(Reshape((ROWS, 1, 4)), each) for each in tables]
        heads = self.add(Reshape((ROWS, 1, WIDTH)), self.pick())
        op = Rotary(interleaved_in=False, interleaved_out=False)
        return self.add(Reshape((ROWS, WIDTH)), self.add(op, heads, *tables))

    def experts(self) -> Value:
        x = self.pick()
        logits = self.add(Linear(), self.pick(), self.param(EXPERTS, WIDTH))
        weights, ids = self.builder.add_multi(RouteTopk(CHOSEN, "softmax"), logits)
        source, place, ends = self.builder.add_multi(DispatchExperts(EXPERTS), ids)
        pairs = self.add(GatherRows(), x, source)
        y = self.add(GroupedLinear(), pairs, self.param(EXPERTS, WIDTH, WIDTH), ends)
        if self.draw(st.booleans()):
            y = self.add(Multiply(), y, self.draw(st.sampled_from([y, pairs])))
        result = self.add(CombineExperts(), y, place, weights)
        if self.draw(st.integers(0, 4)) == 0:  # reads the pairs of all rows in their order
            summed = self.add(CumulativeSum(0), y)
            again = self.add(CombineExperts(), summed, place, weights)
            result = self.add(Add(), result, again)
        return result

    def meet(self) -> Value:
        op = self.draw(st.sampled_from([CumulativeSum(0), Softmax(0)]))
        return self.add(op, self.pick())

    def attention(self) -> Value:
        query, key = (self.add(Reshape((ROWS, HEADS, 4)), self.pick()) for _ in range(2))
        slots, positions, requests, table = self.controls.values()
        cache = self.add(CacheWrite(), self.caches.pop(), slots, key)
        self.written.append(cache)
        read = self.add(CacheRead(CONTEXT), cache, table)
        attended = self.add(RaggedAttention(1, 0.5), query, read, read, positions, requests)
        return self.add(Reshape((ROWS, WIDTH)), attended)


def _controls(b: GraphBuilder) -> dict[str, Value]:
    rows = TensorType(DType.I32, (ROWS,))
    found = {name: b.add(Input(name, rows)) for name in ("slots", "positions", "row_request")}
    table = TensorType(DType.I32, (REQUESTS, 1))
    return found | {"block_table": b.add(Input("block_table", table))}


def _begin(draw: Any, name: str, states: int, caches: int) -> StepDrawer:
    b = GraphBuilder(name)
    values = [b.add(Input(f"x{i}", TensorType(DType.F32, (ROWS, WIDTH)))) for i in range(states)]
    controls = _controls(b)
    kind = TensorType(DType.F32, (BLOCKS, BLOCK, HEADS, 4))
    kept = [b.add(Input(f"cache.{i}", kind)) for i in range(caches)]
    return StepDrawer(draw, name, b, controls, values, kept)


@st.composite
def choosing_steps(draw: st.DrawFn) -> Program:
    """Draw a step that calls a function once or twice and chooses rows of what it computes."""
    inner = _begin(draw, "layer", 2, 1)
    for _ in range(draw(st.integers(1, 6))):
        inner.step()
    caches = [*inner.written, *inner.caches]
    layer = inner.builder.build(inner.values[-1], inner.pick(), *caches)
    calls = draw(st.integers(0, 2))
    outer = _begin(draw, "main", 2, 1 + calls)
    b = outer.builder
    spare = [outer.caches.pop() for _ in range(calls)]
    kind = TensorType(DType.I32, (REQUESTS,))
    ids = [b.add(Input(f"ids{i}", kind)) for i in range(2)]
    for _ in range(draw(st.integers(0, 4))):
        outer.step()
    for i in range(calls):
        keys = tuple((name, f"{i}.{name}") for name in _param_names(layer.nodes))
        operands = (outer.pick(), outer.pick(), *outer.controls.values(), spare[i])
        first, second, cache = b.add_multi(Call("layer", layer.output_types, keys), *operands)
        outer.values += [first, second]
        outer.written.append(cache)
        for _ in range(draw(st.integers(0, 3))):
            outer.step()
    chosen = [
        b.add(GatherRows(), outer.pick(), draw(st.sampled_from(ids)))
        for _ in range(draw(st.integers(1, 2)))
    ]
    chosen = [b.add(Linear(), each, outer.param(3, WIDTH)) for each in chosen]
    everywhere = [outer.pick()] if draw(st.integers(0, 7)) == 0 else []
    main = b.build(*chosen, *everywhere, *outer.written)
    return Program((main, layer)).pruned()


def _param_names(nodes: Any) -> list[str]:
    return [node.op.name for node in nodes if isinstance(node.op, Param)]


def tensors_of(program: Program, seed: int) -> dict[str, Array]:
    """Return inputs and parameters: three requests with 1 to 3 rows each."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, 4, len(STARTS)).clip(max=BLOCK - np.array(STARTS))
    requests = np.repeat(np.arange(len(STARTS)), counts)
    positions = np.concatenate([s + np.arange(n) for s, n in zip(STARTS, counts, strict=True)])
    table = random.permutation(BLOCKS)[: len(STARTS), None]
    ends = np.cumsum(counts)
    found: dict[str, Array] = {
        "row_request": requests,
        "positions": positions,
        "slots": table[requests, 0] * BLOCK + positions,
        "block_table": table,
        "ids0": ends - 1,
        "ids1": ends - random.integers(1, counts + 1),
    }
    for name, kind in program.main.input_types.items():
        if name not in found:
            shape = [size if isinstance(size, int) else len(requests) for size in kind.shape]
            found[name] = random.standard_normal(shape)
    for graph in program.graphs:
        for node in graph.nodes:
            names = [node.op.name] if isinstance(node.op, Param) else []
            if isinstance(node.op, Call):
                names = [key for _, key in node.op.keys]
            for name in names:
                shape = _shape_of(program, name)
                found.setdefault(name, random.standard_normal(shape) / 2)
    return found


def _shape_of(program: Program, key: str) -> tuple[int, ...]:
    own = key.split(".", 1)[1] if key[0].isdigit() else key
    for graph in program.graphs:
        for node in graph.nodes:
            if isinstance(node.op, Param) and node.op.name == own:
                return tuple(int(size) for size in node.op.type.shape)
    raise AssertionError(f"no parameter is called {own}")
