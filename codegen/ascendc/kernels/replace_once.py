"""Variants of the text of a kernel."""

Change = tuple[str, str]
"""A piece that a text has once, and what stands there instead."""


def replace_once(text: str, *changes: Change) -> str:
    """Return the text with pieces exchanged, one after the other.

    A piece that was reworded in the text alone would leave the kernel as it is for other rows, so
    it is no variant but an error.

    Raises:
        AssertionError: A piece does not stand in the text, or more than once.
    """
    for piece, other in changes:
        if (found := text.count(piece)) != 1:
            raise AssertionError(f"the text of a kernel has {found} times, not once:\n{piece}")
        text = text.replace(piece, other)
    return text
