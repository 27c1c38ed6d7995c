"""The work of one operation, from its types alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ascendfx.codegen.ascendc.kernels.attention_tiles import MAX_KEY_TILE
from ascendfx.codegen.ascendc.work import (
    CONTEXT,
    NO_WORK,
    PACKED_VISIBLE,
    READ_EXPERTS,
    REQUESTS,
    ROWS,
    VISIBLE,
    Work,
)
from ascendfx.ir import ops
from ascendfx.ir.op import Op
from ascendfx.ir.ops.ragged_attention import RaggedRoles
from ascendfx.ir.packed_rows import PACKED_ROWS
from ascendfx.ir.size import Dim, product, simplify_size
from ascendfx.ir.tensor_type import DType, TensorType

Types = Sequence[TensorType]

_SCORE_SLOTS = 9
"""Per score: scale, penalty, maximum, subtract, exp (half rate), sum, cast and copy."""

_SLOTS: Mapping[type[Op], int] = {
    ops.Argmax: 2,
    ops.BranchDrafts: 13,
    ops.Cos: 8,
    ops.Sin: 8,
    ops.Divide: 2,
    ops.Exp: 2,
    ops.Log: 2,
    ops.Power: 4,
    ops.Reciprocal: 2,
    ops.RmsNorm: 5,
    ops.Rotary: 6,
    ops.Rsqrt: 4,
    ops.SampleDrafts: 13,
    ops.SampleTokens: 13,
    ops.Sigmoid: 6,
    ops.Silu: 6,
    ops.Softmax: 7,
    ops.SplitCodes: 9,
    ops.Sqrt: 2,
    ops.Swiglu: 7,
}
"""Full-rate instructions per element, exp, ln, sqrt and division counted twice; else one.

Source: the steps of `kernels/vector_chain`; rates of the table of vector instructions
(`Rates.vector_lanes`).
"""

_SORT_SLOTS = 32
"""Sorting passes 2 elements per cycle where others pass 64 (the same table)."""

VIEWS: tuple[type[Op], ...] = (ops.Expand, ops.Reshape, ops.Slice, ops.Transpose)
"""Operations that rename elements of a buffer and cost nothing."""


def work_of_op(op: Op, operands: Types, results: Types, *, chosen: int) -> Work:
    """Return what a kernel of this operation alone does.

    Args:
        op: The operation; not a leaf, not a call.
        operands: Types of its operands.
        results: Types of its results.
        chosen: Experts per row of the program; 0 without.
    """
    if isinstance(op, ops.GroupedLinear):
        return _grouped(operands, results, chosen)
    special = _SPECIAL.get(type(op))
    if special is not None:
        return special(op, operands, results)
    if isinstance(op, VIEWS) or is_renaming_cast(op, operands):
        return NO_WORK
    return Work(
        vector_slots=vector_slots_of(op, operands, results), bytes=bytes_of(*operands, *results)
    )


def is_renaming_cast(op: Op, operands: Types) -> bool:
    """Return whether a cast changes nothing in memory: 64-bit integers are stored in 32."""
    integers = (DType.I32, DType.I64)
    return isinstance(op, ops.Cast) and op.dtype in integers and operands[0].dtype in integers


def bytes_of(*kinds: TensorType) -> Dim:
    """Return the bytes of tensors in memory."""
    return simplify_size(sum(_elements(kind) * _stored(kind.dtype) for kind in kinds))


def vector_slots_of(op: Op, operands: Types, results: Types) -> Dim:
    """Return the slots of a token-wise operation or a row reduction, casts to f32 included."""
    narrow = sum(
        _elements(kind) * _CASTS_TO_F32.get(kind.dtype, 0) for kind in (*operands, *results)
    )
    largest = max((*operands, *results), key=lambda kind: _order(_elements(kind)))
    return simplify_size(_elements(largest) * _SLOTS.get(type(op), 1) + narrow)


_CASTS_TO_F32: Mapping[DType, int] = {DType.BF16: 1, DType.F16: 1, DType.I32: 1, DType.I8: 2}
"""Casts between a format in memory and f32; int8 goes by way of half."""


def _order(size: Dim) -> tuple[int, str]:
    """Order sizes of one operation: by the known factor, as they share their named rows."""
    known = size if isinstance(size, int) else int(size.as_coeff_Mul()[0])
    return (not isinstance(size, int)) * 2**62 + known, str(size)


def _elements(kind: TensorType) -> Dim:
    return product(kind.shape)


def _stored(dtype: DType) -> int:
    return 4 if dtype is DType.I64 else dtype.bytes


_FEWER_ROWS = (REQUESTS, PACKED_ROWS)
_SEEN: Mapping[Dim, Dim] = {REQUESTS: REQUESTS * CONTEXT, PACKED_ROWS: PACKED_VISIBLE}
"""Pairs of a query row and a key it may see; for other rows, `VISIBLE`."""


def _linear(_: Op, operands: Types, results: Types) -> Work:
    x, w = operands
    products = _products(results[0], w)
    return Work(products=products, format=x.dtype, bytes=bytes_of(x, w, results[0]))


def _products(result: TensorType, w: TensorType) -> Dim:
    """Return the multiply-adds of a product with ``[.., n, k]``, where k may count pairs."""
    pair = 2 if w.dtype is DType.I4X2 else 1
    return simplify_size(_elements(result) * w.shape[-1] * pair)


def _grouped(operands: Types, results: Types, chosen: int) -> Work:
    x, w, ends = operands
    experts, n, k = w.shape
    if not isinstance(experts, int):
        raise AssertionError("the number of experts is known")  # noqa: TRY004
    weight = simplify_size(READ_EXPERTS * n * k * _stored(w.dtype))
    return Work(
        products=_products(results[0], w),
        format=x.dtype,
        bytes=simplify_size(bytes_of(x, ends, results[0]) + weight),
        experts=experts,
        chosen=chosen,
        choosing=next((each for each in _FEWER_ROWS if x.shape[0] == chosen * each), ROWS),
    )


_DECODED_SLOTS = 4
"""Per number of cached codes: two casts to f32, the product with the scale, the cast to bf16."""


def attention_to_codes(op: Op, operands: Types, results: Types, cached: Types) -> Work:
    """Return what decode attention does whose latent cache holds codes.

    Every row decodes its keys anew, into memory that stays in the second-level cache.

    Args:
        op: The attention.
        operands: Types of its operands.
        results: Types of its results.
        cached: Types ``[requests, context, d]`` of codes and of scales, which are read in place of
            the first keys.
    """
    work = _attention(op, operands, results, cached=cached)
    if not isinstance(op, ops.RaggedAttention):
        raise AssertionError("an attention")  # noqa: TRY004
    (queries, keys, *_) = op.roles(operands)
    visible = _SEEN.get(queries[0].shape[0], VISIBLE)
    numbers = simplify_size(visible * product(keys[0].shape[2:]))
    handed_over = 2 * numbers * _stored(keys[0].dtype)  # written, and read by the cube
    return replace(
        work,
        vector_slots=simplify_size(work.vector_slots + _DECODED_SLOTS * numbers),
        rereads=simplify_size(work.rereads + handed_over),
    )


def _attention(op: Op, operands: Types, results: Types, *, cached: Types = ()) -> Work:
    if not isinstance(op, ops.RaggedAttention):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    roles = op.roles(operands)
    queries, keys, values = roles[:3]
    rows = [each for each in roles[3:] if each is not None]
    heads, width = queries[0].shape[1], values.shape[-1]
    visible = _SEEN.get(queries[0].shape[0], VISIBLE)
    columns = sum(q.shape[-1] for q in queries) + width
    read = (*keys, values)
    rereads: Dim = 0
    if attends_latent(roles):
        read = (*cached, *keys[1:]) if cached else keys
        per_key = sum(_stored(k.dtype) * product(k.shape[2:]) for k in read)
        rereads = simplify_size(visible * per_key - bytes_of(*read))
    rescale = -(-3 * width // MAX_KEY_TILE) if isinstance(width, int) else 1
    return Work(
        products=simplify_size(visible * heads * columns),
        format=queries[0].dtype,
        vector_slots=simplify_size(visible * heads * (_SCORE_SLOTS + rescale)),
        bytes=bytes_of(*queries, *read, *rows, *results),
        rereads=rereads,
    )


def attends_latent(types: RaggedRoles[TensorType]) -> bool:
    """Return whether types allow the first keys to be the values, one vector for all heads."""
    key = types.keys[0]
    return key == types.values and key.rank == 4 and key.shape[2] == 1


def _gathered(_: Op, operands: Types, results: Types) -> Work:
    moved = bytes_of(results[0])
    return Work(vector_slots=0, bytes=simplify_size(2 * moved + bytes_of(*operands[1:])))


def _cache_write(_: Op, operands: Types, __: Types) -> Work:
    _cache, slots, x = operands
    return Work(bytes=simplify_size(2 * bytes_of(x) + bytes_of(slots)))


def _sorted(_: Op, operands: Types, results: Types) -> Work:
    vector_slots = simplify_size(_elements(operands[0]) * (_SORT_SLOTS + 6))
    return Work(vector_slots=vector_slots, bytes=bytes_of(*operands, *results))


def _advance(_: Op, operands: Types, __: Types) -> Work:
    """Rows and states are read and written; of the ring one entry, of the table a block or two.

    Of the counts an element per row is written.
    """
    rows, _positions, slots, _table, state, stops, accepted, new, *others = operands
    emitted, _step, _counts, options, *drafts = others  # of a tree, with the path
    entry = emitted.with_shape(emitted.shape[1:])
    moved = bytes_of(rows, rows, rows, rows, slots, state, state, stops, accepted, new, entry)
    more = bytes_of(accepted, *drafts, options, rows)
    return Work(vector_slots=_elements(state), bytes=simplify_size(moved + more))


def _sample(op: Op, operands: Types, results: Types) -> Work:
    """The counts are left to requests with penalties, which are the exception."""
    read = (*operands[:6], *operands[7:])
    return Work(vector_slots=vector_slots_of(op, read, results), bytes=bytes_of(*read, *results))


def _align(_: Op, operands: Types, results: Types) -> Work:
    """Of the table of blocks a column or two is read."""
    rows, _table, *others = operands
    state, moved = others[0], bytes_of(rows, *others, *results)
    return Work(vector_slots=_elements(state), bytes=moved)


def _moved(op: Op, operands: Types, _: Types) -> Work:
    """At most all entries of a place but the first are read and written, and a block or two."""
    if not isinstance(op, ops.MoveEntries):
        raise AssertionError("dispatched by type")  # noqa: TRY004
    *caches, _table, state, path = operands
    entry = sum(product(cache.shape[2:]) * _stored(cache.dtype) for cache in caches)
    moved = 2 * state.shape[0] * (op.nodes - 1) * entry
    return Work(bytes=simplify_size(moved + bytes_of(state, path)))


_SPECIAL: Mapping[type[Op], Callable[[Op, Types, Types], Work]] = {
    ops.AdvanceRequests: _advance,
    ops.AlignDrafts: _align,
    ops.CacheRead: _gathered,
    ops.CacheWrite: _cache_write,
    ops.DispatchExperts: _sorted,
    ops.GatherRows: _gathered,
    ops.HeadLinear: _linear,
    ops.Linear: _linear,
    ops.MoveEntries: _moved,
    ops.RaggedAttention: _attention,
    ops.RouteTopk: _sorted,
    ops.SampleTokens: _sample,
}
