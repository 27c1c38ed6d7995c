"""What `ascendfx run` asks of an engine, in its place."""

from collections.abc import Callable
from types import SimpleNamespace

from ascendfx import Generation


def in_place_of_engine(
    generate: Callable[..., list[Generation]], *, drafts: int = 1, ends: int = 1
) -> SimpleNamespace:
    """Return an engine with so many drafts and end tokens, whose results are given."""
    return SimpleNamespace(
        generate=generate,
        metrics=SimpleNamespace(proposed=(0,) * drafts),
        config=SimpleNamespace(end_tokens=range(ends)),
    )
