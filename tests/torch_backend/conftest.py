"""Each test starts without compiled graphs and remarks."""

import pytest
import torch

from ascendfx.runtime.torch_backend.remarks import clear_remarks


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    clear_remarks()
    with torch.no_grad():
        yield
