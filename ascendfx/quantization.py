"""Number formats, scales and codes: ours, and formats of your own.

>>> from ascendfx import quantization as q
>>> weight = q.round_to_nearest(w, q.format_named("int4"), q.PerGroup(128))  # doctest: +SKIP
>>> weight.decode(), weight.bytes, weight.squared_error(w)  # doctest: +SKIP
>>> q.register_format(MyFormat())  # doctest: +SKIP

A format of your own has the attributes and methods of `Format`; `check` refuses it with
counterexamples if it does not do what it declares. Formats, scale rules and layouts are told in
quant_passes/README.md. Needs no torch.
"""

from ascendfx.quant_passes.formats.check_format import check_format as check
from ascendfx.quant_passes.formats.codebook import Codebook, RowCodebooks
from ascendfx.quant_passes.formats.dfloat11 import DFloat11, DFloat11Streams
from ascendfx.quant_passes.formats.float8 import E4M3FN, E5M2
from ascendfx.quant_passes.formats.format import Conduct, Format, GroupCodes, GroupFormat
from ascendfx.quant_passes.formats.hifloat4 import HiFloat4
from ascendfx.quant_passes.formats.hifloat8 import HiFloat8
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.formats.normal_float4 import FP4, NF4
from ascendfx.quant_passes.formats.registry import format_named, register_format
from ascendfx.quant_passes.formats.vector_codebook import VectorCodebook
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import (
    PerBlock,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
)
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.round_to_nearest import round_to_nearest
from ascendfx.quant_passes.scaling.scale_rule import (
    DYNAMIC,
    FP8_DYNAMIC,
    FULL_RANGE,
    MSMODELSLIM,
    OMNIQUANT,
    OPTIQUANT,
    ScaleRule,
)

__all__ = [
    "DYNAMIC",
    "E4M3FN",
    "E5M2",
    "FP4",
    "FP8_DYNAMIC",
    "FULL_RANGE",
    "MSMODELSLIM",
    "NF4",
    "OMNIQUANT",
    "OPTIQUANT",
    "Affine",
    "Codebook",
    "Conduct",
    "DFloat11",
    "DFloat11Streams",
    "Format",
    "GroupCodes",
    "GroupFormat",
    "HiFloat4",
    "HiFloat8",
    "Integer",
    "PerBlock",
    "PerChannel",
    "PerGroup",
    "PerTensor",
    "PerToken",
    "QuantizedTensor",
    "RowCodebooks",
    "ScaleRule",
    "VectorCodebook",
    "check",
    "format_named",
    "register_format",
    "round_to_nearest",
]
