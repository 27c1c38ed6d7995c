"""What a compilation asks of the chip's memory, checked before long work leads to nothing."""

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.passes.step_inputs import token_counts

LARGEST_INDEX = 2**31 - 1
"""Positions and cache slots are i32 in device memory."""
_GIB = 1 << 30
_SMALLER = "compile with a smaller `max_context`, `max_batch` or `cache_blocks`"


def check_addressable(*, max_context: int, max_batch: int, prefill_chunk: int, blocks: int) -> None:
    """Check that positions, rows and cache slots fit into 32-bit indices.

    Raises:
        GraphError: One of them does not.
    """
    counts = {
        f"max_context={max_context:,} has positions": max_context,
        f"max_batch={max_batch:,} has rows": max_batch,
        f"prefill_chunk={prefill_chunk:,} has rows": prefill_chunk,
        f"a cache of {blocks:,} blocks has token slots": blocks * BLOCK_TOKENS,
    }
    for what, count in counts.items():
        if count - 1 > LARGEST_INDEX:
            raise GraphError(
                code="limit-too-large",
                reason=f"{what} up to {count - 1:,}; an index has 32 bits and ends at "
                f"{LARGEST_INDEX:,}",
                hint=_SMALLER,
            )


def check_caches(serving: Program, blocks: int, places: int, target: Target) -> None:
    """Check that what a program keeps between steps fits into the memory of the chip.

    Args:
        serving: In serving form: inputs ``cache.*`` have the named size ``blocks``, and the second
            output has the logits.
        blocks: Blocks of every cache.
        places: Requests whose tokens are counted.
        target: The chip.

    Raises:
        GraphError: They do not fit, even without weights.
    """
    logits = serving.main.type_of(serving.main.outputs[1])
    counts = token_counts(logits)
    counted = needed = places * bind_size(counts.shape[1], {}) * counts.dtype.bytes
    for name, kind in serving.main.input_types.items():
        if name.startswith("cache."):
            size = kind.dtype.bytes
            for extent in kind.shape:
                size *= bind_size(extent, {"blocks": blocks})
            needed += size
    if needed > target.hbm_gib * _GIB:
        raise GraphError(
            code="limit-too-large",
            reason=f"the caches of {blocks:,} blocks of {BLOCK_TOKENS} tokens need "
            f"{needed - counted:,} bytes and the token counts of {places:,} requests {counted:,}, "
            f"{target.name} has {target.hbm_gib * _GIB:,}",
            hint=_SMALLER,
        )


def check_arena(plan: LaunchPlan, target: Target) -> None:
    """Check that the intermediate values of a step fit into the memory of the chip.

    Raises:
        GraphError: They do not fit, even without weights and caches.
    """
    if plan.arena_bytes > target.hbm_gib * _GIB:
        raise GraphError(
            code="limit-too-large",
            reason=f"a step of the plan `{plan.name}` with {plan.capacities.rows:,} rows needs "
            f"{plan.arena_bytes:,} bytes, {target.name} has {target.hbm_gib * _GIB:,}",
            hint="compile with a smaller `prefill_chunk`, `max_batch` or `max_context`",
        )
