"""Where in the code of a user an error came up: below it may stand lines of ours and of NumPy."""

import sys
import traceback
from pathlib import Path
from types import FrameType


def line_of_user(error: BaseException) -> str:
    """Return `` at FILE:LINE`` for the innermost line of the user's code, or an empty text.

    Args:
        error: What was raised; it was caught by us, so that the first lines are ours.
    """
    found = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _module(frame) != "ascendfx"
    ]
    own = [each for each in found if not _is_installed(each[0])]
    if not found:
        return ""
    frame, line = (own or found)[-1]
    return f" at {Path(frame.f_code.co_filename).name}:{line}"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_installed(frame: FrameType) -> bool:
    packages = {"site-packages", "dist-packages"}
    file = Path(frame.f_code.co_filename)
    return _module(frame) in sys.stdlib_module_names or not packages.isdisjoint(file.parts)
