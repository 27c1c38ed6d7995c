"""Return the last hidden state of every row beside the logits of the chosen ones, for drafts."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import Cast, GatherRows, Linear, RmsNorm
from ascendfx.ir.program import Program
from ascendfx.passes.drop_batch_axis import ROWS
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.step_inputs import chooses_rows

CHAININGS = ("post-norm", "pre-norm")
"""Which hidden state a draft layer reads: behind the last norm of what is before it, or the norm's
operand."""


@dataclass(frozen=True, slots=True)
class ExposeHidden(ProgramPass):
    """Adds the hidden state ``[rows, H]`` as the third result of a serving form.

    The serving form computes what follows its last layer for the rows in ``logit_rows`` alone. A
    draft layer reads the hidden state of every row, so the norm moves before the choice of rows:
    a token-wise operation commutes with choosing rows.

    Fidelity: bitwise. Each row is computed by the same operations as before.

    Attributes:
        chaining: One of `CHAININGS`. ``post-norm``: the operand of the output projection
            (transformers, SGLang); ``pre-norm``: the operand of the norm before it (vLLM).
    """

    name: ClassVar[str] = "expose-hidden"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    chaining: str = CHAININGS[0]

    def run(self, program: Program) -> PassResult:
        """Transform a serving form whose logits are a projection of a norm.

        Raises:
            GraphError: The logits are something else, so that no hidden state can be named.
        """
        check_chaining(self.chaining)
        exposed = _expose(program.main, hidden_value(program.main, self.chaining))
        return PassResult(Program((exposed, *program.graphs[1:]), program.recipes))


def hidden_value(main: Graph, chaining: str) -> Value:
    """Return the hidden state of a serving form, of the rows whose logits it computes.

    Args:
        main: Its entry.
        chaining: One of `CHAININGS`.

    Raises:
        GraphError: There are no logits, or they are no projection of a norm.
    """
    if len(main.outputs) < 2:
        raise GraphError(
            code="no-hidden-state",
            reason=f"@{main.name} returns {len(main.outputs)} values; a serving form returns "
            "tokens, logits and its caches",
            hint="run the pass derive-incremental-form before expose-hidden",
        )
    logits = _uncast(main, main.outputs[1])
    if not isinstance(main.op_of(logits), Linear):
        raise _refusal(main, logits, "the logits are no projection")
    normed = main.nodes[logits.node].operands[0]
    if chaining == "post-norm":
        return normed
    norm = _uncast(main, normed)
    if not isinstance(main.op_of(norm), RmsNorm):
        raise _refusal(main, norm, "what the output projection reads is no norm")
    return main.nodes[norm.node].operands[0]


def check_chaining(chaining: str) -> None:
    """Check the name of a hidden state.

    Raises:
        GraphError: It is none of `CHAININGS`.
    """
    if chaining not in CHAININGS:
        raise GraphError(
            code="unknown-chaining",
            reason=f"no hidden state is called `{chaining}`",
            hint=f"known: {', '.join(CHAININGS)}",
        )


def _expose(main: Graph, hidden: Value) -> Graph:
    """Compute what ``hidden`` needs for all rows, and choose rows behind it."""
    builder = GraphBuilder(main.name)
    moved: dict[Value, Value] = {}
    of_all: dict[Value, Value] = {}  # for a value of chosen rows, the same of every row
    behind = main.needed((hidden,))
    rows_at: Value | None = None
    for position, node in enumerate(main.nodes):
        results = tuple(Value(position, i) for i in range(len(node.types)))
        with builder.at(node.location):
            if chooses_rows(main, node):
                of_all[results[0]], rows_at = (moved[v] for v in node.operands)
            elif position in behind and not of_all.keys().isdisjoint(node.operands):
                op = node.op.substitute({"requests": ROWS})
                everywhere = builder.add_multi(
                    op, *(of_all.get(v, moved[v]) for v in node.operands)
                )
                of_all.update(zip(results, everywhere, strict=True))
            if hidden in of_all and hidden not in moved and rows_at is not None:
                moved[hidden] = builder.add(GatherRows(), of_all[hidden], rows_at)
            else:
                again = builder.add_multi(node.op, *(moved[v] for v in node.operands))
                moved.update(zip(results, again, strict=True))
    first, logits, *caches = (moved[v] for v in main.outputs)
    graph = builder.build(first, logits, of_all.get(hidden, moved[hidden]), *caches)
    return graph.part(graph.outputs, keep=graph.inputs)


def _uncast(graph: Graph, value: Value) -> Value:
    while isinstance(graph.op_of(value), Cast):
        value = graph.nodes[value.node].operands[0]
    return value


def _refusal(graph: Graph, value: Value, reason: str) -> GraphError:
    return GraphError(
        code="no-hidden-state",
        reason=f"{reason}: a draft layer has nothing to read",
        location=graph.nodes[value.node].location,
        hint="drafts need a model whose logits are a linear map of its last norm; compile with "
        "draft_tokens=0",
    )
