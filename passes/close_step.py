"""Let a step choose its tokens, check the drafts among them, and prepare the step after it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import (
    AdvanceRequests,
    Argmax,
    Input,
    MoveEntries,
    SampleTokens,
    VerifyDrafts,
    VerifyTree,
)
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import (
    ANCESTORS,
    CACHE_PREFIX,
    COUNTS,
    DRAFT_IDS,
    DRAFT_PROBS,
    EMITTED,
    LOGIT_POSITIONS,
    LOGIT_REQUESTS,
)
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.drop_batch_axis import ROWS
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.serving_steps import block_tokens
from ascendfx.passes.step_inputs import (
    chooses_rows,
    decode_controls,
    prefill_controls,
    token_counts,
)
from ascendfx.passes.tree_attention import see_ancestors

KINDS = ("decode", "prefill")


@dataclass(frozen=True, slots=True)
class CloseStep(ProgramPass):
    """Turns a serving form, whose host chooses rows and tokens, into a step that needs no host.

    ``decode``: every request has ``1 + drafts`` rows: its newest token, and draft tokens. All rows
    have logits; `sample_tokens` chooses the token behind each, `verify_drafts` finds how many
    drafts were chosen, and `advance_requests` writes ids, positions, slots and state of the next
    step in place. Until `FuseMtp` has put draft layers there, drafts are placeholders which are
    never taken, and nothing is kept of them. ``prefill``: the token behind the chunk is sampled.
    Both read `COUNTS`, the tokens of each request, as far as it has penalties.

    With ``branches``, the rows of a decode step are the nodes of a `DraftTree`. Each row attends to
    its own path, which the constant control tensor `ANCESTORS` says; `verify_tree` finds the path
    that was chosen, and `move_entries` makes a chain of its entries in all caches. Choices are not
    coupled with drafts, so that a request must want them verified by equality, see
    `ascendfx.ir.step_state.Verification.EXACT`, and have no penalties.

    Fidelity: real. Logits are those of the serving form; choosing rows is left out where all rows
    are chosen.

    Attributes:
        kind: One of `KINDS`.
        drafts: Draft tokens per request and decode step; of a tree, its depth.
        branches: Candidates at each depth of a tree; empty: the drafts are a chain.
    """

    name: ClassVar[str] = "close-step"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    kind: str = KINDS[0]
    drafts: int = 0
    branches: tuple[int, ...] = ()

    def run(self, program: Program) -> PassResult:
        """Transform the main program of a plan.

        Raises:
            GraphError: The kind has no meaning, or the program is no serving form.
        """
        if self.kind not in KINDS:
            raise GraphError(
                code="unknown-step",
                reason=f"no kind of step is called `{self.kind}`",
                hint=f"known: {', '.join(KINDS)}",
            )
        decodes, tree = self.kind == "decode", DraftTree(self.branches)
        if decodes and self.branches:
            controls = decode_controls(tree.drafts, tree=True)
            program = see_ancestors(program, ANCESTORS, controls[ANCESTORS])
        else:
            controls = decode_controls(self.drafts) if decodes else prefill_controls()
        main = program.main
        if len(main.outputs) < 2 or not isinstance(main.op_of(main.outputs[0]), Argmax):
            raise GraphError(
                code="no-closed-step",
                reason=f"@{main.name} does not return the most likely token first",
                hint="run the pass derive-incremental-form before close-step",
            )
        builder = GraphBuilder(main.name)
        inputs = add_inputs(builder, controls, main)
        counts = Input(COUNTS, token_counts(main.type_of(main.outputs[1])))
        inputs[COUNTS] = builder.add(counts)
        moved = _copy(main, builder, inputs, every_row=decodes)
        _, logits, *rest = (moved[v] for v in main.outputs)
        hidden = rest[: len(rest) - len(cache_inputs(main))]
        caches = tuple(rest[len(hidden) :])
        if decodes:
            step = _Decode(builder, inputs, logits, block_tokens(program))
            if self.branches:
                (tokens, *advanced, seen), caches = step.tree(tree, caches)
            else:
                tokens, *advanced, seen = step.chain(self.drafts)
        else:
            tokens, *advanced, seen = _prefill(builder, inputs, logits)
        closed = builder.build(tokens, logits, *hidden, *advanced, *caches, seen)
        closed = closed.part(closed.outputs, keep=closed.inputs)
        return PassResult(Program((closed, *program.graphs[1:]), program.recipes))


_CHOICE = ("options", "state", "stop_ids")
_ADVANCED = ("token_ids", "positions", "slots", "block_table", "state", "stop_ids")


@dataclass(frozen=True)
class _Decode:
    """What a decode step does behind its logits; results are tokens, what changes, and counts."""

    builder: GraphBuilder
    inputs: Mapping[str, Value]
    logits: Value
    block: int

    def chain(self, drafts: int) -> tuple[Value, ...]:
        """Choose, verify a chain of drafts, advance."""
        coupled = (DRAFT_IDS, DRAFT_PROBS) if drafts else ()
        sampled = self._sample(drafts, *(("token_ids", *coupled) if drafts else ()))
        accepted, _, new = self._verify(VerifyDrafts(drafts), sampled)
        return sampled, *self._advance(AdvanceRequests(drafts, self.block), accepted, new)

    def tree(
        self, tree: DraftTree, caches: tuple[Value, ...]
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Choose, verify a tree of drafts, move entries, advance; return the caches, too."""
        sampled = self._sample(0)
        accepted, _, new, path = self._verify(VerifyTree(tree.parents), sampled)
        move = MoveEntries(len(tree.parents), len(caches))
        where = self.inputs["block_table"], self.inputs["state"], path
        moved = self.builder.add_multi(move, *caches, *where)
        advance = AdvanceRequests(tree.drafts, self.block, tree.parents)
        return (sampled, *self._advance(advance, accepted, new, path)), moved

    def _sample(self, drafts: int, *coupled: str) -> Value:
        names = (*_CHOICE, "positions", "row_request", COUNTS, *coupled)
        choice = (self.inputs[name] for name in names)
        return self.builder.add(SampleTokens(drafts), self.logits, *choice)

    def _verify(self, op: VerifyDrafts | VerifyTree, sampled: Value) -> tuple[Value, ...]:
        return self.builder.add_multi(op, self.inputs["token_ids"], sampled, self.inputs["state"])

    def _advance(
        self, op: AdvanceRequests, accepted: Value, new: Value, *path: Value
    ) -> tuple[Value, ...]:
        operands = (*(self.inputs[name] for name in _ADVANCED), accepted, new)
        kept = (self.inputs[name] for name in (EMITTED, "step", COUNTS, "options"))
        return self.builder.add_multi(op, *operands, *kept, *path)


def _prefill(
    builder: GraphBuilder, inputs: Mapping[str, Value], logits: Value
) -> tuple[Value, ...]:
    names = (*_CHOICE, LOGIT_POSITIONS, LOGIT_REQUESTS, COUNTS)
    sampled = builder.add(SampleTokens(), logits, *(inputs[name] for name in names))
    return sampled, inputs[COUNTS]


def add_inputs(
    builder: GraphBuilder, controls: Mapping[str, TensorType], main: Graph
) -> dict[str, Value]:
    """Add control inputs and those for the caches of ``main``; return them by name."""
    kinds = {**controls, **cache_inputs(main)}
    return {name: builder.add(Input(name, kind)) for name, kind in kinds.items()}


def cache_inputs(main: Graph) -> dict[str, TensorType]:
    """Return name and type of each cache, in order."""
    kinds = main.input_types.items()
    return {name: kind for name, kind in kinds if name.startswith(CACHE_PREFIX)}


def _copy(
    main: Graph, builder: GraphBuilder, inputs: Mapping[str, Value], *, every_row: bool
) -> dict[Value, Value]:
    """Copy the step; where every row has logits, rows are not chosen."""
    moved: dict[Value, Value] = {}
    of_all: set[Value] = set()
    for position, node in enumerate(main.nodes):
        results = tuple(Value(position, i) for i in range(len(node.types)))
        if isinstance(node.op, Input):
            if node.op.name in inputs:
                moved[results[0]] = inputs[node.op.name]
            continue
        with builder.at(node.location):
            if every_row and chooses_rows(main, node):
                moved[results[0]] = moved[node.operands[0]]
                of_all.add(results[0])
                continue
            op = node.op
            if not of_all.isdisjoint(node.operands):
                op = op.substitute({"requests": ROWS})
                of_all.update(results)
            copies = builder.add_multi(op, *(moved[v] for v in node.operands))
            moved.update(zip(results, copies, strict=True))
    return moved
