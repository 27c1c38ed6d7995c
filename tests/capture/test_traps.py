"""Models that public tools capture wrongly: right here, or refused with the line."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ascendfx.ir.capture.capture_module import capture_module
from ascendfx.ir.diagnostic import GraphError
from tests.capture.eager_float64 import assert_equals_eager

IDS = np.random.default_rng(0).integers(0, 11, (3, 9))


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11, bias=False)


class ResultOfChangeInPlaceUnused(Toy):
    """pytorch#68301: removing `x.mul_` as dead leaves a stale x."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x.mul_(x * 2)
        return self.head(x)


class ChangeThroughAView(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        flat = x.view(-1, 8)
        flat.add_(1)
        flat[0].mul_(3.0)
        return self.head(x)


class ChangeThroughIdleDropout(Toy):
    """pytorch#195422: dropout outside training returns its input."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        y = functional.dropout(x, 0.5, training=False)
        y.add_(1)
        return self.head(x)


class ChangeThroughDropoutModule(Toy):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        y = self.drop(x)
        y += 1
        return self.head(x * y)


class ChangeThroughIdleConversions(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x.contiguous().add_(1)
        x.to(x.dtype).mul_(2)
        x.reshape(x.shape).sub_(0.5)
        return self.head(x)


class CopyBeforeChange(Toy):
    """pytorch#174938: `x + 0` is not x when x is changed later."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        before = x + 0
        x.mul_(2)
        return self.head(before + x)


class AssignmentToParts(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x[:, 0] = 0
        x[..., 1:3] = x[..., 2:4] * 2
        x[:, -1:] += 1
        return self.head(x)


class FilledPieceByPiece(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        out = x.new_empty(*ids.shape, 8)
        out[..., 5:] = x[..., :3]
        out[..., :2] = x[..., 3:5]
        out[..., 2:5] = x[..., 5:]
        return self.head(out)


class ConstantsInCode(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        scale = torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8])
        return self.head(self.embed(ids) * scale + torch.tensor(2.0) + torch.arange(8))


class ComplexTable(Toy):
    def __init__(self) -> None:
        super().__init__()
        table = torch.polar(torch.ones(500, 4), torch.randn(500, 4))
        self.register_buffer("table", table, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
        turned = pairs * self.table[: ids.shape[1]]
        return self.head(torch.view_as_real(turned).flatten(2))


class BuiltInAttention(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        q = self.embed(ids).view(*ids.shape, 4, 2).transpose(1, 2)
        k = q[:, :2] * 2
        y = functional.scaled_dot_product_attention(q, k, k + 1, is_causal=True, enable_gqa=True)
        return self.head(y.transpose(1, 2).reshape(*ids.shape, 8))


@pytest.mark.parametrize(
    "kind",
    [
        ResultOfChangeInPlaceUnused,
        ChangeThroughAView,
        ChangeThroughIdleDropout,
        ChangeThroughDropoutModule,
        ChangeThroughIdleConversions,
        CopyBeforeChange,
        AssignmentToParts,
        FilledPieceByPiece,
        ConstantsInCode,
        BuiltInAttention,
    ],
)
def test_is_captured_as_it_runs(kind: type[Toy]) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    assert_equals_eager(capture_module(model), model, IDS)


def test_complex_tables_become_pairs_of_reals() -> None:
    torch.manual_seed(0)
    model = ComplexTable()
    captured = capture_module(model)
    assert {"table.real", "table.imag"} <= set(captured.source.keys())
    model.table = model.table.to(torch.complex128)
    assert_equals_eager(captured, model, IDS)


class ChangesABuffer(Toy):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(8))

    def forward(self, ids: Tensor) -> Tensor:
        self.count.add_(1)  # here
        return self.head(self.embed(ids) + self.count)


class ChangesItsInput(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        ids.add_(1)  # here
        return self.head(self.embed(ids))


class ChangesAParameter(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        self.head.weight.mul_(2)  # here
        return self.head(self.embed(ids))


class AssignsABuffer(Toy):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(8))

    def forward(self, ids: Tensor) -> Tensor:  # here
        self.count = self.count + 1
        return self.head(self.embed(ids) + self.count)


class Counts(Toy):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, ids: Tensor) -> Tensor:  # here
        self.calls += 1
        return self.head(self.embed(ids) + self.calls)


class Collects(Toy):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, ids: Tensor) -> Tensor:  # here
        self.seen.append(self.embed(ids))
        return self.head(self.seen[0])


class Branches(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        if x.sum() > 0:  # here
            x = x * 2
        return self.head(x)


class LoopsOverHits(Toy):
    """transformers#38518: only the experts that a sample hits would survive."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids).view(-1, 8)
        out = torch.zeros_like(x)
        for row in (x[:, 0] > 0).nonzero():  # here
            out[row] = x[row]
        return self.head(out.view(*ids.shape, 8))


class ReadsANumber(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids)[:, : int(ids.max())])  # here


class UnknownOperation(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.special.bessel_j0(self.embed(ids)))  # here


class Random(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids) + torch.rand(8))  # here


class SelectsByMask(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(x + x[x > 0].sum())  # here


@pytest.mark.parametrize(
    ("kind", "code", "reason"),
    [
        (ChangesABuffer, "mutation", "changes `count`"),
        (ChangesItsInput, "mutation", "changes `token_ids`"),
        (ChangesAParameter, "mutation", "changes `head.weight`"),
        (AssignsABuffer, "mutation", "changes `count`"),
        (Counts, "mutation", "changes `calls`"),
        (Collects, "mutation", "changes `seen`"),
        (Branches, "data-dependent", "control flow"),
        (LoopsOverHits, "data-dependent", "control flow"),
        (ReadsANumber, "data-dependent", "control flow"),
        (SelectsByMask, "unsupported-operation", "depends on the values"),
        (UnknownOperation, "unknown-operation", "bessel_j0"),
        (Random, "unknown-operation", "rand"),
    ],
)
def test_is_refused_with_the_line_and_a_remedy(
    kind: type[Toy], code: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(GraphError) as caught:
        capture_module(kind())
    error = caught.value
    assert error.code == code
    assert reason in error.reason
    assert error.hint
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert error.location.file == __file__
    assert source[error.location.line - 1].endswith("# here")
    assert not "".join(capfd.readouterr()), "PyTorch's own messages are kept away"


def test_the_message_reads_as_documented() -> None:
    with pytest.raises(GraphError) as caught:
        capture_module(UnknownOperation())
    line = caught.value.location.line
    assert str(caught.value) == (
        "error[unknown-operation]: no translation for `aten.special_bessel_j0.default`\n"
        f"  --> {__file__}:{line}\n"
        "   |\n"
        "   | %special_bessel_j0 : [num_users=1] = call_function"
        "[target=torch.ops.aten.special_bessel_j0.default](args = (%embedding,), kwargs = {})\n"
        "   |\n"
        "\n"
        "hint: write the line with operations listed in ir/capture/README.md, "
        "or add a builder for the overload in ir/capture/aten"
    )


def test_the_users_module_is_left_as_it_was() -> None:
    model = ChangeThroughDropoutModule().train()
    weight, before = model.embed.weight, model.embed.weight.detach().clone()
    capture_module(model)
    assert model.training
    assert model.drop.training
    assert model.embed.weight is weight
    assert torch.equal(weight, before)


def test_parameters_are_shared_not_copied() -> None:
    model = CopyBeforeChange()
    captured = capture_module(model)
    array = captured.source.load("embed.weight")
    assert np.shares_memory(array, model.embed.weight.detach().numpy())


@pytest.mark.parametrize("model", [None, 3, b"folder", nn.Linear])
def test_what_is_no_model_is_named(model: object) -> None:
    with pytest.raises(GraphError, match=r"error\[no-model\]: the model is of type `") as caught:
        capture_module(model)  # pyright: ignore[reportArgumentType]
    assert "Hugging Face directory" in caught.value.hint


class _Plain(Toy):
    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids))


def test_a_capture_under_autocast_is_refused() -> None:
    """It would have casts to bfloat16 that the model does not have."""
    model = _Plain()
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(GraphError, match=r"error\[autocast\]: .*adds casts to bfloat16") as caught,
    ):
        capture_module(model)
    assert 'dtype="bfloat16"' in caught.value.hint
    assert capture_module(model).program
