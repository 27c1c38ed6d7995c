"""Module to program: the steps of a capture in order."""

from collections.abc import Mapping
from contextlib import ExitStack

from torch import nn

from ascendfx.ir.capture.choose_implementation import exportable
from ascendfx.ir.capture.export_model import WRAPPER_PREFIX, export_model
from ascendfx.ir.capture.outline_layers import outline_layers
from ascendfx.ir.capture.repeat_layers import repeat_layers
from ascendfx.ir.capture.same_structure import LayerList, outermost_lists
from ascendfx.ir.capture.shorten_layers import NotAChainError, Run, find_runs, shortened
from ascendfx.ir.capture.simplify_positions import simplify_positions
from ascendfx.ir.capture.translate import translate
from ascendfx.ir.program import Program

_AXES = (("batch", "tokens"),)


def capture_program(model: nn.Module, *, shorten: bool = True) -> tuple[Program, tuple[str, ...]]:
    """Return the program of a model's plain forward, and remarks about what was not possible.

    The entry maps ``token_ids : i64[batch, tokens]`` to logits ``[batch, tokens, vocab]``. Each
    distinct layer is one function. The model is left as it was; parameters are not read.

    Args:
        model: Parameters may be on the meta device.
        shorten: Trace only two layers of each run of equal ones.

    Raises:
        GraphError: The model cannot be captured.
    """
    lists = outermost_lists(model)
    canonical = canonical_keys(model)
    runs = find_runs(lists) if shorten else ()
    with exportable(model):
        found = _attempt(model, lists, runs, canonical)
        if isinstance(found, tuple):
            return found
        program, remarks = _whole(model, lists, canonical)
    return program, (f"every layer was traced: {found}", *remarks)


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
) -> tuple[Program, tuple[str, ...]] | str:
    """Capture with shortened runs; return the reason if that does not work out."""
    if not runs:
        return _whole(model, lists, canonical)
    with ExitStack() as stack:
        stack.enter_context(shortened(model, runs))
        try:
            exported = export_model(model)
        except NotAChainError:
            return "the layers of a run are not called alike"
    flat = simplify_positions(translate(exported, WRAPPER_PREFIX, _AXES, canonical))
    outlined = outline_layers(flat, [each.path for each in lists])
    program = repeat_layers(outlined, runs, canonical)
    return program if isinstance(program, str) else (program, outlined.remarks)


def _whole(
    model: nn.Module, lists: tuple[LayerList, ...], canonical: Mapping[str, str]
) -> tuple[Program, tuple[str, ...]]:
    exported = export_model(model)
    flat = simplify_positions(translate(exported, WRAPPER_PREFIX, _AXES, canonical))
    outlined = outline_layers(flat, [each.path for each in lists])
    return outlined.program, outlined.remarks
