"""Plans of small checkpoints with the names that DeepSeek-V3 has."""

from dataclasses import replace

import ml_dtypes
import numpy as np

from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor, Scheme
from ascendfx.quant_passes.checkpoint.saved_weight import Activation, SavedWeight, StaticInputs
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import PerBlock, PerChannel, PerGroup
from ascendfx.quant_passes.scaling.round_to_nearest import round_to_nearest
from ascendfx.quant_passes.scaling.scale_rule import FP8_DYNAMIC, MSMODELSLIM

W8A8_DYNAMIC = Scheme(Integer(8), PerChannel(), "dynamic")
W8A8_STATIC = Scheme(Integer(8), PerChannel(), "static")
W4A8_DYNAMIC = Scheme(Integer(4), PerChannel(), "dynamic")
W8A16 = Scheme(Integer(8), PerChannel())
W8A16_GROUPS = Scheme(Integer(8), PerGroup(16))
FP8_BLOCKS = Scheme(E4M3FN(), PerBlock(16, 16), "dynamic")
INPUTS = StaticInputs(0.03, -7)


def values_of(name: str, shape: tuple[int, ...], dtype: DType = DType.BF16) -> np.ndarray:
    random = np.random.default_rng(list(name.encode()))
    return random.standard_normal(shape).astype(np.float32).astype(dtype.numpy)


def planned(
    name: str,
    shape: tuple[int, ...],
    scheme: Scheme | None = None,
    dtype: DType = DType.BF16,
    bias: np.ndarray | None = None,
) -> PlannedTensor:
    def make() -> SavedWeight:
        values = values_of(name, shape, dtype)
        if scheme is None:
            return SavedWeight(values)
        rule = FP8_DYNAMIC if isinstance(scheme.format, E4M3FN) else MSMODELSLIM
        rule = replace(rule, symmetric=scheme.symmetric, stored=scheme.scales)
        weight = round_to_nearest(values, scheme.format, scheme.granularity, rule)
        activation: Activation = INPUTS if scheme.activation == "static" else None
        if scheme.activation == "dynamic":
            activation = "dynamic"
        return SavedWeight(weight, activation, bias)

    return PlannedTensor(name, shape, dtype, scheme, make)


def deepseek(experts: int = 2) -> list[PlannedTensor]:
    """A dense layer, one of experts, and a draft layer; the policy of `w4a8`."""
    plan = [planned("model.embed_tokens.weight", (40, 32))]
    for layer in range(3):
        head = f"model.layers.{layer}"
        attention = f"{head}.self_attn"
        plan += [
            planned(f"{head}.input_layernorm.weight", (32,)),
            planned(f"{attention}.q_a_proj.weight", (24, 32), W8A8_DYNAMIC),
            planned(f"{attention}.kv_a_proj_with_mqa.weight", (20, 32), W8A8_DYNAMIC),
            planned(f"{attention}.kv_b_proj.weight", (64, 16)),
            planned(f"{attention}.o_proj.weight", (32, 64), W8A8_STATIC),
        ]
        mlp, routed = f"{head}.mlp", layer > 0
        for block in (
            [f"{mlp}.experts.{i}" for i in range(experts)] + [f"{mlp}.shared_experts"]
            if routed
            else [mlp]
        ):
            scheme = W4A8_DYNAMIC if ".experts." in block and layer == 1 else W8A8_DYNAMIC
            plan += [
                planned(f"{block}.gate_proj.weight", (16, 32), scheme),
                planned(f"{block}.up_proj.weight", (16, 32), scheme),
                planned(f"{block}.down_proj.weight", (32, 16), scheme),
            ]
        if routed:
            plan.append(planned(f"{mlp}.gate.weight", (experts, 32)))
            name = f"{mlp}.gate.e_score_correction_bias"
            plan.append(planned(name, (experts,), dtype=DType.F32))
    plan.append(planned("model.layers.2.embed_tokens.weight", (40, 32)))
    return [*plan, planned("lm_head.weight", (40, 32))]


BF16 = np.dtype(ml_dtypes.bfloat16)
