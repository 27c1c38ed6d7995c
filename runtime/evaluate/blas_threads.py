"""One thread for matrix products: how sums are grouped may depend on the number of threads."""

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

_LIBRARIES = "numpy.libs"
"""Beside the package, where its wheels bring OpenBLAS along."""
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


@contextmanager
def one_blas_thread() -> Generator[bool]:
    """Let NumPy multiply by one thread, and then by as many as before.

    Yields whether the library is one that can be told; others read ``OMP_NUM_THREADS`` and its like
    when the process starts.
    """
    found = _functions()
    if found is None:
        yield False
        return
    get, put = found
    before = get()
    put(1)
    try:
        yield True
    finally:
        put(before)


def _functions() -> tuple[Any, Any] | None:
    """Return how the number is read and written."""
    folder = Path(np.__file__).parents[1] / _LIBRARIES
    for file in sorted(folder.glob("*openblas*")):
        library = ctypes.CDLL(str(file))
        for name in _NAMES:
            get, put = (getattr(library, name.format(verb), None) for verb in ("get", "set"))
            if get is not None and put is not None:
                return get, put
    return None
