"""Row b of the main job: bfloat16 kernels err no more than transformers in bfloat16."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ascendfx import bundled_model
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.engine.engine import Engine
from tests.models.bundled import heldout_tokens
from tests.models.full_forward import eager_logits, true_logits
from tests.models.teacher_forcing import chunk_logits, decode_logits

LIMIT = 1.25
"""Largest ratio of our error to that of transformers."""

LENGTH = 48
CHUNKS = (1, 6, 8, 2, 10, 5, 16)
"""Prefill chunks of a text; logits are known behind each."""


@dataclass(frozen=True)
class Sample:
    """Twelve languages (code is one), two texts each.

    Attributes:
        texts: 24 times 48 token ids.
        truth: Logits in float64 on the bfloat16 weights.
        eager: Logits of transformers, eager, bfloat16.
    """

    texts: list[tuple[int, ...]]
    truth: NDArray[np.float64]
    eager: NDArray[np.float64]


@pytest.fixture(scope="module")
def sample() -> Sample:
    languages = heldout_tokens(2, LENGTH)
    assert len(languages) == 12
    texts = [text for found in languages.values() for text in found]
    captured = capture_model(bundled_model(), dtype=DType.BF16, trace_folder=trace_folder_of(None))
    return Sample(texts, true_logits(captured, texts), eager_logits(texts, torch.bfloat16))


def figures(logits: NDArray[np.float64], truth: NDArray[np.float64]) -> dict[str, float]:
    """Return the error: of all logits, of the median position, of the worst tenth of positions."""
    squares = ((logits - truth) ** 2).mean(axis=-1)
    return {
        "root mean square": float(np.sqrt(squares.mean())),
        "median position": float(np.sqrt(np.median(squares))),
        "90th percentile": float(np.sqrt(np.quantile(squares, 0.9))),
    }


def report(
    capsys: pytest.CaptureFixture[str], name: str, ours: dict[str, float], eager: dict[str, float]
) -> None:
    with capsys.disabled():
        print(f"\nbfloat16 {name}, error of logits against float64:")  # noqa: T201
        for what, error in ours.items():
            print(  # noqa: T201
                f"  {what:<17} kernels {error:.5f}, transformers eager {eager[what]:.5f}, "
                f"ratio {error / eager[what]:.2f}"
            )


def test_float64_is_what_transformers_in_float32_approximates(sample: Sample) -> None:
    # float32 has 16 more bits than bfloat16: if the truth were another model, the error of float32
    # would be of the size of the logits, which are of order one.
    error = figures(eager_logits(sample.texts, torch.float32), sample.truth)
    assert (
        error["root mean square"] < figures(sample.eager, sample.truth)["root mean square"] / 2**8
    )


def test_decode_errs_at_most_a_quarter_more_than_transformers(
    engine_bf16: Engine, sample: Sample, capsys: pytest.CaptureFixture[str]
) -> None:
    halves = (sample.texts[::2], sample.texts[1::2])
    logits = np.empty_like(sample.truth)
    for start, texts in enumerate(halves):
        logits[start::2] = decode_logits(engine_bf16.executor, texts)
    ours, eager = figures(logits, sample.truth), figures(sample.eager, sample.truth)
    report(capsys, f"decode, {logits.shape[0] * LENGTH} positions", ours, eager)
    assert all(ours[what] <= LIMIT * eager[what] for what in ours)


def test_prefill_errs_at_most_a_quarter_more_than_transformers(
    engine_bf16: Engine, sample: Sample, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sum(CHUNKS) == LENGTH
    rows = np.cumsum(CHUNKS) - 1
    logits = np.stack([chunk_logits(engine_bf16.executor, text, CHUNKS) for text in sample.texts])
    ours = figures(logits, sample.truth[:, rows])
    eager = figures(sample.eager[:, rows], sample.truth[:, rows])
    report(capsys, f"prefill, {len(sample.texts) * len(rows)} positions", ours, eager)
    # Where an expert changes by rounding, a position errs a hundred times more than others. Here
    # are too few of them to compare sums: whether one falls on a known position is chance.
    del ours["root mean square"]
    assert all(ours[what] <= LIMIT * eager[what] for what in ours)
