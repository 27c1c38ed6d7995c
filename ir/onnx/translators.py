"""Which ONNX nodes stand for which operation."""

from collections.abc import Mapping
from dataclasses import dataclass

from ascendfx.ir import ops
from ascendfx.ir.onnx import (
    attention,
    code_pairs,
    device_only,
    elementwise,
    experts,
    indexing,
    movement,
    normalisation,
    ordering,
    projection,
    reduction,
)
from ascendfx.ir.onnx.body import Translator
from ascendfx.ir.onnx.elementwise import arithmetic, comparison, logic
from ascendfx.ir.onnx.reduction import reduction as reduce
from ascendfx.ir.op import Op


@dataclass(frozen=True, slots=True)
class Translation:
    """How an operation is written.

    Attributes:
        translate: Writes the nodes.
        function: Whether the nodes become a function of the model, which is called by name.
    """

    translate: Translator
    function: bool = False


LEAVES: tuple[type[Op], ...] = (ops.Call, ops.Input, ops.Param)
"""Operations without nodes of their own: the graph around them binds names."""

TRANSLATIONS: Mapping[type[Op], Translation] = {
    ops.Add: Translation(arithmetic("Add")),
    ops.AdvanceRequests: Translation(device_only.device_only),
    ops.AlignDrafts: Translation(device_only.device_only),
    ops.Argmax: Translation(ordering.argmax),
    ops.Attention: Translation(attention.attention, function=True),
    ops.BranchDrafts: Translation(device_only.device_only),
    ops.CacheRead: Translation(indexing.cache_read, function=True),
    ops.CacheWrite: Translation(indexing.cache_write, function=True),
    ops.Cast: Translation(elementwise.cast),
    ops.CombineExperts: Translation(experts.combine_experts, function=True),
    ops.Concat: Translation(movement.concat),
    ops.Constant: Translation(movement.constant),
    ops.Cos: Translation(arithmetic("Cos")),
    ops.CumulativeSum: Translation(reduction.cumulative_sum),
    ops.DispatchExperts: Translation(experts.dispatch_experts, function=True),
    ops.Divide: Translation(elementwise.divide),
    ops.Equal: Translation(comparison("Equal")),
    ops.Exp: Translation(arithmetic("Exp")),
    ops.Expand: Translation(movement.expand),
    ops.GatherRows: Translation(indexing.gather_rows),
    ops.Greater: Translation(comparison("Greater")),
    ops.GreaterEqual: Translation(comparison("GreaterOrEqual")),
    ops.GroupedLinear: Translation(projection.grouped_linear, function=True),
    ops.HeadLinear: Translation(projection.head_linear, function=True),
    ops.Histogram: Translation(reduction.histogram),
    ops.Iota: Translation(movement.iota),
    ops.Less: Translation(comparison("Less")),
    ops.LessEqual: Translation(comparison("LessOrEqual")),
    ops.Linear: Translation(projection.linear),
    ops.Log: Translation(arithmetic("Log")),
    ops.LogicalAnd: Translation(logic("And")),
    ops.LogicalNot: Translation(logic("Not")),
    ops.LogicalOr: Translation(logic("Or")),
    ops.Matmul: Translation(projection.matmul),
    ops.Maximum: Translation(arithmetic("Max")),
    ops.Minimum: Translation(arithmetic("Min")),
    ops.MoveEntries: Translation(device_only.device_only),
    ops.Multiply: Translation(arithmetic("Mul")),
    ops.Negate: Translation(arithmetic("Neg")),
    ops.NotEqual: Translation(comparison("Equal", negated=True)),
    ops.PackCodes: Translation(code_pairs.pack_codes),
    ops.PackRows: Translation(device_only.device_only),
    ops.Power: Translation(arithmetic("Pow")),
    ops.RaggedAttention: Translation(attention.ragged_attention, function=True),
    ops.Reciprocal: Translation(arithmetic("Reciprocal")),
    ops.ReduceMax: Translation(reduce("ReduceMax")),
    ops.ReduceMean: Translation(reduce("ReduceMean")),
    ops.ReduceSum: Translation(reduce("ReduceSum")),
    ops.Relu: Translation(elementwise.relu),
    ops.Reshape: Translation(movement.reshape),
    ops.RmsNorm: Translation(normalisation.rms_norm, function=True),
    ops.Rotary: Translation(normalisation.rotary, function=True),
    ops.Round: Translation(arithmetic("Round")),
    ops.RouteTopk: Translation(experts.route_topk, function=True),
    ops.RowGroups: Translation(experts.row_groups, function=True),
    ops.Rsqrt: Translation(elementwise.rsqrt),
    ops.SampleDrafts: Translation(device_only.device_only),
    ops.SampleTokens: Translation(device_only.device_only),
    ops.ScatterAlong: Translation(indexing.scatter_along),
    ops.ScatterRows: Translation(indexing.scatter_rows),
    ops.Select: Translation(elementwise.select),
    ops.ShiftTokens: Translation(device_only.device_only),
    ops.Sigmoid: Translation(arithmetic("Sigmoid")),
    ops.Silu: Translation(elementwise.silu),
    ops.Sin: Translation(arithmetic("Sin")),
    ops.Slice: Translation(movement.slice_),
    ops.Softmax: Translation(reduction.softmax),
    ops.Sort: Translation(ordering.sort),
    ops.SplitCodes: Translation(code_pairs.split_codes, function=True),
    ops.Sqrt: Translation(arithmetic("Sqrt")),
    ops.Subtract: Translation(arithmetic("Sub")),
    ops.Swiglu: Translation(elementwise.swiglu, function=True),
    ops.TakeAlong: Translation(indexing.take_along),
    ops.Topk: Translation(ordering.topk),
    ops.Transpose: Translation(movement.transpose),
    ops.VerifyDrafts: Translation(device_only.device_only),
    ops.VerifyTree: Translation(device_only.device_only),
}
"""Every operation but the leaves, in the order of `OPS`."""
