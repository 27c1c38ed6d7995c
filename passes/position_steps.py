"""Single operations in the analysis of a draft layer, and what it says where it must refuse."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn, cast

import numpy as np
import sympy

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import (
    Cast,
    CombineExperts,
    Concat,
    Divide,
    Expand,
    GatherRows,
    GroupedLinear,
    Multiply,
    Reshape,
    Slice,
    Transpose,
)
from ascendfx.ir.size import Dim
from ascendfx.ir.step_names import LOGIT_ROWS
from ascendfx.ir.tensor_type import TensorType
from ascendfx.ir.text.printer import print_node
from ascendfx.passes.position_kinds import (
    Cache,
    Control,
    Fixed,
    Kind,
    OfChoice,
    OfPosition,
    OfToken,
    Rotated,
)
from ascendfx.passes.token_axis import counts_tokens, mixed_tokens

SAMPLE = 2
"""Sample tokens: enough to tell a token's own position from that of another."""
_SIZES: Mapping[str, Dim] = {
    **dict.fromkeys(("batch", "requests", "blocks", "table_blocks"), 1),
    **dict.fromkeys(("tokens", "rows", "context"), SAMPLE),
}

LAYOUT = (Concat, Expand, Reshape, Slice, Transpose)
"""What moves elements and does not change them."""


class Place(NamedTuple):
    """A node and what is known of its operands."""

    graph: Graph
    position: int
    kinds: list[Kind]

    @property
    def node(self) -> Node:
        """The node."""
        return self.graph.nodes[self.position]

    @property
    def op(self) -> Op:
        """Its operation."""
        return self.node.op

    @property
    def types(self) -> list[TensorType]:
        """Types of its operands."""
        return [self.graph.type_of(v) for v in self.node.operands]

    def holds(self, kind: type[Kind]) -> bool:
        """Return whether an operand is of a kind."""
        return any(isinstance(each, kind) for each in self.kinds)


def bound(op: Op) -> Op:
    """Return the operation over the sample tokens of one request."""
    return op.substitute(_SIZES)


def shape_of(kind: TensorType) -> tuple[int, ...]:
    """Return the shape over the sample tokens of one request."""
    return cast("tuple[int, ...]", kind.substitute(_SIZES).shape)


def check_axes(place: Place) -> None:
    """Refuse an operation that takes items by their positions, or lets tokens meet."""
    op = place.op
    bounds = (op.start, op.stop) if isinstance(op, Slice) else ()
    if any(map(counts_tokens, bounds)) and place.holds(Fixed):
        refuse_position(place, "a parameter", "that has an item for each of them and is cut here")
    mixed = mixed_tokens(op, place.types, place.node.types)
    if not mixed:
        return
    if place.holds(OfPosition):
        refuse_position(place, f"`{op.mnemonic}`", f"which {mixed}")
    raise GraphError(
        code="draft-mixes-tokens",
        reason=f"`{op.mnemonic}` {mixed}; only attention may do that in a draft layer",
        location=place.node.location,
        excerpt=print_node(place.graph, place.position),
        hint="what a row holds must depend on the token and the hidden state of that row alone",
    )


def labels_of(kind: Kind, shape: tuple[int, ...]) -> Array:
    """Return the labels of a value; zeros where it is free of positions."""
    return kind.labels if isinstance(kind, Rotated) else np.zeros(shape, int)


def cast_positions(place: Place) -> Kind:
    """Let positions and angles become wide floats, and tables anything that is a float."""
    kind = cast("OfPosition", place.kinds[0])
    before, after = place.types[0].dtype, place.node.types[0].dtype
    if not after.is_float:
        exact = not before.is_float and after.bytes >= 4
        return kind if exact else refuse_position(place, f"a cast to {after.value}")
    trigonometric = (sympy.cos, sympy.sin)
    tables = all(each.has(*trigonometric) for each in kind.elements.flat)
    if after.bytes < 4 and not tables:
        refuse_position(place, f"a cast to {after.value}", "which rounds them, unlike shifted ones")
    return kind


def move_rotated(place: Place) -> Kind:
    """Let rotated lanes move among lanes that are free of positions, and all have one factor."""
    op, kinds = place.op, place.kinds
    if isinstance(op, Cast) and place.node.types[0].dtype.is_float:
        return kinds[0]
    still = all(isinstance(each, Rotated | OfToken | Fixed) for each in kinds)
    if isinstance(op, LAYOUT) and still:
        labels = [labels_of(k, shape_of(t)) for k, t in zip(kinds, place.types, strict=True)]
        return Rotated(np.asarray(bound(op).reference(*labels)[0]))
    if isinstance(op, Divide | Multiply) and place.holds(Fixed):
        rotated = 0 if isinstance(kinds[0], Rotated) else 1
        factor = place.types[1 - rotated]
        if all(size == 1 for size in factor.shape) and not (isinstance(op, Divide) and rotated):
            return kinds[rotated]
    return refuse_rotation(
        place, f"it reads rotated lanes in `{op.mnemonic}`, not in scores of attention"
    )


def write_cache(place: Place) -> Cache:
    """Return the cache with the entries of the step."""
    cache, slots, entry = place.kinds
    if not isinstance(cache, Cache) or cache.entry is not None:
        refuse_cache(place, "this is no cache, or one that was written before in this step")
    if slots != Control("slots"):
        refuse_cache(place, f"entries of `{cache.name}` do not go to the slots of the step")
    if not isinstance(entry, OfToken | Rotated):
        refuse_position(place, f"the entries of `{cache.name}`")
    return Cache(cache.name, entry)


def read_cache(place: Place) -> Kind:
    """Return the entries of all tokens: of the kind that every step writes."""
    cache, table = place.kinds
    if not isinstance(cache, Cache) or table != Control("block_table"):
        refuse_cache(place, "the cache is not read by the block table of the step")
    if cache.entry is None:
        refuse_cache(place, f"`{cache.name}` is read before the rows of this step are written")
    return Rotated(cache.entry.labels[None]) if isinstance(cache.entry, Rotated) else cache.entry


def choose_rows(place: Place) -> Sequence[Kind]:
    """Let the rows be chosen whose logits are wanted; addresses are for nothing else."""
    if isinstance(place.op, GatherRows) and place.kinds == [OfToken(), Control(LOGIT_ROWS)]:
        return [OfToken()]
    name = next(each.name for each in place.kinds if isinstance(each, Control))
    return refuse_position(place, f"`{place.op.mnemonic}`", f"through `{name}`")


def follow_choices(place: Place) -> Sequence[Kind]:
    """Follow items in the order of the experts, until their tokens have them back."""
    op = place.op
    if place.holds(OfPosition) or place.holds(Rotated):
        refuse_position(place, f"`{op.mnemonic}`", "among items of experts")
    if isinstance(op, CombineExperts):
        return [OfToken()]
    if not isinstance(op, GatherRows | GroupedLinear):
        check_axes(place)
    return [OfChoice() for _ in place.node.types]


def refuse_position(place: Place, what: str, how: str = "") -> NoReturn:
    """Raise the error about a place that positions must not reach."""
    raise GraphError(
        code="draft-position",
        reason=f"positions reach {' '.join((what, how)).rstrip()}, so that a shift of all of them "
        "would change what the draft layer computes",
        location=place.node.location,
        excerpt=print_node(place.graph, place.position),
        hint="a fused draft layer runs at the positions of the main model; they may only turn into "
        "angles, computed in the forward, by which query and key are rotated",
    )


def refuse_rotation(place: Place, reason: str) -> NoReturn:
    """Raise the error about a rotation whose scores may depend on positions themselves."""
    raise GraphError(
        code="draft-rotary",
        reason=reason,
        location=place.node.location,
        excerpt=print_node(place.graph, place.position),
        hint="scores depend on differences of positions only where query and key are rotated in "
        "whole pairs, by the same angles",
    )


def refuse_cache(place: Place, reason: str) -> NoReturn:
    """Raise the error about entries that are not those of the step's rows."""
    raise GraphError(
        code="draft-cache",
        reason=reason,
        location=place.node.location,
        excerpt=print_node(place.graph, place.position),
        hint="a draft layer writes one entry per row to `slots`, and reads what it has written "
        "through `block_table`, up to the position of each row",
    )
