"""A variant of a kernel that is none is refused: it would compute what the plain kernel does."""

import pytest

from ascendfx.codegen.ascendc.kernels.replace_once import replace_once


def test_pieces_are_exchanged_one_after_the_other() -> None:
    assert replace_once("a + b;", ("a", "c"), ("c + b", "d")) == "d;"
    assert replace_once("a + b;") == "a + b;"


@pytest.mark.parametrize(("text", "times"), [("x = b;", 0), ("a = a;", 2)])
def test_a_piece_that_does_not_stand_there_once_is_refused(text: str, times: int) -> None:
    with pytest.raises(AssertionError, match=f"has {times} times, not once:\na"):
        replace_once(text, ("a", "c"))
