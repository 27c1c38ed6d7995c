"""What goes into a step over rows of requests, and what a captured program must look like."""

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.step_names import LOGIT_ROWS, TOKEN_IDS
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.drop_batch_axis import ROWS

REQUESTS = named_size("requests")
CONTEXT = named_size("context")
BLOCKS = named_size("blocks")
TABLE_BLOCKS = named_size("table_blocks")

I32_ROWS = TensorType(DType.I32, (ROWS,))
CONTROLS: dict[str, TensorType] = {
    TOKEN_IDS: I32_ROWS,
    "positions": I32_ROWS,
    "slots": I32_ROWS,
    "row_request": I32_ROWS,
    "block_table": TensorType(DType.I32, (REQUESTS, TABLE_BLOCKS)),
    LOGIT_ROWS: TensorType(DType.I32, (REQUESTS,)),
}
"""Control inputs of the serving form, in the order of its signature: the ids of the rows, their
positions, where their cache entries go, whose rows they are, the blocks of each request, and the
rows whose logits are wanted."""
LAYER_CONTROLS = ("positions", "slots", "row_request", "block_table")


def check_signature(program: Program) -> None:
    """Check that a captured program is a language model or a draft layer.

    Raises:
        GraphError: The entry is neither ``logits(token_ids)`` nor
            ``logits, hidden...(token_ids, hidden...)`` with hidden states of every token.
    """
    inputs, outputs = program.main.input_types, program.main.output_types
    if list(inputs) == [TOKEN_IDS] and len(outputs) == 1:
        return
    tokens = inputs[TOKEN_IDS].shape if next(iter(inputs), "") == TOKEN_IDS else ()
    states = [kind for name, kind in inputs.items() if name != TOKEN_IDS]
    of_tokens = all(kind.shape[:2] == tokens for kind in (*states, *outputs))
    if not tokens or not states or not outputs or not of_tokens:
        raise GraphError(
            code="not-a-language-model",
            reason=f"the entry has inputs {list(inputs)} and {len(outputs)} outputs",
            hint="serving needs one input `token_ids` [batch, tokens] and one output, the logits; "
            "of a draft layer, hidden states of every token as further inputs and outputs",
        )


def further_inputs(program: Program) -> dict[str, TensorType]:
    """Return the inputs of the entry beside the token ids, in order."""
    kinds = program.main.input_types.items()
    return {name: kind for name, kind in kinds if name != TOKEN_IDS}
