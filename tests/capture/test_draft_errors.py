"""A draft module of another form is refused: what is wrong with it, and what to write instead."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ascendfx.ir.capture.capture_draft import capture_draft
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN
from ascendfx.passes.draft_licence import draft_licence
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.presets import TO_SERVING
from tests.capture.draft_and_main import CAPTURED, MAIN
from tests.capture.tiny_models import VOCABULARY

WIDTH = 32


class Draft(nn.Module):
    """A plain draft of some hidden size; the forwards of others replace its own."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY)
        self.join = nn.Linear(2 * width, width)
        self.register_buffer("calls", torch.zeros(1))

    def state(self, ids: Tensor, hidden: Tensor) -> Tensor:
        return torch.tanh(self.join(torch.cat([self.embed(ids), hidden], -1)))

    def forward(self, ids: Tensor, hidden: Tensor) -> Any:
        return self.head(self.state(ids, hidden))


class NoHidden(Draft):
    def forward(self, ids: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.head(self.embed(ids))


class Masked(Draft):
    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.head(self.embed(ids))


class More(Draft):
    def forward(self, ids: Tensor, hidden: Tensor, length: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(ids, hidden) * length


class NoForward(nn.Module):
    """Nothing to call."""


class Branching(Draft):
    def forward(self, ids: Tensor, hidden: Tensor) -> Tensor:
        logits = super().forward(ids, hidden)
        return logits + 1 if logits.sum() > 0 else logits


class Counting(Draft):
    def forward(self, ids: Tensor, hidden: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(ids, hidden)


class Failing(Draft):
    def forward(self, ids: Tensor, hidden: Tensor) -> Tensor:
        raise ValueError("of my own")


class Blind(Draft):
    def forward(self, ids: Tensor, hidden: Tensor) -> Any:
        return self.head(hidden), hidden


class Constant(Draft):
    def forward(self, ids: Tensor, hidden: Tensor) -> Tensor:
        return torch.zeros(*ids.shape, VOCABULARY)


class Half(Draft):
    def forward(self, ids: Tensor, hidden: Tensor) -> Tensor:
        return self.head(self.state(ids, hidden).half().float())


class Absolute(Draft):
    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Embedding(64, WIDTH)

    def forward(self, ids: Tensor, hidden: Tensor) -> Tensor:
        return super().forward(ids, hidden + self.places(torch.arange(ids.shape[1])))


class Shifted(Draft):
    def forward(self, ids: Tensor, hidden: Tensor) -> Tensor:
        x = self.state(ids, hidden)
        return self.head(torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1))


TO_WRITE = "write forward(token_ids, hidden)"


@pytest.mark.parametrize(
    ("make", "code", "reason", "hint"),
    [
        (NoHidden, "no-draft", "the forward of the draft `NoHidden` takes (ids): ", TO_WRITE),
        (More, "no-draft", "`More` takes (ids, hidden, length): missing", TO_WRITE),
        (Masked, "no-draft", "takes `attention_mask` in place of hidden states", TO_WRITE),
        (NoForward, "no-draft", "the draft `NoForward` has no forward", TO_WRITE),
        (lambda: MAIN, "no-draft", "takes `attention_mask` in place of hidden", TO_WRITE),
        (
            lambda: Draft(16),
            "model-fails",
            "the draft layer cannot be called: RuntimeError: ",
            "the model's hidden states f32[batch, tokens, 32]: its sizes and formats have to fit",
        ),
        (Failing, "model-fails", "the draft layer cannot be called: ValueError: of my own", "call"),
        (Branching, "data-dependent", "the control flow of the draft layer depends", "torch.where"),
        (Counting, "mutation", "the draft layer changes `calls`", "return the new value"),
        (Blind, "draft-results", "do not depend on its token ids", "look both of them up"),
        (Constant, "draft-results", "do not depend on its token ids", "look both of them up"),
        (Half, "draft-dtype", "the draft layer computes in f16", "`draft.float()`"),
    ],
)
def test_what_is_wrong_is_said_of_the_draft(
    make: Callable[[], nn.Module], code: str, reason: str, hint: str
) -> None:
    with pytest.raises(GraphError) as caught:
        capture_draft(make(), MAIN, CAPTURED)
    assert caught.value.code == code
    assert reason in caught.value.reason
    assert hint in caught.value.hint
    assert "the model " not in caught.value.reason
    if code not in {"no-draft", "draft-results"}:
        assert caught.value.location.file == __file__


def test_a_plain_draft_is_captured() -> None:
    assert capture_draft(Draft(), MAIN, CAPTURED).drafts


@pytest.mark.parametrize(
    ("make", "code", "reason", "hint"),
    [
        (Absolute, "draft-position", "positions reach `gather_rows`", "only turn into angles"),
        (Shifted, "batch-axis", "concat works along the axis of tokens", "only attention reads"),
    ],
)
def test_what_no_row_of_a_step_can_do_is_refused(
    make: Callable[[], nn.Module], code: str, reason: str, hint: str
) -> None:
    (draft,) = capture_draft(make(), MAIN, CAPTURED).drafts
    with pytest.raises(GraphError) as caught:
        draft_licence(run_pipeline(draft, TO_SERVING)[0])
    assert caught.value.code == code
    assert reason in caught.value.reason
    assert hint in caught.value.hint
    assert caught.value.location is not UNKNOWN
