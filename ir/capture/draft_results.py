"""What a draft layer returns, in one form: logits and two hidden states."""

from typing import Any

from torch import Tensor

from ascendfx.ir.diagnostic import GraphError


def draft_results(found: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits, the hidden state behind the layer's last norm, and the one before it.

    A layer that returns one hidden state means both; one that returns logits alone has none, so
    that a further draft reads what this one read.

    Args:
        found: Logits, or a tuple of logits and one or two hidden states.
        hidden: What the layer read.

    Raises:
        GraphError: The layer returns something else.
    """
    results = [found] if isinstance(found, Tensor) else list(_several(found))
    if not 1 <= len(results) <= 3 or not all(isinstance(each, Tensor) for each in results):
        names = ["Tensor" if isinstance(each, Tensor) else type(each).__name__ for each in results]
        kinds = ", ".join(names) or type(found).__name__
        raise GraphError(
            "draft-results",
            f"the draft layer returns {kinds}",
            hint="return logits, (logits, hidden) or (logits, hidden_normed, hidden_raw)",
        )
    logits, *states = results
    for place, state in enumerate(states):
        if state.dim() != 3 or state.shape[2] != hidden.shape[2] or state.dtype != hidden.dtype:
            raise GraphError(
                "draft-results",
                f"hidden state {place} of the draft layer is {_kind(state)}, it reads "
                f"{_kind(hidden)}",
                hint="a hidden state that is returned is what the next draft reads: the same type",
            )
    if logits.dim() != 3:
        raise GraphError(
            "draft-results",
            f"the logits of the draft layer are {_kind(logits)}",
            hint="return logits of every token, [batch, tokens, vocabulary]",
        )
    states = states or [hidden]
    return logits, states[0], states[-1]


def _several(found: Any) -> Any:
    return found if isinstance(found, tuple | list) else ()


def _kind(tensor: Tensor) -> str:
    """Return format and number of axes; sizes are symbols here, but for the last one."""
    axes = [*(["_"] * (tensor.dim() - 1)), str(tensor.shape[-1])] if tensor.dim() else []
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(axes)}]"
