"""Number formats, scales, codes and weight algorithms: ours, and those of your own.

>>> from ascendfx import quantization as q
>>> weight = q.round_to_nearest(w, q.format_named("int4"), q.PerGroup(128))  # doctest: +SKIP
>>> weight.decode(), weight.bytes, weight.squared_error(w)  # doctest: +SKIP
>>> q.register_format(MyFormat())  # doctest: +SKIP
>>> spec = q.WeightSpec(q.format_named("int4"), q.PerGroup(128))
>>> q.algorithm_named("gptq").quantize(w, spec, q.statistics_of(x))  # doctest: +SKIP

>>> ascendfx.compile(model, quant=(q.SiteLine("*.o_proj.weight", None), *q.W8A8))  # doctest: +SKIP
>>> ascendfx.compile(model, quant=(*q.W8A8, *q.LATENTS))  # doctest: +SKIP

A format of your own has the attributes and methods of `Format`; `check` refuses it with
counterexamples if it does not do what it declares; `check_algorithm` does the same for algorithms
of your own. Formats, scale rules, layouts and
algorithms are told in quant_passes/README.md. Needs no torch.
"""

from ascendfx.quant_passes.algorithms.activation_clipping import (
    ActivationClipping,
    learned_activation_clipping,
)
from ascendfx.quant_passes.algorithms.check_algorithm import check_algorithm
from ascendfx.quant_passes.algorithms.gptq import Gptq
from ascendfx.quant_passes.algorithms.hqq import Hqq
from ascendfx.quant_passes.algorithms.learned_clipping import LearnedClipping
from ascendfx.quant_passes.algorithms.lookup_table import LookupTable
from ascendfx.quant_passes.algorithms.mean_square import MeanSquare
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.percentile import Percentile
from ascendfx.quant_passes.algorithms.qserve import Qserve
from ascendfx.quant_passes.algorithms.registry import algorithm_named, register_algorithm
from ascendfx.quant_passes.algorithms.ssz import MSMODELSLIM_SSZ, OPTIQUANT_SSZ, Ssz
from ascendfx.quant_passes.algorithms.sszw import Sszw
from ascendfx.quant_passes.algorithms.tuned_scales import TunedScales
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    StoredWeight,
    WeightAlgorithm,
    WeightSpec,
)
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
from ascendfx.quant_passes.insertion.cache_form import LATENTS, CacheForm, CacheLine
from ascendfx.quant_passes.insertion.site_form import W4A8, W8A8, SiteForm, SiteLine
from ascendfx.quant_passes.migration.choices import FACTORS, ROTATIONS, Choices
from ascendfx.quant_passes.migration.find_transforms import Search, find_transforms
from ascendfx.quant_passes.migration.migrate_outliers import MigrateOutliers
from ascendfx.quant_passes.migration.transform_set import TransformSet, read_metadata
from ascendfx.quant_passes.policy.read_recipe import read_recipe, recipe_of
from ascendfx.quant_passes.policy.recipe import (
    Calibration,
    LatentCache,
    Recipe,
    RecipeLine,
    SitePolicy,
    TextShare,
)
from ascendfx.quant_passes.policy.shipped import recipe_named
from ascendfx.quant_passes.policy.site_lines import site_lines
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
from ascendfx.quant_passes.statistics import InputStatistics, merged, statistics_of, without_tokens
from ascendfx.quant_passes.transforms.awq import Awq
from ascendfx.quant_passes.transforms.flex_smooth_quant import FlexSmoothQuant
from ascendfx.quant_passes.transforms.hadamard import hadamard_rotation
from ascendfx.quant_passes.transforms.random_rotation import random_rotation
from ascendfx.quant_passes.transforms.rotation import Rotation
from ascendfx.quant_passes.transforms.scaling import Scaling
from ascendfx.quant_passes.transforms.smooth_quant import SmoothQuant

__all__ = [
    "DYNAMIC",
    "E4M3FN",
    "E5M2",
    "FACTORS",
    "FP4",
    "FP8_DYNAMIC",
    "FULL_RANGE",
    "LATENTS",
    "MSMODELSLIM",
    "MSMODELSLIM_SSZ",
    "NF4",
    "OMNIQUANT",
    "OPTIQUANT",
    "OPTIQUANT_SSZ",
    "ROTATIONS",
    "W4A8",
    "W8A8",
    "ActivationClipping",
    "Affine",
    "Awq",
    "CacheForm",
    "CacheLine",
    "Calibration",
    "Choices",
    "Codebook",
    "Conduct",
    "DFloat11",
    "DFloat11Streams",
    "FlexSmoothQuant",
    "Format",
    "Gptq",
    "GroupCodes",
    "GroupFormat",
    "HiFloat4",
    "HiFloat8",
    "Hqq",
    "InputStatistics",
    "Integer",
    "LatentCache",
    "LearnedClipping",
    "LookupTable",
    "MeanSquare",
    "MigrateOutliers",
    "MinMax",
    "PerBlock",
    "PerChannel",
    "PerGroup",
    "PerTensor",
    "PerToken",
    "Percentile",
    "Qserve",
    "QuantizedTensor",
    "QuantizedWeight",
    "Recipe",
    "RecipeLine",
    "Rotation",
    "RowCodebooks",
    "ScaleRule",
    "Scaling",
    "Search",
    "SiteForm",
    "SiteLine",
    "SitePolicy",
    "SmoothQuant",
    "Ssz",
    "Sszw",
    "StoredWeight",
    "TextShare",
    "TransformSet",
    "TunedScales",
    "VectorCodebook",
    "WeightAlgorithm",
    "WeightSpec",
    "algorithm_named",
    "check",
    "check_algorithm",
    "find_transforms",
    "format_named",
    "hadamard_rotation",
    "learned_activation_clipping",
    "merged",
    "random_rotation",
    "read_metadata",
    "read_recipe",
    "recipe_named",
    "recipe_of",
    "register_algorithm",
    "register_format",
    "round_to_nearest",
    "site_lines",
    "statistics_of",
    "without_tokens",
]
