"""From PyTorch's stack traces to the line of the user's model."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from ascendfx.ir.location import UNKNOWN, Location

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
FOREIGN = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<")
"""How the files of PyTorch and of this package begin; they are not the user's."""


def location_of_node(meta: Mapping[str, Any], prefix: str) -> Location:
    """Return the innermost line outside PyTorch and this package, and the module path.

    Args:
        meta: The metadata of an exported node.
        prefix: What stands before every module path, because the model is wrapped.
    """
    module = module_path(meta, prefix)
    for file, line in reversed(_FRAME.findall(meta.get("stack_trace") or "")):
        if not file.startswith(FOREIGN):
            return Location(file, int(line), module)
    return Location(UNKNOWN.file, 0, module)


def module_path(meta: Mapping[str, Any], prefix: str) -> str:
    """Return the path of the innermost module that was being called."""
    stack: Iterable[tuple[str, Any]] = (meta.get("nn_module_stack") or {}).values()
    path = next(reversed([path for path, _ in stack if not path.startswith("_empty")]), "")
    return path.removeprefix(prefix).removeprefix(".")


def location_of_error(error: BaseException) -> Location:
    """Return the innermost line outside PyTorch and this package that an error passed through."""
    found = UNKNOWN
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(FOREIGN):
            found = Location(file, trace.tb_lineno)
        trace = trace.tb_next
    return found
