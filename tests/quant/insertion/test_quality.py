"""Row b for W8A8 without data: what quantization does to the text of the bundled model.

The bound. A code is off by at most half a step, and by anything up to it: errors that are uniform
within half a step have a third of the square of errors of half a step. To first order they move
logits by sums of many of them, so the mean square of the quantized model is about a third of that
of a model which is off by half a step everywhere, with signs by chance; and the divergence, which
is of second order in the logits, as well. A quantization that errs more than half a step somewhere
that matters - a scale of the wrong axis, a scale for all rows - is above it.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.ir.interpret import interpret
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.insertion.site_form import W4A8, W8A8, SiteForm
from tests.quant.insertion.bundled_program import raised_program, texts, weights
from tests.quant.insertion.half_steps import with_half_steps

LENGTH = 24


@dataclass(frozen=True)
class Figures:
    """How a model differs from the one it was made of, and how well it predicts.

    Attributes:
        rms: Root of the mean square of the differences of logits.
        divergence: Mean of KL(original | this) over all places, in nats.
        same: Share of places with the same most likely token.
        perplexity: Of the texts.
    """

    rms: float
    divergence: float
    same: float
    perplexity: float

    def __str__(self) -> str:
        return (
            f"perplexity {self.perplexity:.4f}, KL {self.divergence:.2e}, "
            f"same token {self.same:.1%}, rms of logits {self.rms:.4f}"
        )


def logits_of(program: Program, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    return interpret(program, TensorsByKey(weights(), {"token_ids": ids}))[0]


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def figures(
    logits: NDArray[np.float64], truth: NDArray[np.float64], ids: NDArray[np.int64]
) -> Figures:
    own, true = log_softmax(logits), log_softmax(truth)
    told = np.take_along_axis(own[:, :-1], ids[:, 1:, None], -1)
    return Figures(
        rms=float(np.sqrt(((logits - truth) ** 2).mean())),
        divergence=float((np.exp(true) * (true - own)).sum(-1).mean()),
        same=float((logits.argmax(-1) == truth.argmax(-1)).mean()),
        perplexity=float(np.exp(-told.mean())),
    )


def test_w8a8_errs_less_than_half_a_step_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    ids = texts(1, LENGTH)
    assert len(ids) == 12
    quantized = InsertQuantization(W8A8).run(raised_program()).program
    truth = logits_of(raised_program(), ids)
    found = figures(logits_of(quantized, ids), truth, ids)
    bound = figures(logits_of(with_half_steps(quantized, 0), ids), truth, ids)
    lines = {"model": figures(truth, truth, ids), "w8a8": found, "half a step": bound}
    with capsys.disabled():
        told = "\n".join(f"  {name:<11} {each}" for name, each in lines.items())
        print(f"\ndata-free w8a8 against float64, {ids.size} tokens:\n{told}")  # noqa: T201
    assert 0 < found.rms < bound.rms
    assert 0 < found.divergence < bound.divergence


@pytest.mark.nightly
def test_weights_decide_the_error_of_w4a8_and_not_the_shorter_codes_of_inputs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes to 119, as digits hold them, are as good as codes to 127 beside four-bit weights."""
    ids = texts(1, LENGTH)
    truth = logits_of(raised_program(), ids)
    found: dict[str, Figures] = {}
    for name, lines in (("w8a8", W8A8), ("w4a8", W4A8), ("w4a8, 127", W4A8)):
        if name.endswith("127"):
            monkeypatch.setattr(SiteForm, "lies_in_pairs", lambda *_: False)
        quantized = InsertQuantization(lines).run(raised_program()).program
        found[name] = figures(logits_of(quantized, ids), truth, ids)
    with capsys.disabled():
        told = "\n".join(f"  {name:<11} {each}" for name, each in found.items())
        print(f"\ndata-free, against float64, {ids.size} tokens:\n{told}")  # noqa: T201
    eight, four, long = found.values()
    assert four.divergence > 3 * eight.divergence
    assert four.divergence < 1.1 * long.divergence
    assert four.perplexity < 1.001 * long.perplexity
