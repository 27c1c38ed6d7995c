"""The results of reference packages, by file and name."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "vectors"


@cache
def vectors(file: str) -> dict[str, NDArray[Any]]:
    with np.load(FOLDER / f"{file}.npz", allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
