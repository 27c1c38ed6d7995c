"""Matrix products: which plan of the cube families computes `linear` and its relatives."""

from dataclasses import replace

from ascendfx.codegen.ascendc.kernels.cube_product import default_b_view
from ascendfx.codegen.ascendc.kernels.grouped_matmul import (
    emit_grouped_matmul,
    plan_grouped_matmul,
)
from ascendfx.codegen.ascendc.kernels.matmul import emit_matmul, plan_matmul
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext, rows_and_columns
from ascendfx.codegen.ascendc.lowering.row_space import pair_suffix, row_suffix
from ascendfx.codegen.ascendc.lowering.step import KernelStep, Operand
from ascendfx.codegen.ascendc.lowering.view import View, reshape_view
from ascendfx.ir.graph import Value
from ascendfx.ir.size import Dim, bind_size, product
from ascendfx.ir.tensor_type import DType, TensorType


def select_linear(context: GraphContext, position: int) -> KernelStep:
    """Return ``y = x Wᵀ``; axes between the rows and the last one become a batch that shares W.

    Raises:
        GraphError: Rows of ``x`` or ``y`` have no regular distance, or the family refuses.
    """
    x, w = context.node(position).operands
    y = Value(position)
    n, k = _numbers(context, position, context.graph.type_of(w))
    a = rows_and_columns(context, context.view(x), k)
    result = rows_and_columns(context, context.view(y), n)
    shape = context.graph.type_of(x).shape
    if a is not None and result is not None:
        views = (_matrix(context, a, position), _matrix(context, result, position))
        if context.view(x).dtype is DType.I4X2 and len(shape) > 2:  # axes
            digits = _known(context, position, shape[-2])
            return _matmul(context, position, (product(shape[:-2]), 1, n, k), views, each=digits)
        return _matmul(context, position, (product(shape[:-1]), 1, n, k), views)
    if len(shape) != 3 or not isinstance(shape[1], int):
        raise context.refusal(position, f"rows of {shape} have no regular distance in memory")
    views = (
        _head_matrices(context, context.view(x), position),
        _head_matrices(context, context.view(y), position),
    )
    return _matmul(context, position, (shape[0], shape[1], n, k), views)


def select_head_linear(context: GraphContext, position: int) -> KernelStep:
    """Return one product per head, heads being strided matrices of ``x`` and ``y``.

    Raises:
        GraphError: Rows have no regular distance, or the family refuses.
    """
    x, w = context.node(position).operands
    heads, n, k = _numbers(context, position, context.graph.type_of(w))
    *leading, x_heads, _ = context.graph.type_of(x).shape
    rows = product(leading)
    a = reshape_view(context.view(x), (rows, x_heads, k), context.capacity)
    y = reshape_view(context.view(Value(position)), (rows, heads, n), context.capacity)
    if a is None or y is None:
        raise context.refusal(position, "rows have no regular distance in memory")
    views = (_head_matrices(context, a, position), _head_matrices(context, y, position))
    if x_heads == 1:
        views = (replace(views[0], batch_stride=0), views[1])
    return _matmul(context, position, (rows, heads, n, k), views)


def select_grouped_linear(context: GraphContext, position: int) -> KernelStep:
    """Return one product per expert over rows sorted by expert.

    Raises:
        GraphError: Rows have no regular distance, or the family refuses.
    """
    x, w, ends = context.node(position).operands
    experts, n, k = _numbers(context, position, context.graph.type_of(w))
    shape = context.graph.type_of(x).shape
    pairs = context.rows(shape[0], position)
    each = _known(context, position, product(shape[1:-1]))
    a = rows_and_columns(context, context.view(x), k)
    result = rows_and_columns(context, context.view(Value(position)), n)
    if a is None or result is None:
        raise context.refusal(position, f"rows of {shape} have no regular distance in memory")
    weight = _weight(context, w, position)
    dtype = context.view(x).dtype
    plan = plan_grouped_matmul(
        pairs=pairs.capacity,
        experts=experts,
        n=n,
        k=k,
        dtype=dtype,
        target=context.target,
        b_layout="nz" if weight.layout == "nz" else "nk",
        a=_matrix(context, a, position),
        y=_matrix(context, result, position),
        each=each,
    )
    return KernelStep(
        plan=plan,
        emit=emit_grouped_matmul,
        name=f"grouped_matmul{pair_suffix(pairs)}_e{experts}_n{n}_k{k}_{dtype.value}",
        operands=(
            context.operand(x),
            weight,
            context.dense_operand(ends, position),
            context.operand(Value(position)),
        ),
        position=position,
        covers=(position,),
    )


def _matmul(
    context: GraphContext,
    position: int,
    sizes: tuple[Dim, int, int, int],
    views: tuple[MatrixView, MatrixView],
    *,
    each: int = 1,
) -> KernelStep:
    x, w = context.node(position).operands
    rows, batch, n, k = sizes
    weight = _weight(context, w, position)
    layout = "nz" if weight.layout == "nz" else "nk"
    dtype, result = context.view(x).dtype, context.view(Value(position)).dtype
    shared = batch > 1 and context.graph.type_of(w).rank == 2
    b = default_b_view(n, k, dtype, layout, 1 if shared else batch)
    size = context.rows(rows, position)
    plan = plan_matmul(
        rows=size,
        n=n,
        k=k,
        dtype=dtype,
        out_dtype=result,
        batch=batch,
        target=context.target,
        b_layout=layout,
        a=views[0],
        b=replace(b, batch_stride=0) if shared else b,
        y=views[1],
        each=each,
    )
    times = f"_b{batch}" if batch > 1 else ""
    return KernelStep(
        plan=plan,
        emit=emit_matmul,
        name=f"matmul{row_suffix(size)}{times}_n{n}_k{k}_{dtype.value}",
        operands=(context.operand(x), weight, context.operand(Value(position))),
        position=position,
        covers=(position,),
    )


def _known(context: GraphContext, position: int, each: Dim) -> int:
    """Return how many rows stand for a counted one.

    Raises:
        GraphError: That is not known now.
    """
    if not isinstance(each, int):
        raise context.refusal(position, f"{each} rows for each counted one are not known now")
    return each


def _weight(context: GraphContext, w: Value, position: int) -> Operand:
    dense = context.dense_operand(w, position)
    return replace(dense, layout=context.layouts.get(w, "nd"))


def _numbers(context: GraphContext, position: int, kind: TensorType) -> tuple[int, ...]:
    sizes = tuple(size for size in kind.shape if isinstance(size, int))
    if len(sizes) != kind.rank:
        raise context.refusal(position, f"the weight {kind} has a named size")
    return sizes


def _matrix(context: GraphContext, view: View, position: int) -> MatrixView:
    """Return a ``[rows, columns]`` view as the cube families see it."""
    column_stride = view.strides[1]
    columns = view.shape[1]
    if not isinstance(columns, int):
        raise AssertionError("columns are known")  # noqa: TRY004
    if column_stride != 1 and columns > 1:
        raise context.refusal(position, f"columns of {view.type()} are {column_stride} apart")
    return MatrixView(view.offset, _row_stride(context, view, columns))


def _head_matrices(context: GraphContext, view: View, position: int) -> MatrixView:
    """Return a ``[rows, heads, columns]`` view as one matrix per head."""
    _, head_stride, column_stride = view.strides
    columns = view.shape[2]
    if not isinstance(columns, int):
        raise AssertionError("columns are known")  # noqa: TRY004
    if column_stride != 1 and columns > 1:
        raise context.refusal(position, f"columns of {view.type()} are {column_stride} apart")
    return MatrixView(view.offset, _row_stride(context, view, columns), head_stride)


def _row_stride(context: GraphContext, view: View, columns: int) -> int:
    """Return the distance of two rows; that of a single one is no distance, and may be any size."""
    single = bind_size(view.shape[0], context.capacity) == 1
    return columns if single else max(view.strides[0], columns)
