"""What can be wrong with a draft layer, said of the draft and not of its model."""

import inspect
from dataclasses import replace

from torch import nn

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.ops import Input
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType

_OTHERS = ("attention_mask", "inputs_embeds", "past_key_values", "position_ids", "positions")
"""Second arguments of language models."""
_FORWARD = "forward(token_ids, hidden)"


def check_forward(module: nn.Module) -> None:
    """Check that the forward of a caller's draft can be given token ids and hidden states.

    Raises:
        GraphError: There is none, or it takes something else.
    """
    named = f"the draft `{type(module).__name__}`"
    if type(module).forward is nn.Module.forward:
        raise _no_draft(f"{named} has no forward")
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):  # compiled code: calling it will tell
        return
    names = list(signature.parameters)
    try:
        signature.bind("token_ids", "hidden")
    except TypeError as error:
        raise _no_draft(f"the forward of {named} takes ({', '.join(names)}): {error}") from error
    if names[1:2] and names[1] in _OTHERS:
        raise _no_draft(f"the forward of {named} takes `{names[1]}` in place of hidden states")


def of_draft(error: GraphError, hidden: TensorType) -> GraphError:
    """Return an error of capturing a draft layer that says so.

    Args:
        error: As it would be of a model.
        hidden: Type of the hidden states that the layer reads, ``[batch, tokens, H]``.
    """
    told = replace(
        error,
        reason=error.reason.replace("the model", "the draft layer"),
        hint=error.hint.replace("the model", "the draft layer"),
    )
    if error.code != "model-fails":
        return told
    return replace(
        told,
        hint=f"it is given token ids i64[batch, tokens] and the model's hidden states {hidden}: "
        "its sizes and formats have to fit these; call it with such tensors to see where it fails",
    )


def check_draft(program: Program) -> None:
    """Check what every draft layer of a caller has to do.

    Raises:
        GraphError: It does not read its token ids, or computes in f16.
    """
    main = program.main
    reached = {value.node for value in main.outputs[:1]}
    for position in range(len(main.nodes) - 1, -1, -1):
        if position in reached:
            reached |= {value.node for value in main.nodes[position].operands}
    if not any(
        main.nodes[p].op == Input("token_ids", main.input_types["token_ids"]) for p in reached
    ):
        raise GraphError(
            "draft-results",
            "the logits of the draft layer do not depend on its token ids",
            hint="row i is given token i + 1 and the hidden state of token i, and proposes token "
            "i + 2: look both of them up",
        )
    for graph in program.graphs:
        for node in graph.nodes:
            if any(kind.dtype is DType.F16 for kind in node.types):
                raise GraphError(
                    "draft-dtype",
                    "the draft layer computes in f16, kernels in f32 and bf16",
                    node.location,
                    hint="give the draft the format of the model: `draft.float()` or "
                    "`draft.bfloat16()`, and no casts to half",
                )


def _no_draft(reason: str) -> GraphError:
    return GraphError(
        "no-draft",
        reason,
        hint=f"write {_FORWARD}: ids [batch, tokens] and the model's hidden states "
        "[batch, tokens, H] to logits, (logits, hidden) or (logits, hidden_normed, hidden_raw)",
    )
