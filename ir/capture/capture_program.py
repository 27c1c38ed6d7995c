"""Module to program: the steps of a capture in order."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ascendfx.ir.capture.choose_implementation import exportable
from ascendfx.ir.capture.export_model import WRAPPER_PREFIX, export_model
from ascendfx.ir.capture.outline_layers import outline_layers
from ascendfx.ir.capture.repeat_layers import repeat_layers
from ascendfx.ir.capture.same_structure import LayerList, outermost_lists
from ascendfx.ir.capture.shorten_layers import NotAChainError, Run, find_runs, shortened
from ascendfx.ir.capture.simplify_positions import simplify_positions
from ascendfx.ir.capture.translate import translate
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import TensorType

_AXES = ("batch", "tokens")


@dataclass(frozen=True, slots=True)
class Tracing:
    """A traced model.

    Attributes:
        program: Entry ``token_ids : i64[batch, tokens]`` to logits ``[batch, tokens, vocab]``.
        constants: Tensors that the model's code wrote out, by parameter name.
        remarks: What was not possible.
    """

    program: Program
    constants: Mapping[str, Tensor]
    remarks: tuple[str, ...] = ()


def capture_program(
    model: nn.Module, *, shorten: bool = True, hidden: TensorType | None = None
) -> Tracing:
    """Return the program of the plain forward of a model or of a draft layer.

    Each distinct layer is one function. The model is left as it was; tensors are not read.

    Args:
        model: Its tensors need no memory, see `copy_without_values`.
        shorten: Trace only two layers of each run of equal ones.
        hidden: Type of the hidden states that a draft layer reads, ``[batch, tokens, H]``; then the
            entry has a second input ``hidden`` and two more outputs, see `DraftOf`.

    Raises:
        GraphError: The model cannot be captured.
    """
    _require_own_formats()
    lists = outermost_lists(model)
    canonical = canonical_keys(model)
    runs = find_runs(lists) if shorten else ()
    remarks: list[str] = []
    with exportable(model):
        for chosen in (runs, ()):
            found = _attempt(model, lists, chosen, canonical, hidden)
            if isinstance(found, Tracing):
                return replace(found, remarks=(*remarks, *found.remarks))
            remarks.append(f"every layer was traced, which takes longer: {found}")
    raise AssertionError("nothing can go wrong with runs when there are none")


def _require_own_formats() -> None:
    """Refuse to trace where PyTorch casts weights and activations behind the model's back."""
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            name = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
            raise GraphError(
                "autocast",
                f"the capture runs under torch.autocast({device!r}), which adds casts to {name}",
                hint='leave autocast; dtype="bfloat16" compiles the model in that format, weights '
                "included",
            )


def canonical_keys(model: nn.Module) -> dict[str, str]:
    """Return the first name of each parameter and buffer, by each of its names."""
    first: dict[int, str] = {}
    keys: dict[str, str] = {}
    for table in (model.named_parameters, model.named_buffers):
        for name, tensor in table(remove_duplicate=False):
            keys[name] = first.setdefault(id(tensor), name)
    return keys


def _attempt(
    model: nn.Module,
    lists: tuple[LayerList, ...],
    runs: tuple[Run, ...],
    canonical: Mapping[str, str],
    hidden: TensorType | None,
) -> Tracing | str:
    """Trace with shortened runs; return the reason if that does not work out."""
    with shortened(model, runs):
        try:
            exported = export_model(model, hidden)
        except NotAChainError:
            return "the layers of a run are not called alike"
    axes = (_AXES,) if hidden is None else (_AXES, _AXES)
    flat, constants = translate(exported, WRAPPER_PREFIX, axes, canonical)
    outlined = outline_layers(simplify_positions(flat), [each.path for each in lists])
    program = repeat_layers(outlined, runs, canonical)
    return program if isinstance(program, str) else Tracing(program, constants, outlined.remarks)
