"""Work space of the reduction instructions."""

from ascendfx.codegen.ascendc.hardware_units import BLOCK_FLOATS, REPEAT_FLOATS, round_up


def reduce_max_work_elements(count: int, *, with_index: bool) -> int:
    """Return the f32 elements of work area ``ReduceMax`` needs for ``count`` elements.

    Every round leaves a value and an index per repeat, in whole 32-byte blocks, until one pair is
    left. With index the rounds do not share space, because the indices are followed back.

    Source: asc-devkit, ReduceMax, "space of sharedTmpBuffer".
    """
    pairs = 2 * -(-count // REPEAT_FLOATS)
    total = round_up(pairs, BLOCK_FLOATS)
    while with_index and pairs > 2:
        pairs = 2 * -(-pairs // REPEAT_FLOATS)
        total += round_up(pairs, BLOCK_FLOATS)
    return total
