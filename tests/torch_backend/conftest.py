"""Each test starts without compiled graphs and remarks."""

import pytest
import torch

from ascendfx.runtime.torch_backend.remarks import clear_remarks, remarks


@pytest.fixture(autouse=True)
def _fresh(request):
    torch._dynamo.reset()
    torch.manual_seed(0)
    clear_remarks()
    with torch.no_grad():
        yield
    mistakes = [str(each) for each in remarks() if each.code == "internal-error"]
    assert request.node.get_closest_marker("internal_error") or not mistakes
