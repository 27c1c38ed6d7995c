"""SignRound of AutoRound: its wrapper, optimizer and schedule, on the output of one layer.

Ours is SSZW, which learns the same parameters (an offset per weight, range or scale and zero point
per group) in as many steps; it is the nearest of ours and no copy.
"""

from dataclasses import replace

import torch
from auto_round.algorithms.quantization.sign_round.sign_sgd import SignSGD
from auto_round.wrapper import WrapperLinear
from parts.packages.side_by_side import Layer, Pair, Weight

from ascendfx import quantization as q

_STEPS, _BATCH = 200, 8
"""The package's usual ones; its batch has eight texts."""


def pairs() -> list[Pair]:
    """Return the formats in which both are compared."""
    return [_pair(bits) for bits in (4, 3, 2)]


def _pair(bits: int) -> Pair:
    rule = replace(q.FULL_RANGE, symmetric=False)
    spec = q.WeightSpec(q.Integer(bits, signed=False), q.PerGroup(128), rule)
    algorithm = q.Sszw(steps=_STEPS)

    def ours(layer: Layer) -> Weight:
        known = q.statistics_of(layer.seen)
        return algorithm.quantize(layer.weight, spec, known).tensor.decode()

    what = f"SignRound / SSZW uint{bits} groups of 128, {_STEPS} steps"
    return Pair(what, lambda layer: _tuned(layer, bits), ours)


def _tuned(layer: Layer, bits: int) -> Weight:
    module = torch.nn.Linear(*layer.weight.shape[::-1], bias=False)
    module.weight.data = torch.from_numpy(layer.weight.copy())
    form = {"bits": bits, "group_size": 128, "sym": False, "data_type": "int", "act_bits": 16}
    for name, value in {**form, "scale_dtype": torch.float32}.items():
        setattr(module, name, value)
    wrapped = WrapperLinear(module, enable_torch_compile=False, device="cpu", iters=_STEPS)
    texts = torch.from_numpy(layer.seen).reshape(4 * _BATCH, -1, layer.weight.shape[1])
    goals = texts @ module.weight.data.T
    rate = torch.tensor(1 / _STEPS)
    optimizer = SignSGD(list(wrapped.params.values()), lr=rate, weight_decay=0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=_STEPS)
    least, best = float("inf"), {}
    order = torch.Generator().manual_seed(0)
    for _ in range(_STEPS):
        chosen = torch.randperm(len(texts), generator=order)[:_BATCH]
        loss = torch.nn.functional.mse_loss(wrapped(texts[chosen]), goals[chosen])
        if loss.item() < least:
            least = loss.item()
            best = {name: each.detach().clone() for name, each in wrapped.params.items()}
        (1000 * loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return wrapped.unwrapper(best).weight.data.numpy()
