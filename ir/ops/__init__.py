"""Every operation of the graph, one per file."""

from ascendfx.ir.op import Op
from ascendfx.ir.ops.add import Add
from ascendfx.ir.ops.advance_requests import AdvanceRequests
from ascendfx.ir.ops.align_drafts import AlignDrafts
from ascendfx.ir.ops.argmax import Argmax
from ascendfx.ir.ops.attention import Attention
from ascendfx.ir.ops.branch_drafts import BranchDrafts
from ascendfx.ir.ops.cache_read import CacheRead
from ascendfx.ir.ops.cache_write import CacheWrite
from ascendfx.ir.ops.call import Call
from ascendfx.ir.ops.cast import Cast
from ascendfx.ir.ops.combine_experts import CombineExperts
from ascendfx.ir.ops.concat import Concat
from ascendfx.ir.ops.constant import Constant
from ascendfx.ir.ops.cos import Cos
from ascendfx.ir.ops.cumulative_sum import CumulativeSum
from ascendfx.ir.ops.dispatch_experts import DispatchExperts
from ascendfx.ir.ops.divide import Divide
from ascendfx.ir.ops.equal import Equal
from ascendfx.ir.ops.exp import Exp
from ascendfx.ir.ops.expand import Expand
from ascendfx.ir.ops.gather_rows import GatherRows
from ascendfx.ir.ops.greater import Greater
from ascendfx.ir.ops.greater_equal import GreaterEqual
from ascendfx.ir.ops.grouped_linear import GroupedLinear
from ascendfx.ir.ops.head_linear import HeadLinear
from ascendfx.ir.ops.histogram import Histogram
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.iota import Iota
from ascendfx.ir.ops.less import Less
from ascendfx.ir.ops.less_equal import LessEqual
from ascendfx.ir.ops.linear import Linear
from ascendfx.ir.ops.log import Log
from ascendfx.ir.ops.logical_and import LogicalAnd
from ascendfx.ir.ops.logical_not import LogicalNot
from ascendfx.ir.ops.logical_or import LogicalOr
from ascendfx.ir.ops.matmul import Matmul
from ascendfx.ir.ops.maximum import Maximum
from ascendfx.ir.ops.minimum import Minimum
from ascendfx.ir.ops.move_entries import MoveEntries
from ascendfx.ir.ops.multiply import Multiply
from ascendfx.ir.ops.negate import Negate
from ascendfx.ir.ops.not_equal import NotEqual
from ascendfx.ir.ops.pack_codes import PackCodes
from ascendfx.ir.ops.pack_rows import PackRows
from ascendfx.ir.ops.param import Param
from ascendfx.ir.ops.power import Power
from ascendfx.ir.ops.ragged_attention import RaggedAttention
from ascendfx.ir.ops.reciprocal import Reciprocal
from ascendfx.ir.ops.reduce_max import ReduceMax
from ascendfx.ir.ops.reduce_mean import ReduceMean
from ascendfx.ir.ops.reduce_sum import ReduceSum
from ascendfx.ir.ops.relu import Relu
from ascendfx.ir.ops.reshape import Reshape
from ascendfx.ir.ops.rms_norm import RmsNorm
from ascendfx.ir.ops.rotary import Rotary
from ascendfx.ir.ops.round import Round
from ascendfx.ir.ops.route_topk import RouteTopk
from ascendfx.ir.ops.row_groups import RowGroups
from ascendfx.ir.ops.rsqrt import Rsqrt
from ascendfx.ir.ops.sample_drafts import SampleDrafts
from ascendfx.ir.ops.sample_tokens import SampleTokens
from ascendfx.ir.ops.scatter_along import ScatterAlong
from ascendfx.ir.ops.scatter_rows import ScatterRows
from ascendfx.ir.ops.select import Select
from ascendfx.ir.ops.shift_tokens import ShiftTokens
from ascendfx.ir.ops.sigmoid import Sigmoid
from ascendfx.ir.ops.silu import Silu
from ascendfx.ir.ops.sin import Sin
from ascendfx.ir.ops.slice import Slice
from ascendfx.ir.ops.softmax import Softmax
from ascendfx.ir.ops.sort import Sort
from ascendfx.ir.ops.split_codes import SplitCodes
from ascendfx.ir.ops.sqrt import Sqrt
from ascendfx.ir.ops.subtract import Subtract
from ascendfx.ir.ops.swiglu import Swiglu
from ascendfx.ir.ops.take_along import TakeAlong
from ascendfx.ir.ops.topk import Topk
from ascendfx.ir.ops.transpose import Transpose
from ascendfx.ir.ops.verify_drafts import VerifyDrafts
from ascendfx.ir.ops.verify_tree import VerifyTree

__all__ = [
    "OPS",
    "Add",
    "AdvanceRequests",
    "AlignDrafts",
    "Argmax",
    "Attention",
    "BranchDrafts",
    "CacheRead",
    "CacheWrite",
    "Call",
    "Cast",
    "CombineExperts",
    "Concat",
    "Constant",
    "Cos",
    "CumulativeSum",
    "DispatchExperts",
    "Divide",
    "Equal",
    "Exp",
    "Expand",
    "GatherRows",
    "Greater",
    "GreaterEqual",
    "GroupedLinear",
    "HeadLinear",
    "Histogram",
    "Input",
    "Iota",
    "Less",
    "LessEqual",
    "Linear",
    "Log",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "Matmul",
    "Maximum",
    "Minimum",
    "MoveEntries",
    "Multiply",
    "Negate",
    "NotEqual",
    "PackCodes",
    "PackRows",
    "Param",
    "Power",
    "RaggedAttention",
    "Reciprocal",
    "ReduceMax",
    "ReduceMean",
    "ReduceSum",
    "Relu",
    "Reshape",
    "RmsNorm",
    "Rotary",
    "Round",
    "RouteTopk",
    "RowGroups",
    "Rsqrt",
    "SampleDrafts",
    "SampleTokens",
    "ScatterAlong",
    "ScatterRows",
    "Select",
    "ShiftTokens",
    "Sigmoid",
    "Silu",
    "Sin",
    "Slice",
    "Softmax",
    "Sort",
    "SplitCodes",
    "Sqrt",
    "Subtract",
    "Swiglu",
    "TakeAlong",
    "Topk",
    "Transpose",
    "VerifyDrafts",
    "VerifyTree",
]

OPS: tuple[type[Op], ...] = (
    Add,
    AdvanceRequests,
    AlignDrafts,
    Argmax,
    Attention,
    BranchDrafts,
    CacheRead,
    CacheWrite,
    Call,
    Cast,
    CombineExperts,
    Concat,
    Constant,
    Cos,
    CumulativeSum,
    DispatchExperts,
    Divide,
    Equal,
    Exp,
    Expand,
    GatherRows,
    Greater,
    GreaterEqual,
    GroupedLinear,
    HeadLinear,
    Histogram,
    Input,
    Iota,
    Less,
    LessEqual,
    Linear,
    Log,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    Matmul,
    Maximum,
    Minimum,
    MoveEntries,
    Multiply,
    Negate,
    NotEqual,
    PackCodes,
    PackRows,
    Param,
    Power,
    RaggedAttention,
    Reciprocal,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Relu,
    Reshape,
    RmsNorm,
    Rotary,
    Round,
    RouteTopk,
    RowGroups,
    Rsqrt,
    SampleDrafts,
    SampleTokens,
    ScatterAlong,
    ScatterRows,
    Select,
    ShiftTokens,
    Sigmoid,
    Silu,
    Sin,
    Slice,
    Softmax,
    Sort,
    SplitCodes,
    Sqrt,
    Subtract,
    Swiglu,
    TakeAlong,
    Topk,
    Transpose,
    VerifyDrafts,
    VerifyTree,
)
"""Every operation, in alphabetical order; tests check that no file is missing."""
