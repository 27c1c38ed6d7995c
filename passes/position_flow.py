"""How positions reach the results of a draft layer: one walk, each value with its `Kind`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import sympy

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import (
    Add,
    Attention,
    CacheRead,
    CacheWrite,
    Call,
    Cast,
    Constant,
    Cos,
    DispatchExperts,
    Divide,
    Input,
    Iota,
    Matmul,
    Multiply,
    Negate,
    Param,
    RaggedAttention,
    Rotary,
    Sin,
    Subtract,
)
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.step_names import CACHE_PREFIX, LOGIT_ROWS
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.attention_lanes import check_lanes
from ascendfx.passes.position_kinds import (
    Cache,
    Control,
    Fixed,
    Kind,
    OfChoice,
    OfPosition,
    OfToken,
    Rotated,
    Rotations,
)
from ascendfx.passes.position_steps import (
    LAYOUT,
    SAMPLE,
    Place,
    bound,
    cast_positions,
    check_axes,
    choose_rows,
    follow_choices,
    labels_of,
    move_rotated,
    read_cache,
    refuse_cache,
    refuse_position,
    refuse_rotation,
    shape_of,
    write_cache,
)
from ascendfx.passes.rotary_proof import Angle, prove_shift, read_angle
from ascendfx.passes.token_axis import counts_tokens

_S = cast("Any", sympy)  # SymPy is partly typed

_FEW = 1 << 14
"""Elements of fixed values that are written as symbols: tables of frequencies have fewer."""
_ANGLES = (Add, Cos, Divide, Matmul, Multiply, Negate, Sin, Subtract, *LAYOUT)
"""What may be done with positions before they rotate."""
_ADDRESSES = ("slots", "block_table", "row_request", LOGIT_ROWS)
_TOKENS = ("token_ids", "hidden")
_POSITIONS = np.array([_S.Symbol(f"p{t}") for t in range(SAMPLE)], object)


class _Sides(NamedTuple):
    """Numbers of the operands of an attention, by what they are for."""

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    values: int


class PositionFlow:
    """Walks a draft program in plain or serving form; refuses at the first operation that it must.

    Attributes:
        rotations: What was rotated, by which angles.
        proved: Rotations of query and key that meet in an attention, proved to depend on
            differences of positions only.
        attentions: How many were seen.
    """

    def __init__(self, program: Program) -> None:
        self.rotations = Rotations()
        self.proved: set[tuple[Rotary, Rotary]] = set()
        self.attentions = 0
        self._program = program
        self._numbers: dict[Any, int] = {}
        self._special: Mapping[type[Op], Callable[[Place], Kind]] = {
            Attention: self._attend_tokens,
            RaggedAttention: self._attend_rows,
            CacheWrite: write_cache,
            CacheRead: read_cache,
        }

    def run(self) -> None:
        """Look at the entry and at all that it calls.

        Raises:
            GraphError: Something else than scores of rotations may depend on positions.
        """
        main = self._program.main
        given = [_input(main, value) for value in main.inputs]
        for value, kind in zip(main.outputs, self._walk(main, given, None), strict=True):
            if not isinstance(kind, Fixed | OfToken | Cache):
                refuse_position(Place(main, value.node, []), f"a result of @{main.name}")

    def _walk(self, graph: Graph, given: Sequence[Kind], call: Call | None) -> list[Kind]:
        kinds: dict[Value, Kind] = dict(zip(graph.inputs, given, strict=True))
        needed = graph.needed(graph.outputs)
        for position, node in enumerate(graph.nodes):
            if position not in needed or isinstance(node.op, Input):
                continue
            operands = [kinds[v] for v in node.operands]
            if isinstance(node.op, Param):
                keys = dict(call.keys) if call else {}
                key = keys.get(node.op.name, (graph.name, node.op.name, tuple(keys.items())))
                results: Sequence[Kind] = [self._fixed(("param", key), node.types[0])]
            elif isinstance(node.op, Call):
                results = self._walk(self._program.by_name[node.op.callee], operands, node.op)
            else:
                results = self._step(Place(graph, position, operands))
            kinds.update((Value(position, i), kind) for i, kind in enumerate(results))
        return [kinds[v] for v in graph.outputs]

    def _step(self, place: Place) -> Sequence[Kind]:
        if type(place.op) in self._special:
            return [self._special[type(place.op)](place)]
        if place.holds(Control):
            return choose_rows(place)
        if place.holds(Cache):
            refuse_cache(place, f"`{place.op.mnemonic}` reads a cache past its block table")
        if place.holds(OfChoice):
            return follow_choices(place)
        return self._token_by_token(place)

    def _token_by_token(self, place: Place) -> Sequence[Kind]:
        op, types = place.op, place.node.types
        if isinstance(op, Iota) and counts_tokens(op.size):
            return [_count(place, op)]
        check_axes(place)
        if place.holds(Rotated):
            return [move_rotated(place)]
        if place.holds(OfPosition):
            return [self._rotate(place, op) if isinstance(op, Rotary) else _turn(place)]
        if isinstance(op, DispatchExperts):
            return [OfChoice() for _ in types]
        return [OfToken() for _ in types] if place.holds(OfToken) else self._constant(place)

    def _fixed(self, key: Any, kind: TensorType, elements: Array | None = None) -> Fixed:
        number = self._numbers.setdefault(key, len(self._numbers))
        shape = shape_of(kind)
        count = int(np.prod(shape))
        if elements is None and count <= _FEW:
            symbols = [_S.Symbol(f"w{number}_{i}") for i in range(count)]
            elements = np.array(symbols, object).reshape(shape)
        return Fixed(number, elements)

    def _constant(self, place: Place) -> Sequence[Kind]:
        """Number what is computed from fixed values, and keep the symbols of what only moves."""
        op, types = place.op, place.node.types
        operands = cast("list[Fixed]", place.kinds)
        key = (op, *(each.number for each in operands))
        if isinstance(op, Constant):
            return [self._fixed(key, types[0], np.array(_S.sympify(op.value), object))]
        known = [each.elements for each in operands if each.elements is not None]
        moves = isinstance(op, LAYOUT) or (isinstance(op, Cast) and types[0].dtype.bytes >= 4)
        if moves and len(known) == len(operands) and np.prod(shape_of(types[0])) <= _FEW:
            return [self._fixed(key, types[0], np.asarray(bound(op).reference(*known)[0]))]
        return [self._fixed((*key, i), kind) for i, kind in enumerate(types)]

    def _rotate(self, place: Place, op: Rotary) -> Kind:
        x, *tables = place.kinds
        (kind,) = place.node.types
        if not isinstance(x, OfToken | Fixed):
            refuse_position(place, "the vector that is rotated")
        known = [each.elements for each in tables if isinstance(each, OfPosition | Fixed)]
        cos, sin = known if len(known) == 2 else (None, None)
        if cos is None or sin is None:
            refuse_rotation(place, "the tables of this rotation depend on more than positions")
        along = tuple(SAMPLE if counts_tokens(size) else 1 for size in kind.shape)
        own = np.broadcast_arrays(cos, sin, np.arange(SAMPLE).reshape(along))
        angles = np.empty(own[0].shape, object)
        for at in np.ndindex(angles.shape):
            angles[at] = _angle(place, *(each[at] for each in own))
        return Rotated(self.rotations.add(op, shape_of(kind), angles, own[2]))

    def _attend_rows(self, place: Place) -> Kind:
        op = cast("RaggedAttention", place.op)
        positions, requests, ancestors = op.roles(place.kinds)[3:]
        exact = isinstance(positions, OfPosition) and np.array_equal(positions.elements, _POSITIONS)
        if not exact or requests != Control("row_request") or ancestors is not None:
            refuse_cache(place, "the attention does not see each request's tokens up to the row")
        return self._attend(place, _Sides(*op.roles(range(len(place.kinds)))[:3]))

    def _attend_tokens(self, place: Place) -> Kind:
        op = cast("Attention", place.op)
        if op.masked or not op.causal:
            raise GraphError(
                code="not-causal",
                reason="the attention of the draft layer is not masked by causality alone",
                location=place.node.location,
                hint="read the remarks of recognise-causal-mask: such a mask may see positions",
            )
        return self._attend(place, _Sides(*op.roles(range(len(place.kinds)))[:3]))

    def _attend(self, place: Place, sides: _Sides) -> Kind:
        for i in (*sides.queries, *sides.keys, sides.values):
            if not isinstance(place.kinds[i], OfToken | Rotated):
                refuse_position(place, f"operand {i} of the attention")
        if isinstance(place.kinds[sides.values], Rotated):
            refuse_rotation(place, "the values of the attention are rotated")
        for part in zip(sides.queries, sides.keys, strict=True):
            if any(isinstance(place.kinds[i], Rotated) for i in part):
                self._meet(place, *(_labelled(place, i) for i in part))
        self.attentions += 1
        return OfToken()

    def _meet(self, place: Place, query: Array, key: Array) -> None:
        met = check_lanes(self.rotations, query, key)
        if isinstance(met, str):
            refuse_rotation(place, met)
        for pair in met - self.proved:
            prove_shift(*pair)
        self.proved |= met


def _input(graph: Graph, value: Value) -> Kind:
    op = graph.op_of(value)
    assert isinstance(op, Input)  # noqa: S101  # the caller selects inputs
    if op.name in _TOKENS:
        return OfToken()
    if op.name == "positions":
        return OfPosition(_POSITIONS)
    if op.name in _ADDRESSES:
        return Control(op.name)
    if op.name.startswith(CACHE_PREFIX):
        return Cache(op.name)
    raise GraphError(
        code="no-draft-form",
        reason=f"@{graph.name} has the input `{op.name}`, which no draft layer has",
        location=graph.nodes[value.node].location,
        hint=f"a draft layer reads {', '.join(_TOKENS)} and, in serving form, positions, "
        f"{', '.join(_ADDRESSES)} and caches",
    )


def _count(place: Place, op: Iota) -> Kind:
    if op.size != named_size("tokens"):
        refuse_position(place, f"a count over {op.size}")
    return OfPosition(op.start + op.step * _POSITIONS)


def _turn(place: Place) -> Kind:
    """Follow positions on their way to the tables of a rotation."""
    op = place.op
    if isinstance(op, Cast):
        return cast_positions(place)
    if place.holds(OfToken):
        refuse_position(place, f"`{op.mnemonic}`", "together with what tokens hold")
    known = [each.elements for each in place.kinds if isinstance(each, OfPosition | Fixed)]
    arrays = [np.asarray(each, object) for each in known if each is not None]
    if not isinstance(op, _ANGLES) or len(arrays) != len(place.kinds):
        refuse_position(place, f"`{op.mnemonic}`")
    return OfPosition(np.asarray(bound(op).reference(*arrays)[0]))


def _angle(place: Place, cos: Any, sin: Any, token: Any) -> Angle:
    angle = read_angle(cos, sin, _POSITIONS[token])
    if angle is None or any(_S.sympify(part).has(*_POSITIONS) for part in angle):
        refuse_rotation(
            place,
            "the tables of this rotation are not cos and sin of position * frequency + phase, "
            f"times one factor: for the token at {_POSITIONS[token]} they hold {cos} and {sin}",
        )
    return angle


def _labelled(place: Place, operand: int) -> Array:
    """Return labels ``[tokens, heads, lanes]`` of a side of an attention over one request."""
    shape = shape_of(place.types[operand])
    return labels_of(place.kinds[operand], shape).reshape(SAMPLE, *shape[-2:])
