"""Random chains: any operations over any lines, kept in a range where errors stay small."""

from hypothesis import strategies as st

from ascendfx.ir import ops
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.op import Op
from ascendfx.ir.tensor_type import DType
from tests.kernels.chain_graphs import ChainGraph

_ONE_OPERAND: tuple[Op, ...] = (
    ops.Negate(),
    ops.Sigmoid(),
    ops.Silu(),
    ops.Relu(),
    ops.Cast(DType.F32),
)
_TWO_OPERANDS: tuple[Op, ...] = (
    ops.Add(),
    ops.Subtract(),
    ops.Multiply(),
    ops.Maximum(),
    ops.Minimum(),
)


class _Draw:
    """Grows a graph; every value is an f32 line or number per line."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.dtype = draw(st.sampled_from([DType.F32, DType.BF16]))
        self.rows = draw(st.integers(1, 40))
        self.graph = ChainGraph(self.rows, self.dtype)
        self.groups = draw(st.sampled_from([1, 1, 2, 3]))
        self.columns = draw(st.integers(2, 70))
        self.values = [self._input() for _ in range(draw(st.integers(1, 3)))]

    def _shape(self, columns: int) -> tuple[int, ...]:
        return (self.groups, columns) if self.groups > 1 else (columns,)

    def _input(self) -> Value:
        return self.graph.input(*self._shape(self.columns))

    def _last(self, value: Value) -> int:
        return int(self.graph.builder.type_of(value).shape[-1])  # pyright: ignore[reportArgumentType]

    def _any(self, *, lines: bool = False) -> Value:
        fitting = [v for v in self.values if self._last(v) > 1 or not lines]
        return self._draw(st.sampled_from(fitting))

    def step(self) -> None:
        """Add one operation."""
        kinds = ("one", "two", "number", "param", "reduce", "norm", "softmax", "cut", "rotary")
        made = getattr(self, f"_{self._draw(st.sampled_from(kinds))}")()
        self.values.append(made)

    def _add(self, op: Op, *operands: Value) -> Value:
        return self.graph.add(op, *operands)

    def _bounded(self, value: Value) -> Value:
        low = self._add(ops.Maximum(), value, self.graph.number(-4.0))
        return self._add(ops.Minimum(), low, self.graph.number(4.0))

    def _one(self) -> Value:
        op = self._draw(st.sampled_from(_ONE_OPERAND))
        if isinstance(op, ops.Cast):
            op = ops.Cast(self.dtype)
        return self._add(op, self._bounded(self._any()))

    def _two(self) -> Value:
        a = self._any()
        fitting = [
            v for v in self.values if self._last(v) in (1, self._last(a)) or self._last(a) == 1
        ]
        b = self._draw(st.sampled_from(fitting))
        op = self._draw(st.sampled_from(_TWO_OPERANDS))
        return self._bounded(self._add(op, *self._draw(st.permutations([a, b]))))

    def _number(self) -> Value:
        number = self.graph.number(self._draw(st.sampled_from([-1.5, 0.25, 2.0, 3.0])))
        op = self._draw(st.sampled_from(_TWO_OPERANDS))
        return self._add(op, *self._draw(st.permutations([self._bounded(self._any()), number])))

    def _param(self) -> Value:
        value = self._any(lines=True)
        shape = (self._last(value),)
        if self.groups > 1 and self._draw(st.booleans()):
            shape = (self.groups, *shape)
        op = self._draw(st.sampled_from(_TWO_OPERANDS))
        return self._add(op, self._bounded(value), self.graph.param(*shape))

    def _reduce(self) -> Value:
        axis = 2 if self.groups > 1 else 1
        kind = self._draw(st.sampled_from([ops.ReduceMax, ops.ReduceMean, ops.ReduceSum]))
        return self._add(kind((axis,)), self._any(lines=True))

    def _norm(self) -> Value:
        value = self._any(lines=True)
        return self._add(ops.RmsNorm(0.125), value, self.graph.param(self._last(value)))

    def _softmax(self) -> Value:
        return self._add(
            ops.Softmax(2 if self.groups > 1 else 1), self._bounded(self._any(lines=True))
        )

    def _cut(self) -> Value:
        value = self._any(lines=True)
        size = self._last(value)
        start = self._draw(st.integers(0, size - 2))
        stop = self._draw(st.integers(start + 2, size))
        axis = 2 if self.groups > 1 else 1
        return self._add(ops.Slice(axis, start, stop), value)

    def _rotary(self) -> Value:
        value = self._any(lines=True)
        size = self._last(value)
        if size % 2 or size < 4:
            return self._add(ops.Negate(), value)
        table = (1, size // 2) if self.groups > 1 else (size // 2,)
        cos, sin = (self.graph.input(*table) for _ in range(2))
        layout = (self._draw(st.booleans()), self._draw(st.booleans()))
        return self._add(ops.Rotary(*layout), self._bounded(value), cos, sin)


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """Return a graph with one to three outputs."""
    state = _Draw(draw)
    for _ in range(draw(st.integers(1, 8))):
        state.step()
    made = state.values[1:] if len(state.values) > 1 else state.values
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    return state.graph.build(state.values[-1], *outputs)
