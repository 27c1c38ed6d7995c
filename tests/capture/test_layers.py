"""Layers become functions; long runs are traced twice; anything unusual is traced as it is."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ascendfx.ir.capture.capture_module import capture_module
from ascendfx.ir.capture.capture_program import capture_program
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.capture.without_values import copy_without_values
from ascendfx.ir.ops.call import Call
from tests.capture.eager_float64 import assert_equals_eager

IDS = np.random.default_rng(1).integers(0, 11, (2, 5))


class Layer(nn.Module):
    def __init__(self, index: int, *, width: int = 8) -> None:
        super().__init__()
        self.index = index
        self.up = nn.Linear(8, width)
        self.down = nn.Linear(width, 8)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + self.down(torch.sigmoid(self.up(x))) * mask


class Stack(nn.Module):
    """Embedding, layers, head; how the layers are chained is up to subclasses."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(8, 11)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        mask = torch.arange(ids.shape[1]).unsqueeze(1) * 0.5
        return self.head(self.chain(x, mask))

    def chain(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x


class AllResultsAdded(Stack):
    def chain(self, x: Tensor, mask: Tensor) -> Tensor:
        results = [x]
        for layer in self.layers:
            results.append(layer(results[-1], mask))
        return sum(results[1:], results[0])


class EachLayerTwice(Stack):
    def chain(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(layer(x, mask), mask)
        return x


class NotAChain(Stack):
    def chain(self, x: Tensor, mask: Tensor) -> Tensor:
        return sum((layer(x, mask) for layer in self.layers), x)


class OtherMaskAtTheEnd(Stack):
    def chain(self, x: Tensor, mask: Tensor) -> Tensor:
        other = mask * 2
        for i, layer in enumerate(self.layers):
            x = layer(x, other if i > 3 else mask)
        return x


class Backwards(Stack):
    def chain(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in reversed(self.layers):
            x = layer(x, mask)
        return x


class SomeOnly(Stack):
    def chain(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers[:3]:
            x = layer(x, mask)
        return x


class Passes(nn.Module):
    """A layer with two results."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        y = self.inner(x)
        return y * mask, y


class TwoResults(Stack):
    def chain(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers:
            x, _ = layer(x, mask)
        return x


class UsesItsIndex(Layer):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x, mask) * (self.index + 1)


class UsesParity(Layer):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x, mask) * (2 if self.index > 3 else 1)


def equal_layers(count: int = 6) -> list[nn.Module]:
    return [Layer(i) for i in range(count)]


def two_kinds() -> list[nn.Module]:
    return [Layer(i, width=4 if i < 3 else 6) for i in range(8)]


def alternating() -> list[nn.Module]:
    return [Layer(i, width=4 + 2 * (i % 2)) for i in range(6)]


def shared_weight() -> list[nn.Module]:
    layers = [Layer(i) for i in range(5)]
    layers[4].up.weight = layers[0].up.weight
    return list(layers)


def capture(model: nn.Module) -> CapturedModel:
    torch.manual_seed(0)
    return capture_module(model)


def calls(captured: CapturedModel) -> list[Call]:
    return [node.op for node in captured.program.main.nodes if isinstance(node.op, Call)]


@pytest.mark.parametrize(
    ("kind", "layers", "functions", "remarks"),
    [
        (Stack, equal_layers, 1, 0),
        (Stack, two_kinds, 2, 0),
        (Stack, alternating, 2, 0),
        (Stack, shared_weight, 1, 0),
        (AllResultsAdded, equal_layers, 1, 0),
        (EachLayerTwice, equal_layers, 1, 1),
        (NotAChain, equal_layers, 1, 1),
        (OtherMaskAtTheEnd, equal_layers, 2, 1),
        (Backwards, equal_layers, 1, 1),
        (SomeOnly, equal_layers, 1, 0),
        (TwoResults, lambda: [Passes(i) for i in range(5)], 1, 1),
        (Stack, lambda: [UsesItsIndex(i) for i in range(5)], 5, 1),
    ],
)
def test_every_wiring_is_captured_as_it_runs(
    kind: type[Stack], layers: Callable[[], list[nn.Module]], functions: int, remarks: int
) -> None:
    torch.manual_seed(0)
    model = kind(layers())
    captured = capture_module(model)
    assert_equals_eager(captured, model, IDS)
    assert len(captured.remarks) == remarks, captured.remarks
    assert len(captured.program.graphs) == 1 + functions


class Bare(nn.Module):
    """A layer that tells its size by its parameter alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, 8) / 4)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + x @ self.weight.t() @ self.weight * mask


def test_layers_with_parameters_of_other_shapes_are_told_apart() -> None:
    torch.manual_seed(0)
    model = Stack([Bare(4 if i < 3 else 6) for i in range(6)])
    captured = capture_module(model)
    assert len(captured.program.graphs) == 3
    assert_equals_eager(captured, model, IDS)


def test_index_dependent_layers_are_told_apart() -> None:
    """Equal attributes except the index, which decides: only the first two would look alike."""
    torch.manual_seed(0)
    model = Stack([UsesParity(i) for i in range(6)])
    assert_equals_eager(capture_module(model), model, IDS)


def test_a_layer_says_which_keys_it_reads() -> None:
    captured = capture(Stack(equal_layers()))
    assert [dict(op.keys)["up.weight"] for op in calls(captured)] == [
        f"layers.{i}.up.weight" for i in range(6)
    ]


class MaskFromAParameter(Stack):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__(layers)
        self.slope = nn.Parameter(torch.ones(1))

    def chain(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().chain(x, mask * self.slope)


def test_values_of_positions_and_parameters_are_computed_once_and_passed() -> None:
    shared = capture(MaskFromAParameter(equal_layers())).program
    assert list(map(str, shared.graphs[1].input_types.values())) == [
        "f32[batch, tokens, 8]",
        "f32[tokens, 1]",
    ]


def test_values_of_positions_alone_are_computed_in_each_layer() -> None:
    alone = capture(Stack(equal_layers())).program
    assert list(map(str, alone.graphs[1].input_types.values())) == ["f32[batch, tokens, 8]"]


def test_a_shared_weight_is_one_key() -> None:
    captured = capture(Stack(shared_weight()))
    assert calls(captured)[4].keys[0][1] == "layers.0.up.weight"


@pytest.mark.parametrize("count", [3, 4, 9])
def test_tracing_two_layers_gives_the_same_program_as_tracing_all(count: int) -> None:
    shell, _ = copy_without_values(Stack(equal_layers(count)), None)
    short, whole = (capture_program(shell, shorten=each) for each in (True, False))
    assert short.program == whole.program
    assert short.remarks == whole.remarks == ()
