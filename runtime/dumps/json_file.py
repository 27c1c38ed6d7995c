"""JSON files that are complete as soon as they have their name, and equal for equal contents."""

import json
from pathlib import Path
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.replaced_file import replacing


def json_text(data: Any) -> str:
    """Return the text: indented by one, keys sorted, final newline."""
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a text under a temporary name and rename it.

    Raises:
        GraphError: Something else than a file has the name.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` as JSON."""
    write_text(path, json_text(data))


def read_json_file(path: Path, what: str) -> Any:
    """Return the contents of a JSON file.

    Args:
        path: The file.
        what: What the file should be, for the message.

    Raises:
        GraphError: It is missing, or no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise GraphError(
            "damaged-dump", f"{path} is missing; it should hold {what}", hint="compile again"
        ) from error
    except (OSError, RecursionError, ValueError) as error:
        raise GraphError(
            "damaged-dump", f"{path} does not hold {what}: {error}", hint="compile again"
        ) from error
