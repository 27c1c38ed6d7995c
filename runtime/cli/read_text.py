"""Text files that users name on the command line."""

from pathlib import Path

from ascendfx.ir.diagnostic import GraphError


def read_text(file: Path) -> str:
    """Return the text of ``file``, without the mark that some editors put first.

    Raises:
        GraphError: It cannot be read, or is no UTF-8.
    """
    if file.is_block_device() or file.is_char_device():
        raise GraphError(
            "not-text", f"{file} is a device, which has no end", hint="name a file or a pipe"
        )
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraphError(
            "not-text",
            f"{file} is no text in UTF-8: {error.reason} at byte {error.start}",
            hint="convert it to UTF-8",
        ) from error
    except OSError as error:
        raise GraphError(
            "not-text",
            f"{file} cannot be read: {error.strerror}",
            hint="check the name and the permissions of the file",
        ) from error
