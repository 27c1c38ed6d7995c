"""Let a step choose its tokens, check the drafts among them, and prepare the step after it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import AdvanceRequests, Argmax, Input, SampleTokens, VerifyDrafts
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.drop_batch_axis import ROWS
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.serving_steps import block_tokens
from ascendfx.passes.step_inputs import (
    CACHE_PREFIX,
    COUNTS,
    DRAFT_IDS,
    DRAFT_PROBS,
    chooses_rows,
    decode_controls,
    prefill_controls,
    token_counts,
)

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

    Fidelity: real. Logits are those of the serving form; choosing rows is left out where all rows
    are chosen.

    Attributes:
        kind: One of `KINDS`.
        drafts: Draft tokens per request and decode step.
    """

    name: ClassVar[str] = "close-step"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    kind: str = KINDS[0]
    drafts: int = 0

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
        main = program.main
        if not isinstance(main.op_of(main.outputs[0]), Argmax):
            raise GraphError(
                code="no-closed-step",
                reason=f"@{main.name} does not return the most likely token first",
                hint="run the pass derive-incremental-form before close-step",
            )
        controls = decode_controls(self.drafts) if self.kind == "decode" else prefill_controls()
        builder = GraphBuilder(main.name)
        inputs = add_inputs(builder, controls, main)
        counts = Input(COUNTS, token_counts(main.type_of(main.outputs[1])))
        inputs[COUNTS] = builder.add(counts)
        moved = _copy(main, builder, inputs, every_row=self.kind == "decode")
        _, logits, *rest = (moved[v] for v in main.outputs)
        if self.kind == "decode":
            tokens, *advanced, seen = self._decode(builder, inputs, logits, block_tokens(program))
        else:
            tokens, *advanced, seen = _prefill(builder, inputs, logits)
        hidden = rest[: len(rest) - len(cache_inputs(main))]
        caches = rest[len(hidden) :]
        closed = builder.build(tokens, logits, *hidden, *advanced, *caches, seen)
        closed = closed.part(closed.outputs, keep=closed.inputs)
        return PassResult(Program((closed, *program.graphs[1:]), program.recipes))

    def _decode(
        self, builder: GraphBuilder, inputs: Mapping[str, Value], logits: Value, block: int
    ) -> tuple[Value, ...]:
        coupled = ("token_ids", DRAFT_IDS, DRAFT_PROBS) if self.drafts else ()
        names = (*_CHOICE, "positions", "row_request", COUNTS, *coupled)
        choice = (inputs[name] for name in names)
        sampled = builder.add(SampleTokens(self.drafts), logits, *choice)
        accepted, _, new = builder.add_multi(
            VerifyDrafts(self.drafts), inputs["token_ids"], sampled, inputs["state"]
        )
        operands = (*(inputs[name] for name in _ADVANCED), accepted, new)
        kept = (inputs[name] for name in ("emitted", "step", COUNTS, "options"))
        advance = AdvanceRequests(self.drafts, block)
        return sampled, *builder.add_multi(advance, *operands, *kept)


_CHOICE = ("options", "state", "stop_ids")
_ADVANCED = ("token_ids", "positions", "slots", "block_table", "state", "stop_ids")


def _prefill(
    builder: GraphBuilder, inputs: Mapping[str, Value], logits: Value
) -> tuple[Value, ...]:
    names = (*_CHOICE, "logit_positions", "logit_requests", COUNTS)
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
