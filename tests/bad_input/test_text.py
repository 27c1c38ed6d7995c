"""Text that is none: one error instead of a traceback."""

from pathlib import Path

import pytest

import ascendfx
from ascendfx import GraphError
from ascendfx.runtime.engine.text_codec import TextCodec
from tests.bad_input.ended import Command


def test_a_file_that_is_no_text_is_one_error(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "latin1"
    file.write_bytes(b"caf\xe9")
    message = f"error[not-text]: {file} is no text in UTF-8: unexpected end of data at byte 3"
    for arguments in (("opt", file), ("run", tmp_path, "--prompts-file", file)):
        ended = command(*arguments)
        assert (ended.code, ended.out) == (1, "")
        assert ended.error.startswith(message)


def test_a_prompt_in_another_encoding_is_one_error() -> None:
    # Python turns bytes of a command line that are no UTF-8 into lone surrogates.
    codec = TextCodec(ascendfx.bundled_model() / "tokenizer.json")
    with pytest.raises(GraphError, match=r"error\[bad-prompt\]: .* is no Unicode text"):
        codec.encode("caf\udce9")
