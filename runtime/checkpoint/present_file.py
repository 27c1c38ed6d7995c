"""Whether a folder has a file that it need not have; a broken one does not count as absent."""

import os
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError


def is_present(file: Path) -> bool:
    """Return whether ``file`` is there.

    Raises:
        GraphError: Its name is there, but no file: a link to nothing, as folders have whose
            download was cut off, a link to itself, a folder, a device.
    """
    if file.is_file():
        return True
    if not os.path.lexists(file):
        return False
    if file.is_dir():
        what = "a folder, no file"
    elif file.is_symlink():
        what = f"a link to {file.readlink()}, where no file is"
    else:
        what = "no regular file"
    raise GraphError(
        "damaged-file",
        f"{file} is {what}",
        hint="the download was cut off, or the folder was copied without what its links lead to: "
        "get the file again; delete it only if the model has none",
    )


def check_name(directory: Path) -> None:
    """Check that libraries which take paths as text can open a folder.

    Raises:
        GraphError: Its name is no UTF-8.
    """
    name = os.fsencode(directory.absolute())
    try:
        name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise GraphError(
            "no-model",
            f"the name of {name.decode('utf-8', 'backslashreplace')} is no text in UTF-8",
            hint="rename the folder, or make a link to it that has another name",
        ) from error
