"""GPTQ of llmcompressor: its accumulation, its scales and its loop."""

from dataclasses import replace

import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.utils import calculate_qparams
from llmcompressor.modifiers.gptq.gptq_quantize import quantize_weight
from llmcompressor.modifiers.gptq.helpers import accumulate_hessian, make_empty_hessian
from parts.packages.side_by_side import Layer, Pair, Weight

from ascendfx import quantization as q

_GROUP = 128


def pairs() -> list[Pair]:
    """Return the formats in which both are compared."""
    cases = [(4, True, None), (4, True, _GROUP), (4, False, _GROUP), (3, True, _GROUP)]
    return [_pair(*case) for case in (*cases, (8, True, None))]


def _pair(bits: int, symmetric: bool, group: int | None) -> Pair:  # noqa: FBT001
    args = QuantizationArgs(
        num_bits=bits,
        symmetric=symmetric,
        strategy="group" if group else "channel",
        group_size=group,
        actorder="static",
    )
    rule = replace(q.FULL_RANGE, symmetric=symmetric)
    granularity = q.PerGroup(group) if group else q.PerChannel()
    spec = q.WeightSpec(q.Integer(bits), granularity, rule)
    algorithm = q.Gptq(dead="zero")

    def theirs(layer: Layer) -> Weight:
        module = torch.nn.Linear(*layer.weight.shape[::-1], bias=False)
        module.weight.data = torch.from_numpy(layer.weight.copy())
        tokens = torch.from_numpy(layer.seen)[None]
        hessian, count = accumulate_hessian(
            tokens, module, make_empty_hessian(module), torch.zeros(())
        )
        rows = module.weight.data.reshape(len(layer.weight), -1, group or layer.weight.shape[1])
        scale, zero = calculate_qparams(rows.amin(-1), rows.amax(-1), args)
        found, _, _ = quantize_weight(
            module.weight.data[None], (hessian / count)[None], scale[None], zero[None], None, args
        )
        return found[0].numpy()

    def ours(layer: Layer) -> Weight:
        known = q.statistics_of(layer.seen)
        return algorithm.quantize(layer.weight, spec, known).tensor.decode()

    kind = "" if symmetric else " asymmetric"
    where = f"groups of {group}" if group else "per channel"
    return Pair(f"GPTQ int{bits}{kind} {where}, act-order", theirs, ours)
