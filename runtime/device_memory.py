"""What a compilation asks of the chip's memory, checked before long work leads to nothing."""

import math

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_names import CACHE_PREFIX
from ascendfx.passes.serving_signature import BLOCKS

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


def check_kept(step: Program, blocks: int, places: int, target: Target) -> None:
    """Check that what a step keeps for the next one fits into the memory of the chip.

    Args:
        step: A closed step. Its inputs ``cache.*`` have the named sizes ``blocks`` and ``places``:
            the caches of main model and draft layers, hidden states, and counts of tokens.
        blocks: Blocks of every cache.
        places: Requests of a decode step.
        target: The chip.

    Raises:
        GraphError: They do not fit, even without weights.
    """
    bindings = {"blocks": blocks, "places": places}
    paged = of_places = 0
    for name, kind in step.main.input_types.items():
        if name.startswith(CACHE_PREFIX):
            size = math.prod(bind_size(each, bindings) for each in kind.shape) * kind.dtype.bytes
            if BLOCKS in kind.shape:
                paged += size
            else:
                of_places += size
    if paged + of_places > target.hbm_gib * _GIB:
        raise GraphError(
            code="limit-too-large",
            reason=f"the caches of {blocks:,} blocks of {BLOCK_TOKENS} tokens need {paged:,} bytes "
            f"and what is kept of {places:,} requests {of_places:,}, {target.name} has "
            f"{target.hbm_gib * _GIB:,}",
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
