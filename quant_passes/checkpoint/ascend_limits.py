"""What vllm-ascend asks of weights that it loads as one."""

import re
from collections.abc import Mapping

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.checkpoint.ascend_names import is_routed_expert

_FUSED = (
    ("gate_proj", "up_proj"),
    ("q_a_proj", "kv_a_proj_with_mqa"),
)
_LAYER_EXPERT = re.compile(r"(.*\.mlp\.experts)\.\d+\..*")


def check_together(kinds: Mapping[str, str]) -> None:
    """Check that weights which are loaded as one have one type.

    Gate and up projection, and both latent projections, are one product each; the type of routed
    experts of a layer is read from the first one.

    Args:
        kinds: Type of each weight by name.

    Raises:
        GraphError: `not-storable`.
    """
    first: dict[str, str] = {}
    for name in kinds:
        other = first.setdefault(loaded_with(name), name)
        if kinds[other] != kinds[name]:
            reason = (
                f"ascend: `{other}` is {kinds[other]} and `{name}` is {kinds[name]}, and "
                "vllm-ascend loads both as one"
            )
            hint = "give both the same policy"
            raise GraphError("not-storable", reason, hint=hint)


def loaded_with(name: str) -> str:
    """Return a label that a weight shares with those that are loaded with it as one; or its name.

    Args:
        name: Its name in the checkpoint.
    """
    module = name.removesuffix(".weight")
    head, _, last = module.rpartition(".")
    if name == module:
        return name
    if is_routed_expert(name):
        return _LAYER_EXPERT.sub(r"\1", name)
    fused = next((each for each in _FUSED if last in each), None)
    return f"{head}.{'+'.join(fused)}" if fused else name
