"""Every translated ATen overload computes what PyTorch computes."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ascendfx.ir.capture.aten import HANDLERS
from ascendfx.ir.capture.capture_module import capture_module
from tests.capture.aten_cases import ARITHMETIC, CHOICES, MOVES, REDUCTIONS, Case
from tests.capture.eager_float64 import assert_equals_eager

IDS = np.array([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])
CASES: dict[str, Case] = {**ARITHMETIC, **MOVES, **REDUCTIONS, **CHOICES}


class Applied(nn.Module):
    def __init__(self, function: Case) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 8)
        self.function = function

    def forward(self, ids: Tensor) -> Tensor:
        found = self.function(self.embed(ids), ids)
        return found.to(self.embed.weight.dtype)


@pytest.mark.parametrize("name", CASES)
def test_an_overload_computes_what_pytorch_computes(name: str) -> None:
    torch.manual_seed(3)
    model = Applied(CASES[name])
    assert_equals_eager(capture_module(model), model, IDS)


def test_rms_norm_without_epsilon_uses_that_of_the_format() -> None:
    model = Applied(lambda x, _: functional.rms_norm(x * 1e-8, (8,))).double()
    assert_equals_eager(capture_module(model), model, IDS)


def test_the_readme_lists_every_overload() -> None:
    readme = Path(__file__).parents[2] / "ir" / "capture" / "README.md"
    text = readme.read_text(encoding="utf-8")
    listed = set(re.findall(r"`((?:aten|transformers)\.[\w.]+)`", text))
    assert listed == {name for name in HANDLERS if not name.startswith("ascendfx")}
