"""In which form a projection computes, and which line of a recipe says so."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import TensorType

_BITS = range(2, 9)
HALF_BYTE = 4
"""Bits of which two codes share a byte."""


@dataclass(frozen=True, slots=True)
class SiteForm:
    """A projection of codes: for each weight, and eight bits for its inputs, token by token.

    Attributes:
        bits: Codes of weights are whole numbers from ``-(2^(bits-1) - 1)`` to ``2^(bits-1) - 1``
            if the step makes them. Up to four lie two in a byte (``i4x2``) where the inner axis is
            even, and are multiplied by the digits of the inputs; others are held in ``i8``.
        delivered: Codes and scales come from the weights, as ``<key>#codes`` and ``<key>#scale``;
            else they are made of the weight ``<key>``, rounded to nearest with one scale for each
            output channel.

    Raises:
        GraphError: ``bits`` is not 2 to 8.
    """

    bits: int = 8
    delivered: bool = False

    def __post_init__(self) -> None:
        if self.bits not in _BITS:
            raise GraphError(
                "bad-site-form",
                f"codes of {self.bits} bits are no form of a projection",
                hint=f"choose {_BITS.start} to {_BITS.stop - 1} bits",
            )

    def lies_in_pairs(self, weight: TensorType) -> bool:
        """Return whether codes of a weight ``[.., out, in]`` are stored two in a byte."""
        inner = weight.shape[-1]
        return self.bits <= HALF_BYTE and isinstance(inner, int) and inner % 2 == 0

    @property
    def largest(self) -> int:
        """The largest code of a weight that the step makes."""
        return 2 ** (self.bits - 1) - 1


@dataclass(frozen=True, slots=True)
class SiteLine:
    """One line of a recipe.

    Attributes:
        match: Checkpoint keys, with ``*``, ``?`` and ``[abc]``; a star stands for dots, too.
        form: What becomes of them; None: they keep their format.
    """

    match: str
    form: SiteForm | None


def form_of(lines: Iterable[SiteLine], key: str) -> SiteForm | None:
    """Return the form that the first matching line gives a checkpoint key; None: its own format."""
    return next((line.form for line in lines if fnmatchcase(key, line.match)), None)


W8A8: tuple[SiteLine, ...] = (
    SiteLine("*.kv_b_proj.weight", None),
    SiteLine("*.mlp.gate.weight", None),
    SiteLine("*lm_head.weight", None),
    SiteLine("*.shared_head.*", None),
    SiteLine("*.eh_proj.weight", None),
    SiteLine("*_proj.weight", SiteForm()),
    SiteLine("*.kv_a_proj_with_mqa.weight", SiteForm()),
    SiteLine("*.experts.*", SiteForm()),
)
"""Eight bits for attention, experts and dense layers, without data.

What is read from the latent cache (``kv_b_proj``, absorbed for decode), the router, the head and
what joins the inputs of a draft layer keep their format. Source: Ascend/msmodelslim 3de0a3c4,
lab_practice/deepseek_v3: its recipes exclude the same, up to ``eh_proj``.
"""

W4A8: tuple[SiteLine, ...] = (
    *(line for line in W8A8 if line.form is None),
    SiteLine("*.experts.*", SiteForm(4)),
    *(line for line in W8A8 if line.form is not None),
)
"""Four bits for routed experts, the rest as `W8A8`, without data.

Draft layers take the lines of `W8A8`, see `draft_lines`. Source: Ascend/msmodelslim
3de0a3c4, lab_practice/deepseek_v3, deepseek_w4a8_per_channel.
"""
