"""Text of tokens that come one after another."""

from collections.abc import Sequence
from operator import index

from ascendfx.runtime.arguments import check_flag, wrong_type
from ascendfx.runtime.engine.text_codec import TextCodec

_INCOMPLETE = "\ufffd"
"""What a decoder puts for bytes that are no character yet."""


class TextPieces:
    """Turns the new tokens of one request into its new characters; `Engine.text_pieces` makes one.

    A character can take several tokens; its piece comes with the last. The pieces together are
    `Generation.text`. A decoder may treat the first token in its own way, so the piece before is
    decoded together with the new tokens and taken off again.
    """

    def __init__(self, codec: TextCodec | None) -> None:
        """Begin a text; without a codec all pieces are empty."""
        self._codec = codec
        self._before: list[int] = []
        self._pending: list[int] = []

    def add(self, ids: Sequence[int], *, last: bool = False) -> str:
        """Return the characters that are complete now.

        Args:
            ids: New token ids, such as `Update.token_ids`, or a part of a column of `Updates`.
            last: No more will come: bytes that are left are shown as U+FFFD.

        Raises:
            GraphError: An argument is of another type.
        """
        check_flag("last", last)
        new = _checked(ids)
        if self._codec is None:
            return ""
        self._pending += new
        text = self._codec.decode([*self._before, *self._pending])
        if not self._pending or (text.endswith(_INCOMPLETE) and not last):
            return ""
        piece = text[len(self._codec.decode(self._before)) :]
        self._before, self._pending = self._pending, []
        return piece


def _checked(ids: object) -> list[int]:
    try:
        found = [index(each) for each in ids]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType, reportUnknownArgumentType]
    except TypeError as error:
        raise wrong_type("ids", ids, "a list of token ids") from error
    if any(not 0 <= each < 2**31 for each in found):
        raise wrong_type("ids", ids, "a list of token ids")
    return found
