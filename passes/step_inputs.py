"""Control inputs of the steps that prepare the next one, in the order of their signatures."""

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import GatherRows, Input
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim, named_size
from ascendfx.ir.step_names import (
    ANCESTORS,
    DRAFT_IDS,
    DRAFT_PROBS,
    EMITTED,
    LOGIT_POSITIONS,
    LOGIT_REQUESTS,
    LOGIT_ROWS,
    SIZES,
)
from ascendfx.ir.step_state import (
    DRAFT_CANDIDATES,
    OPTION_COLUMNS,
    RECENT_COLUMNS,
    SIZE_COLUMNS,
    STATE_COLUMNS,
    STEP_COLUMNS,
    STOP_COLUMNS,
    hidden_window,
)
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.serving_signature import CONTROLS, REQUESTS

STEPS = named_size("steps")
"""Steps whose tokens the device keeps until the host reads them."""
PLACES = named_size("places")
"""Requests of a decode step, in every plan of a package."""

_PER_REQUEST = TensorType(DType.I32, (REQUESTS,))


def _of_requests(dtype: DType, *columns: Dim) -> TensorType:
    return TensorType(dtype, (REQUESTS, *columns))


_CHOICE: dict[str, TensorType] = {
    "options": _of_requests(DType.F32, OPTION_COLUMNS),
    "state": _of_requests(DType.I32, STATE_COLUMNS),
    "stop_ids": _of_requests(DType.I32, STOP_COLUMNS),
}
"""How each request wants its tokens, what it has done, and which tokens end it."""


def decode_controls(drafts: int, *, tree: bool = False) -> dict[str, TensorType]:
    """Return the inputs of a decode step with ``drafts`` draft tokens per request, or nodes."""
    rows = {name: kind for name, kind in CONTROLS.items() if name != LOGIT_ROWS}
    emitted = TensorType(DType.I32, (STEPS, REQUESTS, drafts + 2))
    step = TensorType(DType.I32, (STEP_COLUMNS,))
    kept = kept_drafts(drafts) if drafts else {}
    if tree:
        kept = {ANCESTORS: rows["positions"]}
    return {**rows, **_CHOICE, EMITTED: emitted, "step": step, **kept}


def prefill_controls() -> dict[str, TensorType]:
    """Return the inputs of a prefill step; ``logit_positions`` are those of ``logit_rows``."""
    chosen = {LOGIT_POSITIONS: _PER_REQUEST, LOGIT_REQUESTS: _PER_REQUEST}
    return {**CONTROLS, **chosen, **_CHOICE}


def kept_drafts(drafts: int) -> dict[str, TensorType]:
    """Return the tables of what each draft of a step was drawn from, see `SampleDrafts`."""
    return {
        DRAFT_IDS: _of_requests(DType.I32, drafts, DRAFT_CANDIDATES),
        DRAFT_PROBS: _of_requests(DType.F32, drafts, DRAFT_CANDIDATES),
    }


def token_counts(logits: TensorType) -> TensorType:
    """Return the type of the tokens that each place has, which penalties look at."""
    return TensorType(DType.I32, (PLACES, logits.shape[-1]))


def step_sizes() -> TensorType:
    """Return the type of the sizes of a step, see `ascendfx.ir.step_state.Size`."""
    return TensorType(DType.I32, (SIZE_COLUMNS,))


def known_tokens(drafts: int) -> TensorType:
    """Return the type of the prompt tokens behind the last row of a chunk; -1: not known."""
    return _of_requests(DType.I32, drafts)


def recent_tokens() -> TensorType:
    """Return the type of the tokens before each request's first row."""
    return _of_requests(DType.I32, RECENT_COLUMNS)


def hidden_slots() -> TensorType:
    """Return the type of the places where a chunk's last hidden states go; -1: nowhere."""
    return CONTROLS["slots"]


def kept_hidden(hidden: TensorType, drafts: int) -> TensorType:
    """Return the type of the hidden states that each place keeps between steps."""
    return hidden.with_shape((PLACES, hidden_window(drafts), *hidden.shape[1:]))


def is_packed(program: Program) -> bool:
    """Return whether the rows of a step stand close together, as `DropPlaceholders` leaves them."""
    return SIZES in program.main.input_types


def chooses_rows(graph: Graph, node: Node) -> bool:
    """Return whether a node takes the rows whose logits are wanted."""
    return isinstance(node.op, GatherRows) and is_input(graph, node.operands[1], LOGIT_ROWS)


def is_input(graph: Graph, value: Value, name: str) -> bool:
    """Return whether a value is the input of that name."""
    op = graph.op_of(value)
    return isinstance(op, Input) and op.name == name
