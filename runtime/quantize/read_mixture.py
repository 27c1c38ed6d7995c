"""The texts of a recipe as tokens of a model directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascendfx.quant_passes.calibration.mixture import Mixture, mix
from ascendfx.quant_passes.policy.recipe import Calibration
from ascendfx.runtime.engine.text_codec import TextCodec


def read_mixture(directory: Path, config: Mapping[str, Any], calibration: Calibration) -> Mixture:
    """Return what calibration reads.

    Args:
        directory: Of the model; its tokenizer is opened if a set has texts.
        config: Content of its ``config.json``.
        calibration: Sets and how much of them.

    Raises:
        GraphError: `bad-texts`; what opening a tokenizer raises.
    """
    vocabulary = config.get("vocab_size")
    known = vocabulary if isinstance(vocabulary, int) else 1 << 31
    return mix(calibration, _Encoder(directory / "tokenizer.json"), known)


class _Encoder:
    """Opens the tokenizer when the first text is encoded; tokens need none."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._codec: TextCodec | None = None

    def __call__(self, text: str) -> list[int]:
        self._codec = self._codec or TextCodec(self._file)
        return self._codec.encode(text)
