"""Widths of logits with formats: each width in one of them, the nightly run takes both."""

from collections.abc import Sequence
from typing import Any

import pytest

from ascendfx.ir.tensor_type import DType

_BOTH = (1_025, 9_001)
"""Widths beyond what is kept, in one piece and in several."""


def columns_and_formats(columns: Sequence[int]) -> list[Any]:
    """Return parameters ``(columns, dtype)``: a kernel of sampling compiles for half a second."""
    formats = (DType.F32, DType.BF16)
    return [
        pytest.param(
            count,
            dtype,
            marks=() if count in _BOTH or (i + j) % 2 == 0 else pytest.mark.nightly,
            id=f"{count}-{dtype.name.lower()}",
        )
        for i, count in enumerate(columns)
        for j, dtype in enumerate(formats)
    ]
