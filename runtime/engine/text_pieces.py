"""Text of tokens that come one after another."""

from collections.abc import Sequence

from ascendfx.runtime.engine.text_codec import TextCodec

_INCOMPLETE = "\ufffd"
"""What a decoder puts for bytes that are no character yet."""


class TextPieces:
    """Turns new tokens of one text into new characters.

    A character can take several tokens; its piece comes with the last. A decoder may treat the
    first token in its own way, so the piece before is decoded together with the new tokens and
    taken off again.
    """

    def __init__(self, codec: TextCodec | None) -> None:
        self._codec = codec
        self._before: list[int] = []
        self._pending: list[int] = []

    def add(self, ids: Sequence[int], *, last: bool) -> str:
        """Return the characters that are complete now; all that is left, if these are the last."""
        if self._codec is None:
            return ""
        self._pending += ids
        text = self._codec.decode([*self._before, *self._pending])
        if not self._pending or (text.endswith(_INCOMPLETE) and not last):
            return ""
        piece = text[len(self._codec.decode(self._before)) :]
        self._before, self._pending = self._pending, []
        return piece
