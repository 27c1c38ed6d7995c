"""From the plain forward over whole sequences to the step that serves: derived, not recognised."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Argmax,
    Attention,
    CacheRead,
    CacheWrite,
    Call,
    Cast,
    GatherRows,
    Input,
    Iota,
    RaggedAttention,
    Reshape,
)
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim, names_in, product
from ascendfx.ir.step_names import CACHE_PREFIX, LOGIT_ROWS
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.drop_batch_axis import ROWS, DropBatchAxis
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.find_cache_cut import CacheCut, find_cache_cut
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.projected_from_one import projected_from_one
from ascendfx.passes.serving_signature import (
    BLOCKS,
    CONTEXT,
    CONTROLS,
    I32_ROWS,
    LAYER_CONTROLS,
    REQUESTS,
    check_signature,
    further_inputs,
)
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.token_dependence import dependent_values, token_inputs


@dataclass(frozen=True, slots=True)
class DeriveIncrementalForm(ProgramPass):
    """Rewrites ``logits(token_ids)`` into a step over rows with a paged cache.

    Every operation but attention is token-wise, so it applies to rows of any requests as it
    stands. Counting along the token axis becomes the input ``positions``. Each attention reads its
    key side from a cache that `find_cache_cut` places. What follows the last attention is computed
    for the rows in ``logit_rows`` only, because token-wise operations commute with choosing rows.
    A draft layer, ``logits, hidden..(token_ids, hidden..)``, reads and returns hidden states of all
    rows.

    Fidelity: real. The arithmetic of each row is unchanged; a kernel may sum in another order.

    Attributes:
        block_tokens: Tokens per cache block.
    """

    name: ClassVar[str] = "derive-incremental-form"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    block_tokens: int = BLOCK_TOKENS

    def run(self, program: Program) -> PassResult:
        """Transform the captured and raised program.

        Raises:
            GraphError: The entry is neither a language model nor a draft layer, an attention is
                masked by something else than causality, or tokens are mixed outside attention.
        """
        check_signature(program)
        program = DropBatchAxis().run(program).program
        sources = token_inputs(program)
        layers = {
            graph.name: _Layer(graph, sources[graph.name], self.block_tokens).run()
            for graph in program.graphs[1:]
            if any(isinstance(node.op, Attention) for node in graph.nodes)
        }
        entry = _Entry(program, layers, self.block_tokens)
        main = entry.run()
        others = tuple(
            layers[graph.name].graph if graph.name in layers else graph
            for graph in program.graphs[1:]
        )
        cuts = [*(cut for layer in layers.values() for cut in layer.cuts), *entry.cuts.values()]
        statistics = {
            "caches per layer": max((len(cut.values) for cut in cuts), default=0),
            "cached elements per token and layer": max((cut.elements for cut in cuts), default=0),
        }
        serving = Program((main, *others), program.recipes)
        # The key side over the rows of the step is dead now, and the one over the cache is there
        # once per operand.
        serving = ShareCommon().run(DropUnused().run(serving).program).program
        return PassResult(serving, statistics)


@dataclass(frozen=True, slots=True)
class _IncrementalLayer:
    graph: Graph
    cuts: tuple[CacheCut, ...]
    cache_types: tuple[TensorType, ...]


class _Rows:
    """Rebuilds a graph whose token axis counts rows; shared by layers and entry."""

    def __init__(
        self,
        graph: Graph,
        sources: tuple[Value, ...],
        block_tokens: int,
        calls: tuple[int, ...] = (),
    ) -> None:
        self._graph = graph
        self._sources = sources
        self._block = block_tokens
        self._builder = GraphBuilder(graph.name)
        self._moved: dict[Value, Value] = {}
        self._controls: dict[str, Value] = {}
        self._old: dict[Value, Value] = {}  # the cache of each stored value, before this step
        self._new: dict[Value, Value] = {}  # and with its rows
        own = [i for i, node in enumerate(graph.nodes) if isinstance(node.op, Attention)]
        self._mixing = sorted((*own, *calls))
        self.cuts = {position: self._cut(position) for position in own}

    def _cut(self, position: int) -> CacheCut:
        node = self._graph.nodes[position]
        op = node.op
        if not isinstance(op, Attention) or not op.causal or op.masked:
            raise GraphError(
                code="not-causal",
                reason="this attention is not causal, so earlier tokens depend on later ones",
                location=node.location,
                hint="only models whose mask is exactly causal have an incremental form",
            )
        earlier = [v for i in self._mixing if i < position for v in _results(self._graph, i)]
        queries, keys, values, _ = op.roles([_without_batch(self._graph, v) for v in node.operands])
        return find_cache_cut(
            self._graph,
            [*keys, values],
            sources=(*self._sources, *earlier),
            token_axis=ROWS,
            excluded=projected_from_one(self._graph, queries[0], keys, values),
        )

    def _cache_type(self, value: Value) -> TensorType:
        kind = self._graph.type_of(value)
        return kind.with_shape((BLOCKS, self._block, *kind.shape[1:]))

    def _copy(self, position: int, node: Node) -> None:
        """Rebuild a node for all rows."""
        if _counts_positions(node.op):
            self._set(position, (self._positions(node),))
        elif isinstance(node.op, Attention):
            self._set(position, (self._attend(position, node.op, node.operands),))
        else:
            op = self._counted(node.op, position)
            self._set(
                position, self._builder.add_multi(op, *(self._moved[v] for v in node.operands))
            )

    def _set(self, position: int, results: tuple[Value, ...]) -> None:
        self._moved.update((Value(position, i), result) for i, result in enumerate(results))

    def _counted(self, op: Op, position: int) -> Op:
        if isinstance(op, Iota) and names_in(op.size):
            raise GraphError(
                code="token-counting",
                reason=f"counting over {op.size} elements has no meaning for a single row",
                location=self._graph.nodes[position].location,
                hint="only positions along the token axis can be replaced",
            )
        return op

    def _positions(self, node: Node) -> Value:
        positions, kind = self._controls["positions"], node.types[0]
        return positions if kind == I32_ROWS else self._builder.add(Cast(kind.dtype), positions)

    def _attend(self, position: int, op: Attention, operands: tuple[Value, ...]) -> Value:
        cut = self.cuts[position]
        read: dict[Value, Value] = {}
        for value in cut.values:
            if value not in self._new:
                old, slots = self._old[value], self._controls["slots"]
                self._new[value] = self._builder.add(CacheWrite(), old, slots, self._moved[value])
            pages = self._builder.add(
                CacheRead(CONTEXT), self._new[value], self._controls["block_table"]
            )
            kind = self._builder.type_of(pages)
            flat = (product(kind.shape[:2]), *kind.shape[2:])
            read[value] = self._builder.add(Reshape(flat), pages)
        queries, keys, values, _ = op.roles([_without_batch(self._graph, v) for v in operands])
        return self._builder.add(
            RaggedAttention(op.parts, op.scale),
            *(self._moved[query] for query in queries),
            *(self._key_side(value, cut, read) for value in (*keys, values)),
            self._controls["positions"],
            self._controls["row_request"],
        )

    def _key_side(self, value: Value, cut: CacheCut, read: dict[Value, Value]) -> Value:
        """Recompute ``value`` for all cached tokens and return ``[requests, context, ...]``."""
        cached: dict[str, Dim] = {"rows": product((REQUESTS, CONTEXT))}
        known = dict(read)
        for position in sorted(cut.consumer_nodes):
            node = self._graph.nodes[position]
            if Value(position) in known:
                continue
            with self._builder.at(node.location):
                op = node.op.substitute(cached)
                results = self._builder.add_multi(op, *(known[v] for v in node.operands))
            known.update((Value(position, i), result) for i, result in enumerate(results))
        result = known[value]
        kind = self._builder.type_of(result)
        return self._builder.add(Reshape((REQUESTS, CONTEXT, *kind.shape[1:])), result)


class _Layer(_Rows):
    def run(self) -> _IncrementalLayer:
        stored = sorted({value for cut in self.cuts.values() for value in cut.values})
        kinds = tuple(self._cache_type(value) for value in stored)
        self._add_inputs(stored, kinds)
        for position, node in enumerate(self._graph.nodes):
            if not isinstance(node.op, Input):
                with self._builder.at(node.location):
                    self._copy(position, node)
        outputs = [self._moved[v] for v in self._graph.outputs]
        outputs += [self._new[value] for value in stored]
        return _IncrementalLayer(self._builder.build(*outputs), tuple(self.cuts.values()), kinds)

    def _add_inputs(self, stored: list[Value], kinds: tuple[TensorType, ...]) -> None:
        for value in self._graph.inputs:
            self._moved[value] = self._builder.add(self._graph.op_of(value))
        for name in LAYER_CONTROLS:
            self._controls[name] = self._builder.add(Input(name, CONTROLS[name]))
        for i, (value, kind) in enumerate(zip(stored, kinds, strict=True)):
            self._old[value] = self._builder.add(Input(f"{CACHE_PREFIX}{i}", kind))


class _Entry(_Rows):
    def __init__(
        self, program: Program, layers: dict[str, _IncrementalLayer], block_tokens: int
    ) -> None:
        graph = program.main
        self._layers = layers
        calls = (i for i, node in enumerate(graph.nodes) if self._is_layer(node))
        super().__init__(graph, graph.inputs, block_tokens, tuple(calls))
        self._further = further_inputs(program)

    def run(self) -> Graph:
        if not self._mixing and not self._further:
            raise GraphError(
                code="no-attention",
                reason="the program has no layer with an attention",
                hint="raise it first; what nearly matched stands in `serving/index.json` of the "
                "folder that `--dump-dir` names",
            )
        self._add_inputs()
        caches = self._cache_inputs()
        tail = self._tail()
        chosen: dict[Value, Value] = {}
        for position, node in enumerate(self._graph.nodes):
            with self._builder.at(node.location):
                if isinstance(node.op, Input):
                    continue
                if isinstance(node.op, Call) and position in caches:
                    caches[position] = self._call(position, node, node.op, caches[position])
                elif Value(position) in tail:
                    self._copy_chosen(position, node, chosen)
                else:
                    self._copy(position, node)
        logits = self._chosen(self._graph.outputs[0], chosen)
        tokens = self._builder.add(Argmax(), logits)
        states = (self._moved[v] for v in self._graph.outputs[1:])
        new = {old: self._new[value] for value, old in self._old.items()}
        written = (new.get(v, v) for each in caches.values() for v in each)
        return self._builder.build(tokens, logits, *states, *written)

    def _is_layer(self, node: Node) -> bool:
        return isinstance(node.op, Call) and node.op.callee in self._layers

    def _tail(self) -> frozenset[Value]:
        """Return what depends on the last attention and is needed for the chosen rows only."""
        last = _results(self._graph, self._mixing[-1]) if self._mixing else self._sources
        everywhere = self._graph.needed(self._graph.outputs[1:])
        behind = dependent_values(self._graph, last) - frozenset(last)
        return frozenset(value for value in behind if value.node not in everywhere)

    def _add_inputs(self) -> None:
        tokens, *controls = CONTROLS.items()
        for name, kind in (tokens, *self._further.items(), *controls):
            self._controls[name] = self._builder.add(Input(name, kind))
        names = self._graph.input_types
        for name, value in zip(names, self._graph.inputs, strict=True):
            self._moved[value] = self._controls[name]

    def _cache_inputs(self) -> dict[int, list[Value]]:
        """Add the caches of each call and attention; those of a call are its own."""
        found: dict[int, list[Value]] = {}
        for layer, position in enumerate(self._mixing):
            op = self._graph.nodes[position].op
            values = [] if isinstance(op, Call) else self._unseen(position)
            kinds = (
                self._layers[op.callee].cache_types
                if isinstance(op, Call)
                else map(self._cache_type, values)
            )
            inputs = [
                self._builder.add(Input(f"{CACHE_PREFIX}{layer}.{i}", kind))
                for i, kind in enumerate(kinds)
            ]
            self._old.update(zip(values, inputs, strict=False))
            found[position] = inputs
        return found

    def _unseen(self, position: int) -> list[Value]:
        return [value for value in self.cuts[position].values if value not in self._old]

    def _call(self, position: int, node: Node, op: Call, caches: list[Value]) -> list[Value]:
        body = self._layers[op.callee].graph
        results = self._builder.add_multi(
            replace(op, types=body.output_types),
            *(self._moved[v] for v in node.operands),
            *(self._controls[name] for name in LAYER_CONTROLS),
            *caches,
        )
        self._set(position, results[: len(node.types)])
        return list(results[len(node.types) :])

    def _chosen(self, value: Value, chosen: dict[Value, Value]) -> Value:
        """Return the rows of ``value`` that ``logit_rows`` names."""
        if value not in chosen:
            # Not the type in the old graph: the result of an attention has a batch axis there.
            kind = self._builder.type_of(self._moved[value])
            if not any("rows" in names_in(size) for size in kind.shape):
                return self._moved[value]
            if kind.shape[0] != ROWS:
                raise GraphError(
                    code="row-axis",
                    reason=f"{kind} does not have the token axis first",
                    location=self._graph.nodes[value.node].location,
                    hint="rows can be chosen along the first axis only; transpose in the model",
                )
            chosen[value] = self._builder.add(
                GatherRows(), self._moved[value], self._controls[LOGIT_ROWS]
            )
        return chosen[value]

    def _copy_chosen(self, position: int, node: Node, chosen: dict[Value, Value]) -> None:
        operands = [self._chosen(v, chosen) for v in node.operands]
        op = self._counted(node.op.substitute({"rows": REQUESTS}), position)
        results = self._builder.add_multi(op, *operands)
        chosen.update((Value(position, i), result) for i, result in enumerate(results))


def _counts_positions(op: Op) -> bool:
    return isinstance(op, Iota) and op.size == ROWS and (op.start, op.step) == (0, 1)


def _results(graph: Graph, position: int) -> tuple[Value, ...]:
    return tuple(Value(position, i) for i in range(len(graph.nodes[position].types)))


def _without_batch(graph: Graph, value: Value) -> Value:
    """Return the ``[rows, ...]`` value behind the batch axis that attention operands carry."""
    node = graph.nodes[value.node]
    if isinstance(node.op, Reshape) and graph.type_of(value).shape[0] == 1:
        return node.operands[0]
    return value
