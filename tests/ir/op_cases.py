"""For every operation: operand types it takes, and operand types it must refuse."""

from ascendfx.ir import ops
from ascendfx.ir.location import UNKNOWN
from ascendfx.ir.op import Op
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.text.literal import read_types

_UNARY = (
    ops.Exp,
    ops.Log,
    ops.Sqrt,
    ops.Rsqrt,
    ops.Reciprocal,
    ops.Sigmoid,
    ops.Silu,
    ops.Cos,
    ops.Sin,
)
_BINARY = (ops.Add, ops.Subtract, ops.Multiply, ops.Divide, ops.Power, ops.Maximum, ops.Minimum)
_COMPARE = (ops.Equal, ops.NotEqual, ops.Less, ops.LessEqual, ops.Greater, ops.GreaterEqual)
_REDUCE = (ops.ReduceSum, ops.ReduceMean, ops.ReduceMax)

_MOVED = "f32[5, 4, 3], i32[3, 5], i32[3, 16], i32[3, 2]"
_RAGGED = "f32[3, 4, 5], f32[1, 6, 2, 5], f32[1, 6, 2, 6]"
_ADVANCED = (
    "i32[9], i32[9], i32[9], i32[3, 5], i32[3, 16], i32[3, 8], i32[3], i32[3], i32[4, 3, 4], "
    "i32[16], i32[6, 7], f32[3, 16]"
)
_CHOICE = "f32[3, 16], i32[3, 16], i32[3, 8]"
_CHOSEN = f"f32[5, 7], {_CHOICE}, i32[5], i32[5], i32[6, 7]"
_COUPLED = f"f32[9, 7], {_CHOICE}, i32[9], i32[9], i32[6, 7], i32[9], i32[3, 2, 4], f32[3, 2, 4]"
_ALIGNED = "i32[12], i32[3, 5], i32[3, 16], i32[3], i32[3], i32[3, 8], i32[3, 4]"
_UNPATHED = "i32[9], i32[3, 5], i32[3, 16], i32[3], i32[3], i32[3, 8]"
_PACKED = "i32[9], i32[9], i32[9], i32[3, 16], i32[8]"
_BRANCHED = "bf16[3, 7], i32[3, 16], i32[3, 8], i32[3]"
_DRAFTED = f"bf16[3, 7], {_CHOICE}, i32[3], i32[3, 2, 4], f32[3, 2, 4]"

Case = tuple[Op, str]
"""An operation and its operand types in the text form."""

GOOD: tuple[Case, ...] = (
    (ops.Input("x", TensorType(DType.F32, (2,))), ""),
    (ops.Param("w", TensorType(DType.F32, (2,))), ""),
    (ops.Constant(0.5, DType.F32), ""),
    (ops.Constant(3, DType.I64), ""),
    (ops.Iota(4, DType.I64, start=1, step=2), ""),
    *((kind(), "f32[2, 3]") for kind in _UNARY),
    (ops.Negate(), "i64[2, 3]"),
    (ops.Relu(), "f32[2, 3]"),
    (ops.LogicalNot(), "bool[2]"),
    *((kind(), "f32[2, 1, 3], f32[4, 3]") for kind in _BINARY),
    (ops.Divide(), "i64[4], i64[4]"),
    *((kind(), "i64[2, 1], i64[3]") for kind in _COMPARE),
    (ops.LogicalAnd(), "bool[2, 1], bool[3]"),
    (ops.LogicalOr(), "bool[2, 1], bool[3]"),
    (ops.Cast(DType.I64), "f32[2, 3]"),
    (ops.Cast(DType.BOOL), "i64[2, 3]"),
    (ops.Select(), "bool[3], f32[2, 3], f32[]"),
    *((kind((0, 2)), "f32[2, 3, 4]") for kind in _REDUCE),
    *((kind((1,), keep=False), "f32[2, 3, 4]") for kind in _REDUCE),
    (ops.Softmax(1), "f32[2, 3, 4]"),
    (ops.Reshape((3, 4)), "f32[2, 6]"),
    (ops.Transpose((2, 0, 1)), "f32[2, 3, 4]"),
    (ops.Expand((5, 2, 3)), "f32[2, 1]"),
    (ops.Slice(1, 1, 6, 2), "f32[2, 7]"),
    (ops.Concat(1), "f32[2, 3], f32[2, 1], f32[2, 4]"),
    (ops.Linear(), "f32[2, 3, 4], f32[5, 4]"),
    (ops.HeadLinear(), "f32[2, 3, 4], f32[3, 5, 4]"),
    (ops.HeadLinear(), "f32[2, 1, 4], f32[3, 5, 4]"),
    (ops.Matmul(), "f32[2, 1, 3, 4], f32[5, 4, 6]"),
    (ops.GatherRows(), "f32[5, 2], i64[3, 4]"),
    (ops.TakeAlong(1), "f32[3, 5], i64[2, 4]"),
    (ops.ScatterAlong(1), "f32[3, 5], i64[3, 1], f32[3, 1]"),
    (ops.ScatterAlong(1), "f32[3, 5], i64[3, 1], f32[]"),
    (ops.ScatterRows(), "f32[5, 2], i64[1], f32[1, 2]"),
    (ops.Topk(2), "f32[3, 5]"),
    (ops.Sort(0, descending=True), "f32[3, 5]"),
    (ops.CumulativeSum(1), "f32[3, 5]"),
    (ops.Histogram(4), "i64[9]"),
    (ops.GroupedLinear(), "f32[6, 4], f32[2, 3, 4], i32[2]"),
    (ops.Swiglu(), "f32[2, 3], f32[2, 3]"),
    (ops.RmsNorm(1e-6), "f32[2, 3], f32[3]"),
    (
        ops.Rotary(interleaved_in=True, interleaved_out=False),
        "f32[2, 3, 4], f32[2, 1, 2], f32[2, 1, 2]",
    ),
    (ops.Rotary(interleaved_in=False, interleaved_out=True), "f32[2, 4], f32[2, 2], f32[2, 2]"),
    (ops.Attention(1, 0.5, causal=True), "f32[2, 3, 4, 5], f32[2, 3, 2, 5], f32[2, 3, 1, 6]"),
    (
        ops.Attention(2, 0.5, masked=True),
        "f32[1, 3, 4, 5], f32[1, 3, 4, 2], f32[1, 3, 2, 5], f32[1, 3, 1, 2], f32[1, 3, 4, 6], "
        "f32[1, 1, 3, 3]",
    ),
    (
        ops.RaggedAttention(1, 0.5),
        "f32[3, 4, 5], f32[1, 3, 2, 5], f32[1, 3, 2, 6], i32[3], i32[3]",
    ),
    (ops.RaggedAttention(1, 0.5, tree=True), f"{_RAGGED}, i32[3], i32[3], i32[3]"),
    (ops.CacheWrite(), "f32[2, 4, 3], i32[1], f32[1, 3]"),
    (ops.CacheRead(6), "f32[2, 4, 3], i32[5, 2]"),
    (
        ops.RouteTopk(
            2,
            "sigmoid",
            biased=True,
            groups=2,
            topk_groups=1,
            group_score="top2_sum",
            masked_value=float("-inf"),
            normalize=True,
            scale=2.5,
        ),
        "f32[3, 8], f32[8]",
    ),
    (ops.RouteTopk(3, "softmax", groups=4, topk_groups=2), "f32[3, 8]"),
    (ops.DispatchExperts(4), "i64[3, 2]"),
    (ops.CombineExperts(), "f32[6, 5], i32[6], f32[3, 2]"),
    (ops.Argmax(), "f32[3, 5]"),
    (ops.AlignDrafts(2), _UNPATHED),
    (ops.AlignDrafts(2, 128, packed=9), f"{_UNPATHED}, i32[3]"),
    (ops.AlignDrafts(2, 128, 4), _ALIGNED),
    (ops.BranchDrafts(0, 3), _BRANCHED),
    (ops.BranchDrafts(2, 1), _BRANCHED),
    (ops.SampleTokens(), _CHOSEN),
    (ops.SampleTokens(2), _COUPLED),
    (ops.SampleDrafts(), _DRAFTED),
    (ops.SampleDrafts(1), _DRAFTED),
    (ops.VerifyDrafts(2), "i32[9], i32[9], i32[3, 16]"),
    (ops.VerifyDrafts(0), "i32[3], i32[3], i32[3, 16]"),
    (ops.VerifyDrafts(2, packed=True), "i32[9], i32[9], i32[3, 16], i32[3]"),
    (ops.PackRows(2, 9), _PACKED),
    (ops.PackRows(2, 9, 8), _PACKED),
    (ops.VerifyTree((-1, 0, 0)), "i32[9], i32[9], i32[3, 16]"),
    (ops.MoveEntries(2), "f32[5, 4, 3], i32[3, 2], i32[3, 16], i32[3, 2]"),
    (ops.MoveEntries(2, 2), "f32[5, 4, 3], f32[5, 4, 2], i32[3, 2], i32[3, 16], i32[3, 2]"),
    (ops.MoveEntries(1), "bf16[5, 4, 2, 3], i32[1, 2], i32[1, 16], i32[1, 1]"),
    (ops.ShiftTokens(1), "i32[9], i32[3], i32[9], i32[3]"),
    (ops.ShiftTokens(1, known=True), "i32[7], i32[3], i32[7], i32[3], i32[3, 2]"),
    (ops.AdvanceRequests(2, 4), f"{_ADVANCED}, i32[3], i32[3]"),
    (ops.AdvanceRequests(2), _ADVANCED),
    (ops.AdvanceRequests(2, 4, (-1, 0, 0)), f"{_ADVANCED}, i32[3, 3]"),
    (ops.AdvanceRequests(2, 4, (-1, 0, 0)), f"{_ADVANCED}, i32[3, 3], i32[3], i32[3]"),
)

BAD: tuple[Case, ...] = (
    (ops.Exp(), "i64[2]"),
    (ops.Add(), "f32[2], bf16[2]"),
    (ops.Add(), "f32[2], f32[3]"),
    (ops.Less(), "f32[2], i64[2]"),
    (ops.Select(), "f32[3], f32[3], f32[3]"),
    (ops.Select(), "bool[2], f32[3], f32[3]"),
    (ops.ReduceSum((2,)), "f32[2, 3]"),
    (ops.ReduceSum((1, 0)), "f32[2, 3]"),
    (ops.ReduceSum(()), "f32[2, 3]"),
    (ops.Softmax(2), "f32[2, 3]"),
    (ops.Reshape((5,)), "f32[2, 3]"),
    (ops.Transpose((0, 0)), "f32[2, 3]"),
    (ops.Expand((2, 4)), "f32[2, 3]"),
    (ops.Expand((3,)), "f32[1, 3]"),
    (ops.Slice(0, 1, 4), "f32[3]"),
    (ops.Slice(0, 2, 1), "f32[3]"),
    (ops.Slice(1, 0, 1), "f32[3]"),
    (ops.Concat(1), "f32[2, 3], f32[3, 3]"),
    (ops.Concat(0), "f32[2], bf16[2]"),
    (ops.Linear(), "f32[2, 3], f32[3, 4]"),
    (ops.Linear(), "f32[2, 3], bf16[4, 3]"),
    (ops.HeadLinear(), "f32[2, 2, 4], f32[3, 5, 4]"),
    (ops.Matmul(), "f32[2, 3], f32[4, 5]"),
    (ops.Matmul(), "f32[3], f32[3, 5]"),
    (ops.Matmul(), "f32[2, 2, 3], f32[3, 3, 5]"),
    (ops.GatherRows(), "f32[5, 2], f32[3]"),
    (ops.TakeAlong(2), "f32[3, 5], i64[3, 5]"),
    (ops.TakeAlong(0), "f32[3, 5], i64[3]"),
    (ops.ScatterAlong(1), "f32[3, 5], i64[3, 2], f32[3, 1]"),
    (ops.ScatterRows(), "f32[5, 2], i64[2], f32[2, 3]"),
    (ops.Topk(6), "f32[3, 5]"),
    (ops.Sort(2), "f32[3, 5]"),
    (ops.CumulativeSum(2), "f32[3, 5]"),
    (ops.Histogram(4), "i64[9, 1]"),
    (ops.GroupedLinear(), "f32[6, 4], f32[2, 3, 4], i32[3]"),
    (ops.GroupedLinear(), "f32[6, 3], f32[2, 3, 4], i32[2]"),
    (ops.Swiglu(), "f32[2, 3], f32[2, 1]"),
    (ops.RmsNorm(1e-6), "f32[2, 3], f32[2]"),
    (ops.Rotary(interleaved_in=True, interleaved_out=False), "f32[2, 4], f32[2, 4], f32[2, 4]"),
    (ops.Rotary(interleaved_in=True, interleaved_out=False), "f32[2, 4], f32[3, 2], f32[3, 2]"),
    (ops.Attention(1, 0.5), "f32[2, 3, 4, 5], f32[2, 3, 3, 5], f32[2, 3, 1, 6]"),
    (ops.Attention(1, 0.5), "f32[2, 3, 4, 5], f32[2, 3, 4, 6], f32[2, 3, 4, 6]"),
    (ops.Attention(1, 0.5, masked=True), "f32[2, 3, 4, 5], f32[2, 3, 4, 5], f32[2, 3, 4, 6]"),
    (ops.RaggedAttention(1, 0.5), "f32[3, 4, 5], f32[1, 3, 2, 5], f32[1, 3, 2, 6], i64[3], i32[3]"),
    (ops.RaggedAttention(1, 0.5), f"{_RAGGED}, i32[3], i32[3], i32[3]"),
    (ops.RaggedAttention(1, 0.5, tree=True), f"{_RAGGED}, i32[3], i32[3]"),
    (ops.RaggedAttention(1, 0.5, tree=True), f"{_RAGGED}, i32[3], i32[3], i32[4]"),
    (ops.RaggedAttention(1, 0.5, tree=True), f"{_RAGGED}, i32[3], i32[3], i64[3]"),
    (ops.CacheWrite(), "f32[2, 4, 3], i64[1], f32[1, 3]"),
    (ops.CacheWrite(), "f32[2, 4, 3], i32[1], f32[1, 4]"),
    (ops.CacheRead(6), "f32[2, 4, 3], i32[5]"),
    (ops.RouteTopk(2, "tanh"), "f32[3, 8]"),
    (ops.RouteTopk(2, "softmax", groups=3), "f32[3, 8]"),
    (ops.RouteTopk(2, "sigmoid", biased=True), "f32[3, 8], f32[7]"),
    (ops.DispatchExperts(4), "i64[3]"),
    (ops.CombineExperts(), "f32[6, 5], i32[5], f32[3, 2]"),
    (ops.Argmax(), "f32[]"),
    (ops.AlignDrafts(0), "i32[3], i32[3, 5], i32[3, 16], i32[3], i32[3], i32[3, 8]"),
    (ops.AlignDrafts(2), "i32[8], i32[3, 5], i32[3, 16], i32[3], i32[3], i32[3, 8]"),
    (ops.AlignDrafts(2), "i32[9], i32[3, 5], i32[3, 16], i32[3], i32[3], i32[3, 7]"),
    (ops.AlignDrafts(2), _ALIGNED),
    (ops.AlignDrafts(2, 128, packed=9), _UNPATHED),
    (ops.AlignDrafts(2, 128, packed=9), f"{_UNPATHED}, i32[4]"),
    (ops.AlignDrafts(2, 128, packed=8), f"{_UNPATHED}, i32[3]"),
    (ops.AlignDrafts(2, 128, 4, 12), f"{_ALIGNED}, i32[3]"),
    (ops.PackRows(1, 9), _PACKED),
    (ops.PackRows(2, 8), _PACKED),
    (ops.PackRows(2, 9, -1), _PACKED),
    (ops.PackRows(2, 9), _PACKED.replace("i32[8]", "i32[7]")),
    (ops.PackRows(2, 9), _PACKED.replace("[3, 16]", "[3, 15]")),
    (ops.PackRows(2, 9), "i32[9], i32[9], i64[9], i32[3, 16], i32[8]"),
    (ops.VerifyDrafts(2, packed=True), "i32[9], i32[9], i32[3, 16]"),
    (ops.VerifyDrafts(2, packed=True), "i32[9], i32[9], i32[3, 16], i32[9]"),
    (ops.VerifyDrafts(2), "i32[9], i32[9], i32[3, 16], i32[3]"),
    (ops.AlignDrafts(4, 128, 4), _ALIGNED),
    (ops.AlignDrafts(2, 128, 3), _ALIGNED),
    (ops.AlignDrafts(2, 128, 4), _ALIGNED.removesuffix(", i32[3, 4]")),
    (ops.AlignDrafts(2, 128, 4), _ALIGNED.replace("i32[3, 4]", "i64[3, 4]")),
    (ops.BranchDrafts(-1, 2), _BRANCHED),
    (ops.BranchDrafts(0, 0), _BRANCHED),
    (ops.BranchDrafts(0, 16), _BRANCHED),
    *(
        (ops.BranchDrafts(0, 2), _BRANCHED.replace(right, wrong, 1))
        for right, wrong in (
            ("bf16[3, 7]", "i32[3, 7]"),
            ("bf16[3, 7]", "bf16[3]"),
            ("bf16[3, 7]", "bf16[4, 7]"),
            ("i32[3, 16]", "i32[3, 15]"),
            ("i32[3, 8]", "i32[3, 7]"),
            ("i32[3, 8], i32[3]", "i32[3, 8], i64[3]"),
        )
    ),
    (ops.SampleTokens(-1), _CHOSEN),
    (ops.SampleTokens(2), _CHOSEN),
    (ops.SampleTokens(), _COUPLED),
    (ops.SampleTokens(1), _COUPLED),
    *(
        (ops.SampleTokens(), _CHOSEN.replace(right, wrong, 1))
        for right, wrong in (
            ("f32[5, 7]", "i32[5, 7]"),
            ("f32[5, 7]", "f32[5, 8]"),
            ("f32[3, 16]", "f32[3, 15]"),
            ("f32[3, 16]", "i32[3, 16]"),
            ("i32[3, 16]", "i32[3, 15]"),
            ("i32[3, 8]", "i32[3, 7]"),
            ("i32[5], i32[5]", "i32[5], i32[4]"),
            ("i32[5], i32[5]", "i32[4], i32[5]"),
            ("i32[6, 7]", "i64[6, 7]"),
            ("i32[6, 7]", "i32[7]"),
        )
    ),
    *(
        (ops.SampleTokens(2), _COUPLED.replace(right, wrong, 1))
        for right, wrong in (
            ("i32[6, 7], i32[9]", "i32[6, 7], i64[9]"),
            ("i32[3, 2, 4]", "i64[3, 2, 4]"),
            ("i32[3, 2, 4]", "i32[3, 2, 5]"),
            ("f32[3, 2, 4]", "bf16[3, 2, 4]"),
            ("i32[3, 2, 4], f32[3, 2, 4]", "i32[3, 1, 4], f32[3, 1, 4]"),
            ("i32[3, 2, 4], f32[3, 2, 4]", "i32[2, 2, 4], f32[2, 2, 4]"),
            ("i32[3, 2, 4], f32[3, 2, 4]", "i32[3, 2], f32[3, 2]"),
        )
    ),
    (ops.SampleDrafts(-1), _DRAFTED),
    (ops.SampleDrafts(2), _DRAFTED),
    *(
        (ops.SampleDrafts(), _DRAFTED.replace(right, wrong, 1))
        for right, wrong in (
            ("bf16[3, 7]", "bf16[4, 7]"),
            ("bf16[3, 7]", "i32[3, 7]"),
            ("f32[3, 16]", "f32[3, 17]"),
            ("i32[3], ", "i32[4], "),
            ("i32[3], ", "i64[3], "),
            ("i32[3, 2, 4], f32[3, 2, 4]", "i32[4, 2, 4], f32[4, 2, 4]"),
            ("i32[3, 2, 4]", "f32[3, 2, 4]"),
            ("f32[3, 2, 4]", "f32[3, 2, 3]"),
        )
    ),
    (ops.VerifyDrafts(2), "i32[9], i32[9], i32[3, 15]"),
    (ops.VerifyDrafts(2), "i32[8], i32[8], i32[3, 16]"),
    (ops.VerifyDrafts(2), "i32[9], i32[8], i32[3, 16]"),
    (ops.VerifyDrafts(2), "i64[9], i64[9], i32[3, 16]"),
    (ops.VerifyDrafts(-1), "i32[0], i32[0], i32[3, 16]"),
    (ops.VerifyTree((-1, 0, 0)), "i32[9], i32[9], i32[3, 15]"),
    (ops.VerifyTree((-1, 0, 0)), "i32[8], i32[8], i32[3, 16]"),
    (ops.VerifyTree((-1, 0, 0)), "i32[9], i64[9], i32[3, 16]"),
    (ops.VerifyTree((-1, 0, 2)), "i32[9], i32[9], i32[3, 16]"),
    (ops.VerifyTree((-1, 0, -1)), "i32[9], i32[9], i32[3, 16]"),
    (ops.VerifyTree((0, 0, 0)), "i32[9], i32[9], i32[3, 16]"),
    (ops.VerifyTree(()), "i32[0], i32[0], i32[3, 16]"),
    (ops.VerifyTree((-1,) + (0,) * 16), "i32[51], i32[51], i32[3, 16]"),
    *(
        (ops.MoveEntries(2), _MOVED.replace(right, wrong, 1))
        for right, wrong in (
            ("f32[5, 4, 3]", "f32[5]"),
            ("i32[3, 5]", "i32[2, 5]"),
            ("i32[3, 5]", "i64[3, 5]"),
            ("i32[3, 16]", "i32[3, 8]"),
            ("i32[3, 2]", "i32[3, 3]"),
            ("i32[3, 2]", "i64[3, 2]"),
        )
    ),
    (ops.MoveEntries(2, 2), _MOVED),
    (ops.MoveEntries(2, 0), _MOVED.removeprefix("f32[5, 4, 3], ")),
    (ops.MoveEntries(2, 2), f"f32[5, 3, 3], {_MOVED}"),
    (ops.MoveEntries(2, 2), f"bf16[5, 4, 3], {_MOVED}"),
    (ops.MoveEntries(0), _MOVED.replace("i32[3, 2]", "i32[3, 0]")),
    (ops.ShiftTokens(0), "i32[9], i32[3], i32[9]"),
    (ops.ShiftTokens(0, known=True), "i32[9], i32[3], i32[9], i32[3]"),
    (ops.ShiftTokens(0), "i32[9], i32[3], i32[8], i32[3]"),
    (ops.ShiftTokens(0), "i32[9], i32[3], i32[9], i32[2]"),
    (ops.ShiftTokens(0), "i64[9], i32[3], i64[9], i32[3]"),
    (ops.ShiftTokens(2, known=True), "i32[9], i32[3], i32[9], i32[3], i32[3, 2]"),
    (ops.ShiftTokens(-1, known=True), "i32[9], i32[3], i32[9], i32[3], i32[3, 2]"),
    (ops.ShiftTokens(0, known=True), "i32[9], i32[3], i32[9], i32[3], i32[2, 2]"),
    (ops.AdvanceRequests(2), f"{_ADVANCED}, i32[3]"),
    (ops.AdvanceRequests(1), _ADVANCED),
    (ops.AdvanceRequests(2, 0), _ADVANCED),
    (ops.AdvanceRequests(2, 4, (-1, 0)), f"{_ADVANCED}, i32[3, 3]"),
    (ops.AdvanceRequests(2, 4, (-1, 0, 0)), _ADVANCED),
    (ops.AdvanceRequests(2, 4, (-1, 0, 0)), f"{_ADVANCED}, i32[3, 4]"),
    (ops.AdvanceRequests(2, 4, (-1, 0, 0)), f"{_ADVANCED}, i64[3, 3]"),
    (ops.AdvanceRequests(2), f"{_ADVANCED}, i32[3], i32[4]"),
    *(
        (ops.AdvanceRequests(2), _ADVANCED.replace(right, wrong, 1))
        for right, wrong in (
            ("i32[9], i32[9]", "i32[9], i32[8]"),
            ("i32[3, 5]", "i32[4, 5]"),
            ("i32[3, 5]", "i32[]"),
            ("i32[3, 16]", "i32[3, 17]"),
            ("i32[3, 8]", "i32[3, 7]"),
            ("i32[3], i32[3]", "i32[3], i64[3]"),
            ("i32[4, 3, 4]", "i32[4, 3, 3]"),
            ("i32[4, 3, 4]", "i32[3, 4]"),
            ("i32[16]", "i32[1]"),
            ("i32[6, 7]", "f32[6, 7]"),
            ("i32[6, 7]", "i32[6]"),
            ("f32[3, 16]", "i32[3, 16]"),
            ("f32[3, 16]", "f32[3, 8]"),
        )
    ),
)


def operand_types(text: str) -> tuple[TensorType, ...]:
    return read_types(text, UNKNOWN)
