"""What ``quant=`` of a compilation means: the lines by which forms are given to projections."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Node
from ascendfx.ir.ops import CacheWrite, Linear
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.quant_passes.insertion.cache_form import LATENTS, CacheLine
from ascendfx.quant_passes.insertion.codes_of_weight import codes_name
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.insertion.quantize_cache import QuantizeCache
from ascendfx.quant_passes.insertion.site_form import W4A8, W8A8, SiteForm, SiteLine
from ascendfx.quant_passes.insertion.sites import PRODUCTS, sites_of

QuantLine = SiteLine | CacheLine
"""What a line decides about: projections, or latent caches."""

PRESETS: Mapping[str, tuple[QuantLine, ...]] = {
    "w4a8": W4A8,
    "w4a8kv8": (*W4A8, *LATENTS),
    "w8a8": W8A8,
    "w8a8kv8": (*W8A8, *LATENTS),
}
"""Lines by the name of a preset."""

_OF_DRAFTS: Mapping[str, tuple[QuantLine, ...]] = {"w4a8": W8A8, "w4a8kv8": (*W8A8, *LATENTS)}
"""Lines of presets for draft layers, where they are others."""


def chosen_lines(quant: str | Sequence[QuantLine] | None) -> tuple[QuantLine, ...]:
    """Return the lines of a preset, or those given; None: no lines.

    Raises:
        GraphError: No preset has the name, or what is given are no lines.
    """
    if quant is None:
        return ()
    if isinstance(quant, str):
        if quant not in PRESETS:
            near = get_close_matches(quant, PRESETS, n=1)
            meant = f"did you mean `{near[0]}`? " if near else ""
            raise GraphError(
                "quant-preset-not-known",
                f"no preset is called `{quant}`",
                hint=f"{meant}known presets: {', '.join(sorted(PRESETS))}",
            )
        return PRESETS[quant]
    given: Any = quant
    if not isinstance(given, Sequence) or not all(isinstance(each, QuantLine) for each in given):  # pyright: ignore[reportUnknownVariableType]
        raise GraphError(
            "bad-argument",
            f"`quant` is {type(given).__name__} {given!r:.80}, no lines",
            hint='pass the name of a preset, such as quant="w8a8", or a tuple of SiteLine and '
            "CacheLine",
        )
    return tuple(quant)


def draft_lines(quant: str | Sequence[QuantLine] | None) -> tuple[QuantLine, ...]:
    """Return the lines for draft layers: of a preset its own, else those of `chosen_lines`.

    Raises:
        GraphError: As `chosen_lines`.
    """
    if isinstance(quant, str) and quant in _OF_DRAFTS:
        return _OF_DRAFTS[quant]
    return chosen_lines(quant)


def quantizing_passes(lines: Iterable[QuantLine]) -> tuple[ProgramPass, ...]:
    """Return the passes that do what lines say; they end the stage ``serving``."""
    given = tuple(lines)
    sites = tuple(each for each in given if isinstance(each, SiteLine))
    caches = tuple(each for each in given if isinstance(each, CacheLine))
    projections = (InsertQuantization(sites),) if sites else ()
    return (*projections, *((QuantizeCache(caches),) if caches else ()))


def delivered_lines(
    keys: Collection[str], dtype: Callable[[str], DType] | None = None
) -> tuple[SiteLine, ...]:
    """Return a line for each weight whose codes are among the tensors of a model.

    Args:
        keys: Of the tensors.
        dtype: Tells the element format of one, ``i4x2`` for codes in pairs; None: all are ``i8``.
    """
    return tuple(_delivered(keys, dtype or (lambda _: DType.I8)))


def _delivered(keys: Collection[str], dtype: Callable[[str], DType]) -> Iterator[SiteLine]:
    suffix = codes_name("")
    for key in keys:
        if key.endswith(suffix):
            bits = 4 if dtype(key) is DType.I4X2 else 8
            yield SiteLine(_literal(key.removesuffix(suffix)), SiteForm(bits, delivered=True))


def _literal(key: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in key)


def check_quantized(program: Program, lines: Iterable[QuantLine]) -> None:
    """Check that some projection multiplies codes and some cache holds them, as lines say.

    Raises:
        GraphError: None does: the keys of the model are others than the lines expect, or it has no
            latent cache.
    """
    made = {
        (CacheWrite if isinstance(node.op, CacheWrite) else Linear)
        for graph in program.graphs
        for node in graph.nodes
        if _of_codes(node)
    }
    kinds = {type(line) for line in lines}
    if SiteLine in kinds and Linear not in made:
        raise _no_projection(program)
    if CacheLine in kinds and CacheWrite not in made:
        raise GraphError(
            "no-latent-cache",
            "no cache of the model is stored as codes: none that a CacheLine fits holds one vector "
            "per token that is key and value at once and not rotated",
            hint="leave out the lines for the cache, or take the preset without `kv8`",
        )


def _of_codes(node: Node) -> bool:
    """Return whether a node multiplies codes, or stores them."""
    if isinstance(node.op, CacheWrite):
        return node.types[0].dtype is DType.I8
    return isinstance(node.op, PRODUCTS) and node.types[0].dtype is DType.I32


def _no_projection(program: Program) -> GraphError:
    sites = sites_of(program)
    keys = ", ".join(f"`{site.key}`" for site in sites[:3])
    return GraphError(
        "nothing-quantized",
        "no projection of the model fits `quant`",
        hint=f"give it lines for the weights of this model: {keys}, {len(sites)} in all"
        if sites
        else "the model has no projections by weights of the checkpoint",
    )
