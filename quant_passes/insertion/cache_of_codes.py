"""One function whose latent caches hold codes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import CacheRead, CacheWrite, Call, Cast, Input, Multiply
from ascendfx.ir.step_names import CACHE_PREFIX
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.rebuild import rebuild
from ascendfx.quant_passes.insertion.codes_of_input import quantize_rows
from ascendfx.quant_passes.insertion.latent_caches import LatentCache


def codes_of_cache(kind: TensorType) -> TensorType:
    """Return the type of the codes of a cache ``[blocks, block, d]``."""
    return TensorType(DType.I8, kind.shape)


def scales_of_cache(kind: TensorType) -> TensorType:
    """Return the type of the scales of a cache: one number for each token of a block."""
    return TensorType(DType.F32, (*kind.shape[:2], 1))


@dataclass(frozen=True, slots=True)
class CallOfCodes:
    """What stands for a call.

    Attributes:
        call: Its function takes the scales behind all operands, and returns them behind all
            results, in the order of their caches.
        given: Which operands are caches of codes now, ascending.
    """

    call: Call
    given: tuple[int, ...]


@dataclass
class CachesOfCodes:
    """Copies a function; some of its caches, and of those that its calls are given, hold codes.

    Attributes:
        old: The function.
        own: Caches that it writes and reads itself.
        calls: The calls that change.
    """

    old: Graph
    own: tuple[LatentCache, ...]
    calls: Mapping[Call, CallOfCodes] = field(default_factory=dict[Call, CallOfCodes])

    def __post_init__(self) -> None:
        self._writes = {each.write for each in self.own}
        self._reads = {read for each in self.own for read in each.reads}
        self._named = self._scale_names()
        self._scales: dict[Value, Value] = {}  # of each cache of codes, as they are now

    def graph(self) -> Graph:
        """Return the copy; scales are caches behind the others, in inputs and in results."""
        copied = rebuild(self.old, self._emit)
        return replace(copied, outputs=(*copied.outputs, *self._scales.values()))

    def _scale_names(self) -> dict[Value, str]:
        """Return the inputs that hold codes, in order, and what their scales are called."""
        coded = {self.old.nodes[each.write].operands[0] for each in self.own}
        for node in self.old.nodes:
            if isinstance(node.op, Call) and node.op in self.calls:
                coded.update(node.operands[i] for i in self.calls[node.op].given)
        taken = [name.rpartition(".")[0] for name in self.old.input_types]
        named: dict[Value, str] = {}
        for value in sorted(coded):
            name = self._name(value)
            layer = name.rpartition(".")[0]
            numbered = name.startswith(CACHE_PREFIX)
            named[value] = f"{layer}.{taken.count(layer)}" if numbered else f"{name}_scale"
            taken.append(layer)
        return named

    def _name(self, value: Value) -> str:
        op = self.old.op_of(value)
        if not isinstance(op, Input):
            raise AssertionError(f"a cache of @{self.old.name} is no input")  # noqa: TRY004
        return op.name

    def _emit(
        self, builder: GraphBuilder, position: int, node: Node, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        match node.op:
            case Input() as op:
                return (self._input(builder, Value(position), op),)
            case CacheWrite() if position in self._writes:
                return (self._store(builder, node, operands),)
            case CacheRead() if position in self._reads:
                return (self._read(builder, node, operands),)
            case Call() as op if op in self.calls:
                return self._call(builder, node, self.calls[op], operands)
            case _:
                return None

    def _input(self, builder: GraphBuilder, value: Value, op: Input) -> Value:
        if value in self._named:
            op = replace(op, type=codes_of_cache(op.type))
        made = builder.add(op)
        if value == self.old.inputs[-1]:
            for cache, name in self._named.items():
                kind = scales_of_cache(self.old.type_of(cache))
                self._scales[cache] = builder.add(Input(name, kind))
        return made

    def _store(self, builder: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Value:
        old, (cache, slots, rows) = node.operands[0], operands
        made = quantize_rows(builder, rows)
        self._scales[old] = builder.add(node.op, self._scales[old], slots, made.scale)
        return builder.add(node.op, cache, slots, made.codes)

    def _read(self, builder: GraphBuilder, node: Node, operands: tuple[Value, ...]) -> Value:
        """Return the numbers that codes stand for, in the format that the cache had."""
        (cache,) = self.old.nodes[node.operands[0].node].operands[:1]
        codes = builder.add(node.op, *operands)
        scales = builder.add(node.op, self._scales[cache], *operands[1:])
        wide = builder.add(Multiply(), builder.add(Cast(DType.F32), codes), scales)
        dtype = node.types[0].dtype
        return wide if dtype is DType.F32 else builder.add(Cast(dtype), wide)

    def _call(
        self, builder: GraphBuilder, node: Node, to: CallOfCodes, operands: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        caches = [node.operands[i] for i in to.given]
        results = builder.add_multi(to.call, *operands, *(self._scales[each] for each in caches))
        self._scales.update(zip(caches, results[len(node.types) :], strict=True))
        return results
