"""Attention of a step: straight from the latent cache, or over expanded keys of one request."""

from dataclasses import replace

from ascendfx.codegen.ascendc.kernels.chunked_prefill_attention import (
    ChunkedPrefillShape,
    emit_chunked_prefill_attention,
    plan_chunked_prefill_attention,
)
from ascendfx.codegen.ascendc.kernels.combine_attention_splits import (
    emit_combine_attention_splits,
    plan_combine_attention_splits,
)
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import (
    LatentDecodeShape,
    emit_latent_decode_attention,
    plan_latent_decode_attention,
)
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext, rows_and_columns
from ascendfx.codegen.ascendc.lowering.row_space import row_suffix
from ascendfx.codegen.ascendc.lowering.step import KernelStep, Operand, Scratch
from ascendfx.codegen.ascendc.lowering.view import View
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import RaggedAttention
from ascendfx.ir.ops.ragged_attention import RaggedRoles
from ascendfx.ir.size import bind_size, product
from ascendfx.ir.tensor_type import DType

_Roles = RaggedRoles[Value]


def select_attention(context: GraphContext, position: int) -> list[KernelStep]:
    """Return the launches of one `ragged_attention`.

    Raises:
        GraphError: Keys and values have a form no family takes.
    """
    op = context.node(position).op
    if not isinstance(op, RaggedAttention):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    attention = op.roles(context.node(position).operands)
    if len(attention.queries) != 2:
        raise context.refusal(
            position,
            f"attention over keys of {context.graph.type_of(attention.keys[0]).shape[2]} heads in "
            f"{len(attention.queries)} part(s), as in multi-head or grouped-query attention; the "
            "kernels attend to two parts, one vector for all heads and one rotated key",
            hint="kernels exist for latent attention (DeepSeek V2, V3) only; the serving form of "
            "this model can be interpreted and exported, but not lowered",
        )
    if _attends_latent(context, attention):
        return _latent(context, attention, op.scale, position)
    return [_expanded(context, attention, op.scale, position)]


def _attends_latent(context: GraphContext, attention: _Roles) -> bool:
    """Return whether one cached vector per token is the key of all heads and the value, too."""
    latent = context.view(attention.keys[0])
    return (
        all(context.is_paged(key) for key in attention.keys)
        and all(context.codes_of(key) is None for key in attention.keys[1:])
        and context.view(attention.values) == latent
        and all(_is_whole(context, key) for key in attention.keys)
    )


def _is_whole(context: GraphContext, value: Value) -> bool:
    """Return whether a value is all of its buffer, with one head."""
    view = context.view(value)
    whole = context.view(view.root)
    return view.offset == 0 and view.shape[2] == 1 and product(view.shape) == product(whole.shape)


def _latent(
    context: GraphContext, attention: _Roles, scale: float, position: int
) -> list[KernelStep]:
    caches = [cache for key in attention.keys for cache in _caches_of(context, key)]
    table = _table_of(context, attention.keys[0])
    requests, table_blocks = context.graph.type_of(table).shape
    blocks, block = context.graph.type_of(caches[0]).shape[:2]
    queries = [_heads(context, context.view(q), position) for q in attention.queries]
    rows, heads, latent = context.graph.type_of(attention.queries[0]).shape
    capacity = context.capacity
    shape = LatentDecodeShape(
        rows=context.rows(rows, position),
        heads=bind_size(heads, capacity),
        latent=bind_size(latent, capacity),
        rope=bind_size(context.graph.type_of(attention.queries[1]).shape[2], capacity),
        q_latent=queries[0],
        q_rope=queries[1],
        cache_blocks=bind_size(blocks, capacity),
        requests=bind_size(requests, capacity),
        max_blocks=bind_size(table_blocks, capacity),
        scale=scale,
        dtype=context.view(attention.queries[0]).dtype,
        block_tokens=bind_size(block, capacity),
        tree=attention.ancestors is not None,
        codes=context.codes_of(attention.keys[0]) is not None,
    )
    plan = plan_latent_decode_attention(shape, context.target)
    statistics = plan.statistics_elements
    partial = (
        Operand(Scratch(position, "partial", DType.F32, plan.partial_elements)),
        Operand(Scratch(position, "maximum", DType.F32, statistics)),
        Operand(Scratch(position, "total", DType.F32, statistics)),
    )
    tree = () if attention.ancestors is None else (attention.ancestors,)
    ids = (table, attention.positions, attention.row_request, *tree)
    size = f"{row_suffix(shape.rows)}_h{shape.heads}_d{shape.latent}_{shape.dtype.value}"
    attend = KernelStep(
        plan=plan,
        emit=emit_latent_decode_attention,
        name=f"latent_decode_attention{'_tree' * shape.tree}{'_codes' * shape.codes}{size}",
        operands=(
            *map(context.operand, attention.queries),
            *(context.dense_operand(cache, position) for cache in caches),
            *(context.dense_operand(value, position) for value in ids),
            *partial,
        ),
        position=position,
        covers=(position,),
    )
    result = context.view(Value(position))
    out = None if context.is_dense(result) else _heads(context, result, position)
    combine = KernelStep(
        plan=plan_combine_attention_splits(plan, context.target, out=out),
        emit=emit_combine_attention_splits,
        name=f"combine_attention_splits{size}",
        operands=(*partial, context.operand(Value(position))),
        position=position,
        covers=(position,),
    )
    return [attend, combine]


def _caches_of(context: GraphContext, key: Value) -> tuple[Value, ...]:
    """Return the cache of a key; of codes, that of their scales, too."""
    codes = context.codes_of(key)
    if codes is not None:
        return codes.codes, codes.scales
    return context.node(context.view(key).root.node).operands[:1]


def _table_of(context: GraphContext, key: Value) -> Value:
    codes = context.codes_of(key)
    return codes.table if codes else context.node(context.view(key).root.node).operands[1]


def _expanded(context: GraphContext, attention: _Roles, scale: float, position: int) -> KernelStep:
    if attention.ancestors is not None:
        raise context.refusal(
            position,
            "rows in a draft tree over expanded keys",
            hint="a chunk of a prompt is no tree; a decode step attends to the cached vectors "
            "themselves, so absorb the projections behind the cache first",
        )
    capacity = context.capacity
    kind = context.graph.type_of(attention.keys[0])
    requests, length, heads, nope = kind.shape
    if bind_size(requests, capacity) != 1:
        raise context.refusal(
            position,
            f"expanded keys {kind} of up to {bind_size(requests, capacity)} requests",
            hint="chunks of a prompt are attended for one request at a time; a decode step attends "
            "to the cached vectors themselves, so keys and values of all heads must be projections "
            "of one vector of the token, with no other operation in between",
        )
    rope_kind = context.graph.type_of(attention.keys[1])
    k_rope = rows_and_columns(
        context, context.view(attention.keys[1]), bind_size(rope_kind.shape[3], capacity)
    )
    if rope_kind.shape[2] != 1 or k_rope is None or not context.is_dense(k_rope):
        raise context.refusal(
            position, f"the keys with position {rope_kind} are not one dense vector per token"
        )
    if context.graph.type_of(attention.queries[0]).shape[1] != heads:
        raise context.refusal(position, f"{heads} key heads for other query heads")
    value_kind = context.graph.type_of(attention.values)
    rows = context.graph.type_of(attention.queries[0]).shape[0]
    tokens = [_tokens(context, value, position) for value in (attention.keys[0], attention.values)]
    queries = [_heads(context, context.view(q), position) for q in attention.queries]
    shape = ChunkedPrefillShape(
        rows=context.rows(rows, position),
        context=context.rows(product((requests, length)), position),
        heads=bind_size(heads, capacity),
        nope=bind_size(nope, capacity),
        rope=bind_size(rope_kind.shape[3], capacity),
        value=bind_size(value_kind.shape[3], capacity),
        q_nope=queries[0],
        q_rope=queries[1],
        k_nope=tokens[0],
        v=tokens[1],
        scale=scale,
        dtype=context.view(attention.queries[0]).dtype,
    )
    plan = plan_chunked_prefill_attention(shape, context.target)
    return KernelStep(
        plan=plan,
        emit=emit_chunked_prefill_attention,
        name=f"chunked_prefill_attention{row_suffix(shape.rows)}_h{shape.heads}_d{shape.nope}_{shape.dtype.value}",
        operands=(
            *map(context.operand, attention.queries),
            context.operand(attention.keys[0]),
            context.operand(attention.values),
            replace(
                context.operand(attention.keys[1]),
                byte_offset=k_rope.offset * k_rope.dtype.bytes,
            ),
            context.dense_operand(attention.positions, position),
            context.dense_operand(Value(position), position),
        ),
        position=position,
        covers=(position,),
    )


def _heads(context: GraphContext, view: View, position: int) -> MatrixView:
    """Return ``[rows, heads, d]`` with a row per token and a matrix per head."""
    row_stride, head_stride, column_stride = view.strides
    if column_stride != 1:
        raise context.refusal(position, f"columns of {view.type()} are {column_stride} apart")
    return MatrixView(view.offset, row_stride, head_stride)


def _tokens(context: GraphContext, value: Value, position: int) -> MatrixView:
    """Return ``[1, context, heads, d]`` in the same way."""
    view = context.view(value)
    one_request = replace(view, shape=view.shape[1:], strides=view.strides[1:])
    return _heads(context, one_request, position)
