"""Sizes and limits of the instructions that kernels use, the same on every target.

Sources are pages of the Ascend C documentation (mirror-cann/asc-devkit). Emitted text may hold
the same numbers as literals where the instruction shows them anyway.
"""

BLOCK_BYTES = 32
"""A block: what local memory is addressed in and plain copies move ("DataCopy")."""

BLOCK_FLOATS = BLOCK_BYTES // 4
"""f32 elements of a block."""

REPEAT_FLOATS = 64
"""Elements of f32 or int32 that one vector repeat covers ("high-dimensional split")."""

MAX_REPEATS = 255
"""Repeats of one vector instruction; an unsigned byte ("high-dimensional split")."""

MAX_REPEAT_STRIDE = 255
"""Blocks from repeat to repeat; an unsigned byte ("high-dimensional split")."""

MAX_COPY_PIECES = 4_095
"""Largest ``blockCount`` of one copy ("DataCopyPad")."""

FAST_COPY_BYTES = 16_384
"""Copies of this size reach full bandwidth ("hardware limits")."""

FRACTAL_ROWS = 16
"""Rows of a fractal, in every format ("matrix layouts")."""

FRACTAL_ROW_BYTES = 32
"""Bytes of a row of a fractal; its elements are called k0 ("matrix layouts", NZ)."""

MAX_ROW_STRIDE = 65_535
"""Elements between two rows of an ND to NZ copy; ``Nd2NzParams::srcDValue`` has 16 bits."""

SORT_WIDTH = 32
"""Records that one repeat of ``Sort32`` orders ("Sort32")."""

SORT_ALIGNMENT = 256
"""Bytes the result of ``Sort32`` is aligned to ("Sort32")."""

MAX_SORTED_LIST = 4_095
"""Records of the longest list ``MrgSort`` takes ("MrgSort")."""

QUEUE_EVENTS = 8
"""Buffers the queues of one position may own, an event id each ("TQue overview")."""


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple of ``multiple`` that is at least ``value``."""
    return -(-value // multiple) * multiple
