"""Which transform goes to which kind of place."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from ascendfx.ir.diagnostic import GraphError

Transform = Literal["factors", "rotation"]


@dataclass(frozen=True, slots=True)
class Choices:
    """What becomes of each kind of place; None: nothing.

    Attributes:
        stream: Norms that read the residual stream: factors from each gain to all that read the
            norm; or one rotation of the stream, which embedding, all that write to it and all that
            read it take into their weights. Routers are among the readers, in f32.
        latent: Norms of what a projection makes, such as ``q_a`` and the latent of ``kv_a``:
            factors; or a rotation between both projections. Rows for the rotary part stay.
        values: Attention between the rows that make values and the projection behind it: factors
            for each head and channel; or one rotation for all heads.
        up: Products of gated activations, between up and down projection, for each expert: factors.

    Raises:
        GraphError: `bad-migration`: a transform that a kind of place cannot have.
    """

    stream: Transform | None = None
    latent: Transform | None = None
    values: Transform | None = None
    up: Transform | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            found: Any = getattr(self, each.name)
            known = ("factors",) if each.name == "up" else ("factors", "rotation")
            if found is not None and found not in known:
                hint = f"choose {' or '.join(known)}, or leave it out"
                if each.name == "up":
                    hint = f"a gated activation is no linear map: {hint}"
                reason = f"`{each.name}` cannot have {found!r:.40}"
                raise GraphError("bad-migration", reason, hint=hint)

    @property
    def any(self) -> bool:
        """Whether something is chosen."""
        return any(getattr(self, each.name) for each in fields(self))


FACTORS = Choices(stream="factors", latent="factors", values="factors", up="factors")
"""For eight bits: outliers of single channels move into weights."""

ROTATIONS = Choices(stream="rotation", latent="rotation", values="rotation", up="factors")
"""For four bits: outliers are spread over all channels."""
