"""What vllm-ascend asks of weights that it loads as one."""

import re
from collections.abc import Iterator, Mapping

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
    for group, name in _groups(kinds):
        other = first.setdefault(group, name)
        if kinds[other] != kinds[name]:
            reason = (
                f"ascend: `{other}` is {kinds[other]} and `{name}` is {kinds[name]}, and "
                "vllm-ascend loads both as one"
            )
            hint = "give both the same policy"
            raise GraphError("not-storable", reason, hint=hint)


def _groups(kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each weight that is loaded with others, and a name of them together."""
    for name in kinds:
        module = name.removesuffix(".weight")
        if name == module:
            continue
        head, _, last = module.rpartition(".")
        if is_routed_expert(name):
            yield _LAYER_EXPERT.sub(r"\1", name), name
        else:
            for fused in _FUSED:
                if last in fused:
                    yield f"{head}.{'+'.join(fused)}", name
