"""Modules through torch.compile, kernels in the emulator, against float64."""

import subprocess
import sys

import pytest
import torch

from ascendfx.runtime.torch_backend.backend import backend
from ascendfx.runtime.torch_backend.compile_subgraph import CompiledSubgraph
from ascendfx.runtime.torch_backend.remarks import remarks
from tests.torch_backend.modules import (
    HIDDEN,
    INNER,
    Mlp,
    Norm,
    Router,
    WithSort,
    in_float64,
    unit_roundoff,
)

FORMATS = (torch.float32, torch.bfloat16)


@pytest.fixture
def launches(monkeypatch):
    """Return a list that gets the number of launches of each call of kernels."""
    seen = []
    forward = CompiledSubgraph.forward

    def counted(self, *tensors):
        seen.append(self.launches)
        return forward(self, *tensors)

    monkeypatch.setattr(CompiledSubgraph, "forward", counted)
    return seen


def _gap(found, wanted):
    return (found.double() - wanted).abs()


@pytest.mark.parametrize("dtype", FORMATS)
def test_mlp_of_two_shapes(dtype, launches):
    module = Mlp().to(dtype)
    compiled = torch.compile(module, backend=backend)
    for tokens in (5, 7):
        x = torch.randn(2, tokens, HIDDEN).to(dtype)
        found = compiled(x)
        # Products and sums round in f32; in a format below, each of the six results rounds once.
        rounds = 6 * unit_roundoff(dtype) + (2 * HIDDEN + INNER) * unit_roundoff(torch.float32)
        bound = 2 * rounds * module.magnitude(x)
        wanted = in_float64(module, x)
        assert found.dtype is dtype
        assert torch.all(_gap(found, wanted) <= bound)
    assert len(launches) == 2
    assert all(launches)
    assert not remarks()


@pytest.mark.parametrize("dtype", FORMATS)
def test_norm_is_one_launch(dtype, launches):
    module = Norm().to(dtype)
    x = torch.randn(1, 6, HIDDEN).to(dtype)
    found = torch.compile(module, backend=backend)(x)
    wanted = in_float64(module, x)
    # Mean of squares: HIDDEN roundings in f32, halved by the root; the result rounds twice.
    rounds = 2 * unit_roundoff(dtype) + (HIDDEN + 6) * unit_roundoff(torch.float32)
    assert torch.all(_gap(found, wanted) <= 2 * rounds * wanted.abs())
    assert launches == [1]
    assert not remarks()


def test_router(launches):
    module = Router()
    x = torch.randn(1, 6, HIDDEN)
    weights, experts = torch.compile(module, backend=backend)(x)
    wanted, chosen = in_float64(module, x)
    assert experts.dtype is torch.int64
    assert torch.equal(experts, chosen)
    # A score s = sigmoid(l) has the error s (1 - s) |dl|, dl <= HIDDEN u |x| |w|.
    logit = (x.double().abs() @ module.weight.double().abs().T).max()
    rounds = (HIDDEN * logit + 8) * unit_roundoff(torch.float32)
    assert torch.all(_gap(weights, wanted) <= 4 * rounds * wanted)
    assert launches


def test_a_call_without_translation_stays_eager(launches):
    module = WithSort()
    x = torch.randn(1, 6, HIDDEN)
    found = torch.compile(module, backend=backend)(x)
    magnitude = x.double().abs() @ module.first.weight.double().abs().T
    inner = magnitude @ module.second.weight.double().abs().T  # |J0'| <= 1
    outer = torch.ones_like(magnitude) @ module.second.weight.double().abs().T  # |J0| <= 1
    bound = 2 * HIDDEN * unit_roundoff(torch.float32) * (inner + outer)
    assert torch.all(_gap(found, in_float64(module, x)) <= bound)
    assert len(launches) == 2
    assert [each.code for each in remarks()] == ["unknown-operation"]
    assert "bessel_j0" in str(remarks()[0])


def test_gradients_stay_eager(launches):
    module = Mlp()
    x = torch.randn(1, 3, HIDDEN)
    with torch.enable_grad():
        torch.compile(module, backend=backend)(x).sum().backward()
    assert module.gate.weight.grad is not None
    assert not launches
    assert "requires_grad" in str(remarks()[0])


def test_random_numbers_stay_eager(launches):
    def noisy(x):
        return torch.nn.functional.dropout(x * 2, 0.5, training=True)

    torch.compile(noisy, backend=backend)(torch.ones(4, HIDDEN))
    assert not launches
    assert "random" in str(remarks()[0])


def test_a_changed_input_is_changed():
    def change(x):
        x.mul_(2)
        return x + 1

    x = torch.arange(128.0).reshape(2, 64)
    found = torch.compile(change, backend=backend)(x)
    assert torch.equal(x, 2 * torch.arange(128.0).reshape(2, 64))
    assert torch.equal(found, x + 1)


def test_a_result_that_is_a_view_of_an_input_stays_one():
    def look(x):
        return x.view(4, 32), x * 3

    x = torch.ones(2, 64)
    view, product = torch.compile(look, backend=backend)(x)
    x.fill_(5)
    assert torch.all(view == 5)
    assert torch.all(product == 3)


def test_reference_executor(launches):
    module = Mlp()
    x = torch.randn(1, 3, HIDDEN)
    options = {"executor": "reference", "target": "ascend910b4"}
    found = torch.compile(module, backend=backend, options=options)(x)
    wanted = in_float64(module, x)
    bound = unit_roundoff(torch.float32) * wanted.abs()
    rounding_of_float64 = 1e-12 * module.magnitude(x)
    assert torch.all(_gap(found, wanted) <= bound + rounding_of_float64)
    assert launches


def test_weights_are_read_at_every_call():
    module = Mlp()
    compiled = torch.compile(module, backend=backend)
    x = torch.randn(1, 3, HIDDEN)
    before = compiled(x)
    module.down.weight.mul_(2)
    assert torch.equal(compiled(x), 2 * before)  # a power of two: no rounding differs


def test_unknown_option():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="unknown-option"):
        torch.compile(Mlp(), backend=backend, options={"speed": "high"})(torch.ones(2, HIDDEN))


def test_the_entry_point_names_the_backend():
    code = (
        "import sys, ascendfx; assert 'torch' not in sys.modules\n"
        "import torch._dynamo; print(*torch._dynamo.list_backends())\n"
        "from torch._dynamo.backends.registry import lookup_backend\n"
        "print(lookup_backend('ascendfx').__module__)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ascendfx" in run.stdout.split()
    assert "ascendfx.runtime.torch_backend.backend" in run.stdout
