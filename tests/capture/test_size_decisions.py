"""Models that ask how many requests or tokens there are: one graph serves all sizes."""

from pathlib import Path

import pytest
from torch import Tensor, nn

from ascendfx.ir.capture.capture_module import capture_module
from ascendfx.ir.diagnostic import GraphError


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11, bias=False)


class Long(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(x * 2 if x.shape[1] > 5 else x)  # here


class NotLong(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(x if x.shape[1] < 4000 else x * 2)  # here


class Three(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(x * 2 if x.shape[1] == 3 else x)  # here


class Even(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(x if x.shape[1] % 2 else x * 2)  # here


class ManyRequests(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(x * 2 if x.shape[0] > 1 else x)  # here


class OneToken(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(x * 2 if ids.shape[1] == 1 else x)  # here


class LoopsOverTokens(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for _ in range(ids.shape[1]):  # here
            x = x + 1.0
        return self.head(x)


class FirstFive(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(x + x[:, :5].mean(1, keepdim=True))  # here


@pytest.mark.parametrize(
    "kind", [Long, NotLong, Three, Even, ManyRequests, OneToken, LoopsOverTokens, FirstFive]
)
def test_is_refused_with_the_line_and_a_remedy(kind: type[Toy]) -> None:
    with pytest.raises(GraphError) as caught:
        capture_module(kind())
    error = caught.value
    assert error.code == "size-dependent"
    assert "number of requests or tokens" in error.reason
    assert error.hint
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert error.location.file == __file__
    assert source[error.location.line - 1].endswith("# here")


class Careful(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        assert ids.shape[1] > 0
        x = self.embed(ids)
        if x.shape[-1] == 8 and x.shape[0] != 0:
            x = x + 1.0
        return self.head(x)


def test_questions_with_one_answer_for_all_sizes_are_answered() -> None:
    assert capture_module(Careful()).program
