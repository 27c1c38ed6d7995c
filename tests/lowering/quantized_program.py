"""Serving programs with int8 projections, written down as `compile(quant="w8a8")` inserts them."""

from ascendfx.ir import ops
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType

_TINY = 2.0**-100
_KEPT = ("mlp.gate.weight", "lm_head.weight", "self_attn.kv_b_proj.weight")


def quantized(program: Program) -> Program:
    """Return the program with codes for the weights and, per row, for what they multiply."""
    recipes = dict(program.recipes)
    graphs = [_Rewrite(program, graph, recipes).run() for graph in program.graphs]
    return Program(tuple(graphs), recipes).pruned()


class _Rewrite:
    """One graph copied with its projections replaced."""

    def __init__(self, program, graph, recipes):
        self.program, self.graph, self.recipes = program, graph, recipes
        self.builder = GraphBuilder(graph.name)
        self.moved = {}
        self.coded = {}
        self.groups = {}

    def run(self):
        for position, node in enumerate(self.graph.nodes):
            operands = [self.moved[value] for value in node.operands]
            if isinstance(node.op, ops.Linear | ops.GroupedLinear) and self._is_site(node):
                made = (self._projection(node, operands),)
            elif isinstance(node.op, ops.Param):
                made = (self.builder.leaf(node.op),)
            else:
                made = self.builder.add_multi(node.op, *operands)
            for i, value in enumerate(made):
                self.moved[Value(position, i)] = value
        return self.builder.build(*(self.moved[value] for value in self.graph.outputs))

    def _is_site(self, node):
        weight = self.graph.nodes[node.operands[1].node].op
        return isinstance(weight, ops.Param) and weight.name not in _KEPT

    def _projection(self, node, operands):
        x, w, *ends = operands
        b, name = self.builder, self.graph.nodes[node.operands[1].node].op.name
        kind = self.graph.type_of(node.operands[1])
        self._weight_recipes(name, kind)
        codes, scale = self._codes(x)
        w = b.add(ops.Param(f"{name}#codes", TensorType(DType.I8, kind.shape)))
        t = b.add(ops.Param(f"{name}#scale", TensorType(DType.F32, kind.shape[:-1])))
        if ends:
            if ends[0] not in self.groups:
                self.groups[ends[0]] = b.add(ops.RowGroups(b.type_of(x).shape[0]), *ends)
            t = b.add(ops.GatherRows(), t, self.groups[ends[0]])
        sums = b.add(ops.Cast(DType.F32), b.add(node.op, codes, w, *ends))
        y = b.add(ops.Multiply(), b.add(ops.Multiply(), sums, scale), t)
        return y if kind.dtype is DType.F32 else b.add(ops.Cast(kind.dtype), y)

    def _codes(self, x):
        """Return codes and scales of rows; of gathered rows, gathered."""
        if x not in self.coded:
            b = self.builder
            if isinstance(b.op_of(x), ops.GatherRows):
                rows, ids = b.operands_of(x)
                self.coded[x] = tuple(b.add(b.op_of(x), e, ids) for e in self._codes(rows))
            else:
                self.coded[x] = rounded_codes(self.builder, x)
        return self.coded[x]

    def _weight_recipes(self, name, kind):
        for suffix in ("codes", "scale"):
            b = GraphBuilder(f"{name}.{suffix}")
            made = rounded_codes(b, b.add(ops.Param(name, kind)))
            result = made[0]
            if suffix == "scale":
                result = b.add(ops.Reshape(kind.shape[:-1]), made[1])
            self.recipes[self.graph.name, f"{name}#{suffix}"] = b.build(result)


def rounded_codes(b, x):
    """Add codes and scales, ``x / scale`` rounded, scale ``max|x| / 127`` over the last axis."""
    kind = b.type_of(x)
    wide = x if kind.dtype is DType.F32 else b.add(ops.Cast(DType.F32), x)
    size = b.add(ops.Maximum(), wide, b.add(ops.Negate(), wide))
    largest = b.add(ops.ReduceMax((kind.rank - 1,), keep=True), size)
    floor = b.add(ops.Maximum(), largest, b.add(ops.Constant(_TINY, DType.F32)))
    scale = b.add(ops.Multiply(), floor, b.add(ops.Constant(1 / 127, DType.F32)))
    nearest = b.add(ops.Round(), b.add(ops.Divide(), wide, scale))
    nearest = b.add(ops.Minimum(), nearest, b.add(ops.Constant(127.0, DType.F32)))
    nearest = b.add(ops.Maximum(), nearest, b.add(ops.Constant(-127.0, DType.F32)))
    return b.add(ops.Cast(DType.I8), nearest), scale
