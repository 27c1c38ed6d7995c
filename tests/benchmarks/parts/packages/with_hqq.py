"""HQQ of its package, without packing of the codes."""

import torch
from hqq.core.quantize import Quantizer
from parts.packages.side_by_side import Layer, Pair, Weight

from ascendfx import quantization as q

_GROUP = 64


def pairs() -> list[Pair]:
    """Return the formats in which both are compared."""
    return [_pair(bits, axis) for bits in (4, 3, 2) for axis in (1, 0)]


def _pair(bits: int, axis: int) -> Pair:
    spec = q.WeightSpec(q.Integer(bits, signed=False), q.PerGroup(_GROUP))
    algorithm = q.Hqq(axis=axis, legacy=True)

    def theirs(layer: Layer) -> Weight:
        codes, meta = Quantizer.quantize(
            torch.from_numpy(layer.weight),
            nbits=bits,
            group_size=_GROUP,
            axis=axis,
            bitpack=False,
            device="cpu",
        )
        return Quantizer.dequantize(codes, {**meta, "compute_dtype": torch.float32}).numpy()

    def ours(layer: Layer) -> Weight:
        return algorithm.quantize(layer.weight, spec).tensor.decode()

    return Pair(f"HQQ int{bits} groups of {_GROUP}, axis {axis}", theirs, ours)
