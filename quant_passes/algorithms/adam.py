"""Adam, as a pure step from one state to the next."""

from dataclasses import dataclass

import numpy as np

from ascendfx.quant_passes.formats.format import Float64s

_MEAN, _SQUARE, _LEAST = 0.9, 0.999, 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Adam:
    """Running means of a gradient and of its square, of the shape of a parameter.

    Source: Kingma and Ba, "Adam", arXiv 1412.6980, algorithm 1, with its defaults.
    """

    mean: Float64s
    square: Float64s
    steps: int = 0

    def after(self, gradient: Float64s) -> "Adam":
        """Return the state with one gradient more."""
        return Adam(
            _MEAN * self.mean + (1 - _MEAN) * gradient,
            _SQUARE * self.square + (1 - _SQUARE) * gradient * gradient,
            self.steps + 1,
        )

    def direction(self) -> Float64s:
        """Return what is to be subtracted at a learning rate of one."""
        mean = self.mean / (1 - _MEAN**self.steps)
        root = np.sqrt(self.square / (1 - _SQUARE**self.steps))
        return mean / (root + _LEAST)


def adam(parameter: Float64s) -> Adam:
    """Return the state before the first step."""
    return Adam(np.zeros_like(parameter), np.zeros_like(parameter))
