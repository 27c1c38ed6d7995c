"""Formats that kernels do not hold, casts that round, and mistakes of ours."""

import logging

import pytest
import torch
from torch.fx import GraphModule

from ascendfx.ir.capture.aten import HANDLERS
from ascendfx.passes.share_common import ShareCommon
from ascendfx.runtime.torch_backend import compile_subgraph, partition
from ascendfx.runtime.torch_backend.backend import backend
from ascendfx.runtime.torch_backend.odd_formats import odd_formats
from ascendfx.runtime.torch_backend.remarks import remarks
from tests.torch_backend.modules import HIDDEN, in_float64, unit_roundoff

HALF = HIDDEN // 2
ANGLES = torch.polar(torch.ones(HALF), torch.arange(float(HALF)))
EXECUTORS = pytest.mark.parametrize("executor", ["emulator", "reference"])


def _compiled(function, executor="emulator"):
    return torch.compile(function, backend=backend, options={"executor": executor})


def _pairs(x):
    return torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))


def _turned(x):
    return torch.view_as_real(_pairs(x) * ANGLES).flatten(-2)


def _complex_result(x):
    return _pairs(x * 2) * 3


def _both_results(x):
    pairs = _pairs(x * 2)
    return torch.view_as_real(pairs).flatten(-2) + 1, pairs


def _polar(x):
    return torch.polar(x.abs(), x)


def _in_double(x):
    return (x.double() * 2).float() + 1


@EXECUTORS
@pytest.mark.parametrize("function", [_turned, _complex_result, _both_results, _polar, _in_double])
def test_other_formats_stay_eager(function, executor):
    x = torch.randn(4, HIDDEN)
    torch.testing.assert_close(_compiled(function, executor)(x), function(x))


class _TurnedNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.product = torch.nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.norm = torch.nn.RMSNorm(HIDDEN, eps=1e-6)

    def forward(self, x):
        return self.norm(_turned(self.product(x)))


def test_complex_numbers_between_a_product_and_a_norm_cost_neither():
    module = _TurnedNorm()
    x = torch.randn(4, HIDDEN)
    torch.testing.assert_close(_compiled(module)(x), module(x), rtol=1e-4, atol=1e-4)
    assert [each.code for each in remarks()] == ["not-lowered"]
    assert "complex64" in remarks()[0].reason


def test_a_graph_in_double_is_blamed_once():
    def function(x):
        for _ in range(150):
            x = x * 2 - 1
        return x

    x = torch.randn(4, HIDDEN).double() / 2.0**150
    assert torch.equal(_compiled(function)(x), function(x))
    assert len(remarks()) == 1
    assert "float64" in remarks()[0].reason


def test_what_an_eager_call_reads_and_makes_stays_eager():
    graph = torch.fx.symbolic_trace(lambda x, y: torch.view_as_real(y * torch.view_as_complex(x)))
    kinds = {"x": torch.float32, "y": torch.complex64, "view_as_complex": torch.complex64}
    kinds |= {"mul": torch.complex64, "view_as_real": torch.float32}
    for node in graph.graph.nodes:
        if node.name in kinds:
            node.meta["val"] = torch.empty(2, 2, dtype=kinds[node.name])
    assert isinstance(graph, GraphModule)
    found = odd_formats(graph)
    assert list(found) == ["view_as_complex", "mul", "view_as_real"]
    assert set(found.values()) == {"`y` is torch.complex64"}


def _error_of_bf16(x):
    return x - x.bfloat16().float()


def _moved(x):
    return x - x.bfloat16().view(2, 2, -1).relu().view(x.shape).float()


def _promoted(x):
    return x - x.bfloat16()


def _constant(x):
    return x * torch.full((), 0.1).bfloat16().float()


def _both_used(x):
    high = x.bfloat16()
    return high, (x - high.float()).bfloat16()


@EXECUTORS
@pytest.mark.parametrize(
    "function", [_error_of_bf16, _moved, _promoted, _constant, _both_used], ids=lambda f: f.__name__
)
def test_a_cast_to_a_narrower_format_and_back_rounds(function, executor):
    x = torch.randn(4, HIDDEN)
    found, wanted = _compiled(function, executor)(x), function(x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert not remarks()


@EXECUTORS
def test_a_split_product_is_as_exact_as_one_in_single_precision(executor):
    def function(x, w):
        x_high, w_high = x.bfloat16().float(), w.bfloat16().float()
        x_low, w_low = x - x_high, w - w_high
        return x_high @ w_high + (x_low @ w_high + x_high @ w_low)

    x, w = torch.randn(4, HIDDEN), torch.randn(HIDDEN, HIDDEN)
    found = _compiled(function, executor)(x, w)
    # Of the products only low times low is left out: 2^-9 of both factors.
    unit = 2.0**-18 + 4 * HIDDEN * unit_roundoff(torch.float32)
    bound = unit * (x.double().abs() @ w.double().abs())
    assert torch.all((found.double() - x.double() @ w.double()).abs() <= bound)


class _SplitWeight(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(HIDDEN, HIDDEN))

    def forward(self, x):
        return x @ (self.weight - self.weight.bfloat16().to(self.weight.dtype))


@EXECUTORS
def test_weights_are_rounded_like_inputs(executor):
    module = _SplitWeight()
    x = torch.randn(4, HIDDEN)
    found = _compiled(module, executor)(x)
    wanted = in_float64(module, x)
    with torch.no_grad():
        low = (module.weight - module.weight.bfloat16().float()).double()
    bound = 2 * HIDDEN * unit_roundoff(torch.float32) * (x.double().abs() @ low.abs())
    assert torch.all((found.double() - wanted).abs() <= bound)
    assert torch.any(found != 0)


def _fail(*_arguments, **_keywords):
    raise KeyError("lost")


@pytest.mark.internal_error
@pytest.mark.parametrize("place", ["builder", "pass", "lowering"])
def test_a_mistake_of_ours_is_told_and_runs_eagerly(place, monkeypatch, caplog):
    if place == "builder":
        monkeypatch.setitem(HANDLERS, "aten.relu.default", _fail)
    elif place == "pass":
        monkeypatch.setattr(ShareCommon, "run", _fail)
    else:
        monkeypatch.setattr(compile_subgraph, "lower_function", _fail)

    def function(x, w):
        return torch.relu(x @ w) + 1

    x, w = torch.randn(4, HIDDEN), torch.randn(HIDDEN, HIDDEN)
    with caplog.at_level(logging.WARNING, "ascendfx"):
        found = _compiled(function)(x, w)
    torch.testing.assert_close(found, function(x, w))
    mistakes = [each for each in remarks() if each.code == "internal-error"]
    assert mistakes
    assert "KeyError: 'lost'" in mistakes[0].reason
    assert (mistakes[0].what == "`relu`") == (place == "builder")
    assert "_fail" in caplog.text  # the traceback


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_the_compilation(error, monkeypatch):
    def stop(*_arguments):
        raise error

    monkeypatch.setattr(partition, "lower_subgraph", stop)
    with pytest.raises(error):
        _compiled(lambda x: x * 2)(torch.randn(4, HIDDEN))
