"""Append draft layers to the step of the main model: one preparation of inputs for all of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import (
    AdvanceRequests,
    AlignDrafts,
    BranchDrafts,
    CacheWrite,
    Call,
    GatherRows,
    Input,
    Param,
    Reshape,
    SampleDrafts,
    SampleTokens,
    ShiftTokens,
    VerifyDrafts,
    VerifyTree,
)
from ascendfx.ir.program import Program
from ascendfx.ir.size import product
from ascendfx.ir.step_names import (
    DRAFT_CACHE_PREFIX,
    DRAFT_IDS,
    DRAFT_PROBS,
    HIDDEN_CACHE,
    HIDDEN_SLOTS,
    KNOWN_TOKENS,
    LOGIT_ROWS,
    RECENT,
)
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.close_step import cache_inputs
from ascendfx.passes.draft_licence import draft_licence
from ascendfx.passes.expose_hidden import CHAININGS, check_chaining
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.serving_steps import block_tokens
from ascendfx.passes.shifted_convention import check_shifted_convention
from ascendfx.passes.step_inputs import hidden_slots, kept_hidden, known_tokens, recent_tokens

_HIDDEN_AT = 2
"""Which result of a closed step is the hidden state that `ExposeHidden` added."""


@dataclass(frozen=True, slots=True)
class FuseMtp(ProgramPass):
    """Puts draft layers (multi-token prediction) behind the main model, in the same step.

    Draft ``j`` reads, for every row, the token ``j + 1`` places further and the hidden state before
    it: that of the main model, then that of draft ``j - 1``. Token 0 is dropped and the others move
    forward by one, so that the layer runs with the main model's own positions, slots and block
    table. That this changes nothing is proved for each draft program, see
    `ascendfx.passes.draft_licence`. Each depth has a cache of its own, in which every entry is
    shifted by the same number of places; the result is checked for that, see
    `ascendfx.passes.shifted_convention`.

    With one draft its rows are those of the main model. With more, entries of deeper caches are
    made of drafts, and wrong where these are rejected: `align_drafts` moves the rows back by the
    number of rejected drafts, so that they end at the last accepted token and the wrong entries are
    written again. The hidden states that this reaches are kept from step to step, a few per place.

    With ``branches``, the rows of a decode step are the nodes of a `DraftTree`. Rows of drafts are
    always aligned: they are a chain along the accepted path. `branch_drafts` gives the nodes of a
    depth, of which the next depth reads the first.

    A decode step draws its drafts as their requests want them verified, and keeps what they were
    drawn from (`SampleDrafts`). A prefill drafts the most likely tokens and keeps nothing: such a
    draft counts as certain.

    Source: DeepSeek-V3 technical report, section 2.2, for the layer; omni-infer c8bc2bbb,
    ``deepseek_mtp.py``, for shared control tensors and a cache per depth.

    Fidelity: bitwise, as far as the logits of the main model are concerned, and its tokens, where a
    request wants its text independent of drafts.

    Attributes:
        drafts: The draft program of each depth, in serving form after the passes of the plan; equal
            ones are one function.
        chaining: Which hidden state depth ``j + 1`` reads of depth ``j``, one of `CHAININGS`.
        branches: Candidates at each depth of a tree; empty: the drafts are a chain.
    """

    name: ClassVar[str] = "fuse-mtp"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    drafts: tuple[Program, ...]
    chaining: str = CHAININGS[0]
    branches: tuple[int, ...] = ()

    def run(self, program: Program) -> PassResult:
        """Transform a closed step that returns hidden states.

        Raises:
            GraphError: The step or a draft program has another form, or a draft layer depends on
                absolute positions.
        """
        check_chaining(self.chaining)
        parts = _parts_of(self.drafts, self.chaining, program)
        distinct = tuple({id(part): part for part in parts}.values())
        licences = [draft_licence(each) for each in {id(d): d for d in self.drafts}.values()]
        graphs = (_Step(program.main, parts, self.branches).run(), *program.graphs[1:])
        recipes = dict(program.recipes)
        for part in distinct:
            graphs += part.functions
            recipes.update(part.recipes)
        statistics = {
            "draft layers": len(self.drafts),
            "distinct draft layers": len(distinct),
            "rotations of drafts proved": sum(len(each.proved) for each in licences),
        }
        fused = Program(graphs, recipes)
        check_shifted_convention(fused)
        return PassResult(fused, statistics)


@dataclass(frozen=True)
class _Part:
    """A draft program as a part of the step.

    Attributes:
        entry: Is written out in the step, so that it shares what it has in common with the main
            model, such as rotary tables; returns a token, or logits in a decode step, a hidden
            state and caches.
        functions: What it calls.
        recipes: Of all of them; those of the entry belong to the step.
    """

    entry: Graph
    functions: tuple[Graph, ...]
    recipes: Mapping[tuple[str, str], Graph]


def _parts_of(drafts: Sequence[Program], chaining: str, step: Program) -> tuple[_Part, ...]:
    """Return the part of each depth; equal programs share theirs."""
    known: list[tuple[Program, _Part]] = []
    parts: list[_Part] = []
    for draft in drafts:
        part = next((each for program, each in known if program == draft), None)
        if part is None:
            part = _part(draft, f"draft{len(known) or ''}", chaining, step)
            known.append((draft, part))
        parts.append(part)
    return tuple(parts)


def _part(draft: Program, name: str, chaining: str, main: Program) -> _Part:
    entry, step = draft.main, main.name
    if len(entry.outputs) != 4 + len(cache_inputs(entry)):
        raise GraphError(
            code="no-draft-form",
            reason=f"@{entry.name} returns {len(entry.outputs)} values; a draft layer in serving "
            "form returns tokens, logits, two hidden states and its caches",
            hint="capture the layer with `ascendfx.compile(..., draft=...)`",
        )
    tokens, logits, normed, raw, *caches = entry.outputs
    hidden = normed if chaining == "post-norm" else raw
    first = logits if _decodes(main.main) else tokens
    trimmed = entry.part((first, hidden, *caches), keep=entry.inputs)
    graphs = {g.name: f"{name}_{g.name}" for g in draft.graphs[1:]} | {entry.name: step}
    # What both make of the same parameters in the same way, such as rotary tables, is one weight.
    own = {param: recipe for (owner, param), recipe in draft.recipes.items() if owner == entry.name}
    shared = {p for p, recipe in own.items() if main.recipes.get((step, p)) == recipe}
    params = {param: f"{name}.{param}" for param in own if param not in shared}
    functions = tuple(_renamed(graph, graphs, {}) for graph in draft.graphs[1:])
    recipes: dict[tuple[str, str], Graph] = {}
    for (owner, param), recipe in draft.recipes.items():
        if owner == entry.name:
            recipes[step, params.get(param, param)] = _renamed(recipe, {}, params)
        else:
            recipes[graphs[owner], param] = recipe
    return _Part(_renamed(trimmed, graphs, params), functions, recipes)


def _renamed(graph: Graph, graphs: Mapping[str, str], params: Mapping[str, str]) -> Graph:
    def node(old: Node) -> Node:
        match old.op:
            case Call(callee=callee):
                return replace(old, op=replace(old.op, callee=graphs[callee]))
            case Param(name=name) if name in params:
                return replace(old, op=replace(old.op, name=params[name]))
            case _:
                return old

    return Graph(graphs.get(graph.name, graph.name), tuple(map(node, graph.nodes)), graph.outputs)


@dataclass(frozen=True)
class _Rows:
    """What the first draft layer reads.

    Attributes:
        ids: Token behind each row.
        hidden: Hidden state of each row.
        last: The row of each request whose draft is wanted.
        controls: Control tensors that differ from the main model's.
        kept: The hidden states that are kept for the next step.
        recent: The tokens before the next step.
    """

    ids: Value
    hidden: Value
    last: Value
    controls: Mapping[str, Value]
    kept: Value | None = None
    recent: Value | None = None


class _Step:
    """Rebuilds the entry of a closed step with draft layers before it advances."""

    def __init__(
        self, main: Graph, drafts: tuple[_Part, ...], branches: tuple[int, ...] = ()
    ) -> None:
        self._main = main
        self._drafts = drafts
        self._decodes = _decodes(main)
        self._branches = branches
        self._keeps = len(drafts) > 1 or bool(branches)
        self._block = block_tokens(Program((main,)))
        self._builder = GraphBuilder(main.name)
        self._moved: dict[Value, Value] = {}
        self._inputs: dict[str, Value] = {}
        self._drawn: tuple[Value, ...] = ()

    def run(self) -> Graph:
        main = self._main
        whole = len(main.outputs) > _HIDDEN_AT
        sampled = main.op_of(main.outputs[0]) if whole else None
        if not isinstance(sampled, SampleTokens) or not _is_hidden(main, main.outputs[_HIDDEN_AT]):
            raise GraphError(
                code="no-closed-step",
                reason=f"@{main.name} does not return sampled tokens, logits and hidden states",
                hint="run expose-hidden and close-step before fuse-mtp",
            )
        self._add_inputs()
        advance = [i for i, node in enumerate(main.nodes) if isinstance(node.op, AdvanceRequests)]
        for position, node in enumerate(main.nodes):
            if not isinstance(node.op, Input) and position not in advance:
                self._copy(position, node, ())
        rows = self._rows(self._moved[main.outputs[_HIDDEN_AT]])
        tokens, caches = self._draft_all(rows)
        for position in advance:
            self._copy(position, main.nodes[position], tokens)
        first, logits, _, *rest = (self._moved[v] for v in main.outputs)
        advanced = rest[: len(rest) - len(cache_inputs(main))]
        own = rest[len(advanced) :]
        results = () if self._decodes else tokens
        recent = () if rows.recent is None else (rows.recent,)
        kept = () if rows.kept is None else (rows.kept,)
        return self._builder.build(
            first, logits, *results, *advanced, *self._drawn, *recent, *own, *caches, *kept
        )

    def _add_inputs(self) -> None:
        caches = cache_inputs(self._main)
        kinds = self._main.input_types.items()
        wanted: dict[str, TensorType] = {name: kind for name, kind in kinds if name not in caches}
        if not self._decodes:
            wanted[KNOWN_TOKENS] = known_tokens(len(self._drafts))
        if self._keeps:
            wanted |= {RECENT: recent_tokens()} if self._decodes else {HIDDEN_SLOTS: hidden_slots()}
        wanted |= caches
        for depth, part in enumerate(self._drafts):
            for i, kind in enumerate(cache_inputs(part.entry).values()):
                wanted[f"{DRAFT_CACHE_PREFIX}{depth}.{i}"] = kind
        if self._keeps:
            hidden = self._main.type_of(self._main.outputs[_HIDDEN_AT])
            wanted[HIDDEN_CACHE] = kept_hidden(hidden, len(self._drafts))
        self._inputs = {name: self._builder.add(Input(name, wanted[name])) for name in wanted}
        if self._decodes and not self._branches:
            self._drawn = (self._inputs[DRAFT_IDS], self._inputs[DRAFT_PROBS])
        for value in self._main.inputs:
            op = self._main.op_of(value)
            if isinstance(op, Input):
                self._moved[value] = self._inputs[op.name]

    def _copy(self, position: int, node: Node, more: tuple[Value, ...]) -> None:
        with self._builder.at(node.location):
            operands = (self._moved[v] for v in node.operands)
            results = self._builder.add_multi(node.op, *operands, *more)
        self._moved.update((Value(position, i), result) for i, result in enumerate(results))

    def _rows(self, hidden: Value) -> _Rows:
        """Return the rows of the draft layers; they differ from the main model's if it decodes."""
        if not self._decodes:
            kept = self._keep(hidden, self._inputs[HIDDEN_SLOTS]) if self._keeps else None
            shift = ShiftTokens(0, known=True)
            ids, new = self._inputs["token_ids"], self._moved[self._main.outputs[0]]
            at = self._inputs[LOGIT_ROWS], self._inputs["row_request"]
            shifted = self._builder.add(shift, ids, *at, new, self._inputs[KNOWN_TOKENS])
            return _Rows(shifted, hidden, self._inputs[LOGIT_ROWS], {}, kept=kept)
        accepted, last, new, *path = self._verified()
        if not self._keeps:
            at = last, self._inputs["row_request"]
            ids = self._builder.add(ShiftTokens(0), self._inputs["token_ids"], *at, new)
            return _Rows(ids, hidden, last, {})
        return self._aligned(hidden, accepted, new, *path)

    def _aligned(self, hidden: Value, accepted: Value, new: Value, *path: Value) -> _Rows:
        operands = (self._inputs[name] for name in ("token_ids", "block_table", "state"))
        nodes = 1 + DraftTree(self._branches).drafts if path else 0
        align = AlignDrafts(len(self._drafts), self._block, nodes)
        ids, positions, slots, last, keep_at, found_at, recent = self._builder.add_multi(
            align, *operands, accepted, new, self._inputs[RECENT], *path
        )
        kept = self._keep(hidden, keep_at)
        kind = self._builder.type_of(kept)
        flat = self._builder.add(Reshape((product(kind.shape[:2]), *kind.shape[2:])), kept)
        found = self._builder.add(GatherRows(), flat, found_at)
        moved = {"positions": positions, "slots": slots}
        return _Rows(ids, found, last, moved, kept=kept, recent=recent)

    def _keep(self, hidden: Value, slots: Value) -> Value:
        return self._builder.add(CacheWrite(), self._inputs[HIDDEN_CACHE], slots, hidden)

    def _verified(self) -> tuple[Value, ...]:
        """Return accepted drafts, last rows, new tokens and, of a tree, paths."""
        for position, node in enumerate(self._main.nodes):
            if isinstance(node.op, VerifyDrafts | VerifyTree):
                return tuple(self._moved[Value(position, i)] for i in range(len(node.types)))
        raise AssertionError("a step that advances verifies")

    def _draft_all(self, rows: _Rows) -> tuple[tuple[Value, ...], list[Value]]:
        """Return the tokens that all depths draft, and all their caches."""
        ids, hidden = rows.ids, rows.hidden
        tokens: list[Value] = []
        spine: Value | None = None
        caches: list[Value] = []
        for depth, part in enumerate(self._drafts):
            if spine is not None:
                known = () if self._decodes else (self._inputs[KNOWN_TOKENS],)
                shift = ShiftTokens(depth, known=not self._decodes)
                at = rows.last, self._inputs["row_request"]
                ids = self._builder.add(shift, ids, *at, spine, *known)
            made, hidden, *written = self._draft(part, depth, rows, (ids, hidden))
            drafts = self._draw(depth, made) if self._decodes else (made,)
            spine, *_ = drafts
            tokens += drafts
            caches += written
        return tuple(tokens), caches

    def _draw(self, depth: int, logits: Value) -> tuple[Value, ...]:
        """Return the drafts of a depth in a decode step, and keep what one was drawn from."""
        options, state, stops = (self._inputs[name] for name in ("options", "state", "stop_ids"))
        accepted, *_ = self._verified()
        if self._branches:
            branch = BranchDrafts(depth, self._branches[depth])
            return self._builder.add_multi(branch, logits, state, stops, accepted)
        draft, *drawn = self._builder.add_multi(
            SampleDrafts(depth), logits, options, state, stops, accepted, *self._drawn
        )
        self._drawn = tuple(drawn)
        return (draft,)

    def _draft(
        self, part: _Part, depth: int, rows: _Rows, read: tuple[Value, Value]
    ) -> Iterator[Value]:
        """Write the entry of a draft program out; return its results."""
        entry, builder = part.entry, self._builder
        ids, hidden = read
        given = {**self._inputs, **rows.controls, LOGIT_ROWS: rows.last}
        given |= {"token_ids": ids, "hidden": hidden}
        for i, name in enumerate(cache_inputs(entry)):
            given[name] = self._inputs[f"{DRAFT_CACHE_PREFIX}{depth}.{i}"]
        moved: dict[Value, Value] = {}
        for position, node in enumerate(entry.nodes):
            if isinstance(node.op, Input):
                moved[Value(position)] = given[node.op.name]
                continue
            with builder.at(node.location):
                results = builder.add_multi(node.op, *(moved[v] for v in node.operands))
            moved.update((Value(position, i), result) for i, result in enumerate(results))
        return (moved[v] for v in entry.outputs)


def _decodes(main: Graph) -> bool:
    return any(isinstance(node.op, AdvanceRequests) for node in main.nodes)


def _is_hidden(main: Graph, value: Value) -> bool:
    kind = main.type_of(value)
    return kind.rank == 2 and kind.dtype.is_float
