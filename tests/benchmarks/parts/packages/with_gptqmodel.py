"""GPTQ of GPTQModel, layer by layer."""

from dataclasses import replace

import torch
from gptqmodel.quantization.config import QuantizeConfig
from gptqmodel.quantization.gptq import GPTQ
from parts.packages.side_by_side import Layer, Pair, Weight

from ascendfx import quantization as q

_DAMPING = 0.01


def pairs() -> list[Pair]:
    """Return the formats in which both are compared."""
    return [
        _pair(4, symmetric=True, order=True),
        _pair(4, symmetric=False, order=True),
        _pair(4, symmetric=True, order=False),
        _pair(3, symmetric=True, order=True),
    ]


def _pair(bits: int, *, symmetric: bool, order: bool) -> Pair:
    def config() -> QuantizeConfig:
        return QuantizeConfig(
            bits=bits,
            group_size=128,
            sym=symmetric,
            desc_act=order,
            act_group_aware=False,
            static_groups=order,
            damp_percent=_DAMPING,
            offload_to_disk=False,
        )

    rule = replace(q.FULL_RANGE, symmetric=symmetric)
    spec = q.WeightSpec(q.Integer(bits, signed=False), q.PerGroup(128), rule)
    groups = "static" if order else "dynamic"
    algorithm = q.Gptq(act_order=order, groups=groups, damping=_DAMPING, dead="zero-first")

    def theirs(layer: Layer) -> Weight:
        module = torch.nn.Linear(*layer.weight.shape[::-1], bias=False)
        module.weight.data = torch.from_numpy(layer.weight.copy())
        task = GPTQ(module, config())
        task.quantizer.configure(perchannel=True)
        task.add_batch(torch.from_numpy(layer.seen)[None], torch.empty(0))
        return task.quantize()[0].numpy()

    def ours(layer: Layer) -> Weight:
        known = q.statistics_of(layer.seen)
        return algorithm.quantize(layer.weight, spec, known).tensor.decode()

    kind = "" if symmetric else " asymmetric"
    how = "act-order, static groups" if order else "dynamic groups"
    return Pair(f"GPTQ int{bits}{kind} groups of 128, {how}", theirs, ours)
