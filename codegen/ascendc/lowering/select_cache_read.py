"""Cached rows of one request in one dense tensor, where attention does not read them by itself."""

from ascendfx.codegen.ascendc.kernels.gather_cache import emit_gather_cache, plan_gather_cache
from ascendfx.codegen.ascendc.kernels.gather_codes import emit_gather_codes, plan_gather_codes
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.codegen.ascendc.lowering.step import KernelStep
from ascendfx.ir.graph import Value
from ascendfx.ir.size import bind_size, product


def select_cache_read(context: GraphContext, position: int) -> KernelStep:
    """Return the copy of a request's cached rows, as numbers if the cache holds codes.

    Raises:
        GraphError: The step may have several requests.
    """
    codes = context.cached_codes.get(position)
    cache, table = (codes.codes, codes.table) if codes else context.node(position).operands
    requests, length, *inner = context.node(position).types[0].shape
    if bind_size(requests, context.capacity) != 1:
        raise context.refusal(
            position,
            f"cached rows of up to {bind_size(requests, context.capacity)} requests are not "
            "gathered into one tensor",
            hint="lower this step for one request, or absorb the projection behind the cache",
        )
    columns = bind_size(product(inner), context.capacity)
    blocks, block = context.graph.type_of(cache).shape[:2]
    dtype = context.view(Value(position)).dtype
    plan = (plan_gather_codes if codes else plan_gather_cache)(
        context=context.rows(product((requests, length)), position),
        columns=columns,
        cache_blocks=bind_size(blocks, context.capacity),
        max_blocks=bind_size(context.graph.type_of(table).shape[1], context.capacity),
        dtype=dtype,
        target=context.target,
        block_tokens=bind_size(block, context.capacity),
    )
    scales = (codes.scales,) if codes else ()
    return KernelStep(
        plan=plan,
        emit=emit_gather_codes if codes else emit_gather_cache,
        name=f"gather_{'codes' if codes else 'cache'}_n{columns}_{dtype.value}",
        operands=(
            *(context.dense_operand(value, position) for value in (cache, *scales, table)),
            context.operand(Value(position)),
        ),
        position=position,
        covers=codes.covers if codes else (position,),
    )
