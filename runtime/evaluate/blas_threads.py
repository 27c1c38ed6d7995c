"""One thread for matrix products: how sums are grouped may depend on the number of threads."""

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

_LIBRARIES = "numpy.libs"
"""Beside the package, where its wheels bring OpenBLAS along."""
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


class BlasThreads(NamedTuple):
    """How many threads a library multiplies by.

    Attributes:
        get: Returns the number.
        put: Sets it.
    """

    get: Callable[[], int]
    put: Callable[[int], None]


@contextmanager
def one_blas_thread() -> Generator[bool]:
    """Let NumPy multiply by one thread, and then by as many as before.

    Yields whether the library is one that can be told; others read ``OMP_NUM_THREADS`` and its like
    when the process starts.
    """
    found = blas_threads()
    if found is None:
        yield False
        return
    before = found.get()
    found.put(1)
    try:
        yield True
    finally:
        found.put(before)


def blas_threads() -> BlasThreads | None:
    """Return how the number of threads of NumPy's OpenBLAS is read and written; None: unknown."""
    folder = Path(np.__file__).parents[1] / _LIBRARIES
    for file in sorted(folder.glob("*openblas*")):
        library = ctypes.CDLL(str(file))
        for name in _NAMES:
            get, put = (getattr(library, name.format(verb), None) for verb in ("get", "set"))
            if get is not None and put is not None:
                return BlasThreads(get, put)
    return None
