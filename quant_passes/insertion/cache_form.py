"""In which form a latent cache is stored, and which line of a recipe says so."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ascendfx.ir.diagnostic import GraphError


@dataclass(frozen=True, slots=True)
class CacheForm:
    """A cache of codes: ``i8`` for each number of a token's vector, ``f32`` for each token.

    Attributes:
        bits: Of a code; the decode attention reads eight.

    Raises:
        GraphError: ``bits`` is not 8.
    """

    bits: int = 8

    def __post_init__(self) -> None:
        if self.bits != 8:
            raise GraphError(
                "bad-cache-form",
                f"a cache of {self.bits} bits: attention reads codes of eight",
                hint="leave `bits` out",
            )


@dataclass(frozen=True, slots=True)
class CacheLine:
    """One line of a recipe, asked for each latent cache.

    Attributes:
        match: Checkpoint keys, with ``*``, ``?`` and ``[abc]``; a cache is known by the key of the
            parameter that is nearest to it, such as ``model.layers.3.self_attn.kv_a_layernorm``'s.
        form: What becomes of it; None: it keeps its format.
    """

    match: str
    form: CacheForm | None = CacheForm()


LATENTS: tuple[CacheLine, ...] = (CacheLine("*"),)
"""Every latent cache in int8."""


def cache_form_of(lines: Iterable[CacheLine], key: str) -> CacheForm | None:
    """Return the form that the first matching line gives a cache; None: its own format."""
    return next((line.form for line in lines if fnmatchcase(key, line.match)), None)
