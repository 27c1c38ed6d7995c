"""Paths on the command line."""

from pathlib import Path
from typing import Any

import click


class UserPath(click.Path):
    """A path with a name: an empty text is refused, not taken for the working directory."""

    def __init__(self, *, exists: bool = False, file_okay: bool = True, dir_okay: bool = True):
        super().__init__(exists=exists, file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            click.BadParameter: It has no name.
        """
        if isinstance(value, str) and not value.strip():
            self.fail("the name is empty; write `.` for the working directory", param, ctx)
        return super().convert(value, param, ctx)
