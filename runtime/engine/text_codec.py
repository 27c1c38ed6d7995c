"""Text to token ids and back, by the model's own tokenizer file."""

from collections.abc import Sequence
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError


class TextCodec:
    """Wraps a ``tokenizer.json`` of the tokenizers library."""

    def __init__(self, path: Path) -> None:
        """Load the file.

        Raises:
            GraphError: The file is missing or malformed.
        """
        from tokenizers import Tokenizer  # noqa: PLC0415  # 40 ms that token ids do not need

        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise GraphError(
                "bad-tokenizer",
                f"{path} is not a tokenizer file: {error}",
                hint="get tokenizer.json of the model again, or remove it and pass token ids",
            ) from error

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text`` with the special tokens the model expects.

        Raises:
            GraphError: ``text`` is no Unicode, as from a command line in another encoding.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise GraphError(
                "bad-prompt", f"{text!r} is no Unicode text", hint="pass it as UTF-8"
            ) from error
        return self._tokenizer.encode(text).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids`` without special tokens."""
        return self._tokenizer.decode(list(ids))
