"""The licence to run a draft layer at the positions of the main model: proved, or refused."""

from dataclasses import dataclass

from ascendfx.ir.ops import Rotary
from ascendfx.ir.program import Program
from ascendfx.passes.position_flow import PositionFlow
from ascendfx.passes.rotary_proof import Angle


@dataclass(frozen=True, slots=True)
class DraftLicence:
    """What was found about a draft program that a shift of all its positions leaves as it is.

    Attributes:
        attentions: Attentions whose scores were looked at.
        rotations: Rotary operations on their query and key sides.
        angles: Distinct columns of the tables, each `factor * cos(position * frequency + phase)`.
        proved: Rotations of query and key that meet, for which the identity was shown.
    """

    attentions: int
    rotations: int
    angles: tuple[Angle, ...]
    proved: frozenset[tuple[Rotary, Rotary]]

    def __str__(self) -> str:
        return (
            f"draft licence: {self.attentions} attentions see positions through {self.rotations} "
            f"rotations by {len(self.angles)} angles; a shift of all positions changes no score"
        )


def draft_licence(program: Program) -> DraftLicence:
    r"""Show that a draft layer computes the same at positions shifted by any constant.

    Theorem. Let every value that depends on positions be an angle table :math:`c \cos(p f + a)`,
    :math:`c \sin(p f + a)` with :math:`c, f, a` free of positions; let tables be read by rotations
    of vectors that are free of positions; and let the results reach nothing but the two sides of
    scores, with the halves of each pair opposite the halves of a pair of the same angle. Then all
    results at positions :math:`p + s`, all cached entries being those of positions :math:`p + s`,
    equal the results at positions :math:`p`. Each product of two pairs is :math:`c^2 (R_{(p+s)f+a}
    u) \cdot (R_{(p'+s)f+a} w) = c^2\, u \cdot R_{(p'-p)f} w`, which `prove_shift` shows on the
    operations found; everything else sees no position.

    Args:
        program: The entry reads ``token_ids`` and ``hidden``. Plain form, after the passes of
            `ascendfx.passes.registry.RAISE`: positions are counts over ``tokens``. Serving form:
            they are the input ``positions``, and entries of each cache are what the layer writes.

    Raises:
        GraphError: A position reaches something else, or an identity was not shown.
    """
    flow = PositionFlow(program)
    flow.run()
    return DraftLicence(
        attentions=flow.attentions,
        rotations=len(flow.rotations.ops),
        angles=tuple(flow.rotations.angles),
        proved=frozenset(flow.proved),
    )
