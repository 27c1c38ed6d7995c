"""PyTorch's log of its own steps is not shown under a test that fails."""

import logging
from collections.abc import Generator

import pytest
import torch
from torch import nn

from ascendfx.ir.capture.capture_module import capture_module

TRACE = logging.getLogger("torch.__trace")


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11)

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(token_ids))


class Kept(logging.Handler):
    """Keeps every record."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def traced() -> Generator[list[logging.LogRecord]]:
    """Return what is traced; recent versions of pytest listen to this logger by themselves."""
    kept = Kept()
    TRACE.addHandler(kept)
    yield kept.records
    TRACE.removeHandler(kept)


def test_a_capture_leaves_no_trace(traced: list[logging.LogRecord]) -> None:
    before = TRACE.level
    capture_module(Plain())
    assert not traced
    assert before == TRACE.level


def test_what_pytorch_does_for_others_is_traced_as_ever(traced: list[logging.LogRecord]) -> None:
    capture_module(Plain())
    torch.export.export(Plain(), (torch.zeros(1, 3, dtype=torch.int64),))
    assert traced
