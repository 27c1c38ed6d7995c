"""Serving programs with projections of codes, written down as `compile(quant=...)` inserts them."""

from dataclasses import replace

from ascendfx.ir import ops
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType

_TINY = 2.0**-100
_KEPT = ("mlp.gate.weight", "lm_head.weight", "self_attn.kv_b_proj.weight")


def quantized(program: Program, four_bits: tuple[type, ...] = ()) -> Program:
    """Return the program with codes for the weights and, per row, for what they multiply.

    Args:
        program: Multiplies floats.
        four_bits: Which products are by weights of four bits; others are by eight.
    """
    recipes = dict(program.recipes)
    graphs = [_Rewrite(program, graph, recipes, four_bits).run() for graph in program.graphs]
    return Program(tuple(graphs), recipes).pruned()


class _Rewrite:
    """One graph copied with its projections replaced."""

    def __init__(self, program, graph, recipes, four_bits):
        self.program, self.graph, self.recipes = program, graph, recipes
        self.four_bits = four_bits
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
        pairs = isinstance(node.op, self.four_bits)
        self._weight_recipes(name, kind, pairs=pairs)
        codes, scale = self._codes(x, pairs=pairs)
        *outer, k = kind.shape
        stored = (
            TensorType(DType.I4X2, (*outer, k // 2)) if pairs else TensorType(DType.I8, kind.shape)
        )
        w = b.add(ops.Param(f"{name}#codes", stored))
        t = b.add(ops.Param(f"{name}#scale", TensorType(DType.F32, kind.shape[:-1])))
        if ends:
            if ends[0] not in self.groups:
                self.groups[ends[0]] = b.add(ops.RowGroups(b.type_of(x).shape[0]), *ends)
            t = b.add(ops.GatherRows(), t, self.groups[ends[0]])
        op = replace(node.op, pairs=True) if pairs else node.op
        total = b.add(op, codes, w, *ends)
        sums = joined(b, total) if pairs else b.add(ops.Cast(DType.F32), total)
        y = b.add(ops.Multiply(), b.add(ops.Multiply(), sums, scale), t)
        return y if kind.dtype is DType.F32 else b.add(ops.Cast(kind.dtype), y)

    def _codes(self, x, *, pairs):
        """Return codes and scales of rows; of gathered rows, gathered."""
        if (x, pairs) not in self.coded:
            b = self.builder
            if isinstance(b.op_of(x), ops.GatherRows):
                rows, ids = b.operands_of(x)
                made = self._codes(rows, pairs=pairs)
                self.coded[x, pairs] = tuple(b.add(b.op_of(x), e, ids) for e in made)
            elif pairs:
                self.coded[x, pairs] = rounded_codes(b, x, 119.0, ops.SplitCodes())
            else:
                self.coded[x, pairs] = rounded_codes(b, x)
        return self.coded[x, pairs]

    def _weight_recipes(self, name, kind, *, pairs):
        for suffix in ("codes", "scale"):
            b = GraphBuilder(f"{name}.{suffix}")
            how = (7.0, ops.PackCodes()) if pairs else ()
            made = rounded_codes(b, b.add(ops.Param(name, kind)), *how)
            result = made[0]
            if suffix == "scale":
                result = b.add(ops.Reshape(kind.shape[:-1]), made[1])
            self.recipes[self.graph.name, f"{name}#{suffix}"] = b.build(result)


def joined(b, total):
    """Add ``16 high + low`` of the sums of both digits, ``[rows, 2, n]``."""
    rows, _, n = b.type_of(total).shape
    high, low = (
        b.add(
            ops.Cast(DType.F32), b.add(ops.Reshape((rows, n)), b.add(ops.Slice(1, i, i + 1), total))
        )
        for i in (0, 1)
    )
    return b.add(ops.Add(), b.add(ops.Multiply(), high, b.add(ops.Constant(16.0, DType.F32))), low)


def rounded_codes(b, x, top=127.0, store=ops.Cast(DType.I8)):  # noqa: B008  # immutable
    """Add codes and scales, ``x / scale`` rounded, scale ``max|x| / top`` over the last axis."""
    kind = b.type_of(x)
    wide = x if kind.dtype is DType.F32 else b.add(ops.Cast(DType.F32), x)
    size = b.add(ops.Maximum(), wide, b.add(ops.Negate(), wide))
    largest = b.add(ops.ReduceMax((kind.rank - 1,), keep=True), size)
    floor = b.add(ops.Maximum(), largest, b.add(ops.Constant(_TINY, DType.F32)))
    scale = b.add(ops.Multiply(), floor, b.add(ops.Constant(1 / top, DType.F32)))
    nearest = b.add(ops.Round(), b.add(ops.Divide(), wide, scale))
    nearest = b.add(ops.Minimum(), nearest, b.add(ops.Constant(top, DType.F32)))
    nearest = b.add(ops.Maximum(), nearest, b.add(ops.Constant(-top, DType.F32)))
    return b.add(store, nearest), scale
