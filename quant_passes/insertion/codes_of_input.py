"""Codes of the inputs of projections: a scale for each token, found in the step."""

from dataclasses import dataclass

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    DispatchExperts,
    Divide,
    GatherRows,
    Multiply,
    Reshape,
    Round,
    Slice,
    SplitCodes,
)
from ascendfx.ir.ops.split_codes import LARGEST_SPLIT
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.insertion.codes_of_weight import largest_magnitude

_LARGEST = 127


@dataclass(frozen=True, slots=True)
class Codes:
    """A value ``[*b, k]`` as whole numbers times a scale.

    Attributes:
        codes: ``i8[*b, k]``, from -127 to 127; or digits of these, ``i4x2[*b, 2, k / 2]``, of codes
            from -119 to 119.
        scale: ``f32[*b, 1]``.
    """

    codes: Value
    scale: Value


def quantize_rows(builder: GraphBuilder, x: Value, *, digits: bool = False) -> Codes:
    r"""Append the codes of a float value, row by row.

    .. math:: s_b = \max_k |x_{b,k}| / 127, \quad c_{b,k} = \mathrm{round}(x_{b,k} / s_b)

    No bounds are needed: ``|x / s|`` exceeds 127 by roundings alone, and 127.5 is far. Source:
    W8A8_DYNAMIC of msModelSlim and of the 910B (``npu_dynamic_quant``), symmetric per token.

    Digits of four bits hold no code above 119, so that a step is 127 / 119 as wide: 7 % more noise
    of inputs beside weights whose steps are 18 times as wide. In return no sum of the weights has
    to be added to each result, as it has with digits that are moved by eight.

    Args:
        builder: Takes the operations.
        x: A float value ``[*b, k]``.
        digits: Whether the codes are split for products with four-bit codes.
    """
    kind = builder.type_of(x)
    wide = x if kind.dtype is DType.F32 else builder.add(Cast(DType.F32), x)
    step = builder.leaf(Constant(1 / (LARGEST_SPLIT if digits else _LARGEST), DType.F32))
    scale = builder.add(Multiply(), largest_magnitude(builder, wide), step)
    codes = builder.add(Round(), builder.add(Divide(), wide, scale))
    return Codes(builder.add(SplitCodes() if digits else Cast(DType.I8), codes), scale)


def joined_digits(builder: GraphBuilder, total: Value) -> Value:
    """Return the sums of codes of which ``i32[*b, 2, n]`` are those of the digits, ``f32[*b, n]``.

    Rounded once, as ``i32`` is when it becomes ``f32``: sums of digits are whole and below 2^24.
    """
    *rows, _, n = builder.type_of(total).shape
    high, low = (
        builder.add(
            Cast(DType.F32),
            builder.add(Reshape((*rows, n)), builder.add(Slice(len(rows), i, i + 1), total)),
        )
        for i in (0, 1)
    )
    weight = builder.leaf(Constant(16.0, DType.F32))
    return builder.add(Add(), builder.add(Multiply(), high, weight), low)


def source_of_pairs(graph: Graph, x: Value) -> tuple[Value, Value] | None:
    """Return rows and their numbers if ``x`` has a row for each token and expert of it.

    The codes of these are taken from those of the rows: a token is quantized once.
    """
    node = graph.nodes[x.node]
    if not isinstance(node.op, GatherRows):
        return None
    rows, ids = node.operands
    taken = isinstance(graph.op_of(ids), DispatchExperts) and ids.result == 0
    return (rows, ids) if taken and graph.type_of(rows).dtype.is_float else None
