"""Capture draft layers beside their main model."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn

from ascendfx.ir.capture.capture_program import canonical_keys, capture_program
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.capture.choose_implementation import exportable
from ascendfx.ir.capture.draft_errors import check_draft, check_forward, of_draft
from ascendfx.ir.capture.embedding_rows import small_table
from ascendfx.ir.capture.module_source import ModuleSource, array_of, source_of_module
from ascendfx.ir.capture.rename_paths import rename_paths
from ascendfx.ir.capture.without_values import copy_without_values
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.ops.cast import Cast
from ascendfx.ir.ops.linear import Linear
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import ArraySource, LayeredSource
from ascendfx.ir.tensor_type import DType, TensorType

ENTRY = "draft"
"""Name of the entry graph of a draft program."""
PREFIX = "draft."
"""What stands before the keys of a draft module of the caller."""


@dataclass(frozen=True, slots=True)
class TracedDraft:
    """A draft layer as a program.

    Attributes:
        program: Entry `ENTRY`: ``token_ids : i64[batch, tokens]`` and ``hidden [batch, tokens, H]``
            to logits, the hidden state behind the layer's last norm, and the one before it.
        constants: Tensors that the layer's code wrote out, by key.
        remarks: What was not possible.
    """

    program: Program
    constants: Mapping[str, NDArray[Any]]
    remarks: tuple[str, ...] = ()


def trace_draft(
    shell: nn.Module, hidden: TensorType, keys: Mapping[str, str], path: Callable[[str], str]
) -> TracedDraft:
    """Return the program of a draft layer; tensors are not read.

    Args:
        shell: ``forward(token_ids, hidden)``; its tensors need no memory.
        hidden: Type of the hidden states that it reads, ``[batch, tokens, H]``.
        keys: Key of each tensor of ``shell`` by its name there.
        path: What to call a module of ``shell``, in locations.

    Raises:
        GraphError: The layer cannot be captured.
    """
    try:
        traced = capture_program(shell, shorten=False, hidden=hidden)
    except GraphError as error:
        raise of_draft(error, hidden) from error
    program = rename_paths(traced.program, lambda name: _key(name, keys), path)
    entry = replace(program.main, name=ENTRY)
    constants = {name: array_of(tensor) for name, tensor in traced.constants.items()}
    return TracedDraft(
        Program((entry, *program.graphs[1:]), program.recipes), constants, traced.remarks
    )


def capture_draft(
    module: nn.Module,
    main: nn.Module | None,
    captured: CapturedModel,
    *,
    dtype: DType | None = None,
) -> CapturedModel:
    """Return a captured model with one more draft: a module of the caller.

    The module is neither changed nor copied: the source shares its tensors.

    Args:
        module: Its forward takes ids ``[batch, tokens]`` and hidden states ``[batch, tokens, H]``
            and returns logits, ``(logits, hidden)`` or ``(logits, hidden_normed, hidden_raw)``; see
            `draft_results`. Row ``i`` is given token ``i + 1`` and the main model's hidden state of
            token ``i``, as its output projection reads it.
        main: The model; tensors that the draft shares with it have the model's keys, others are
            called ``draft.<name>``. None: nothing is shared.
        captured: What was captured of the model.
        dtype: Element format of parameters, as the model was captured with.

    Raises:
        GraphError: The draft cannot be captured, or does not fit the model.
    """
    if not isinstance(module, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GraphError(
            "no-draft",
            f"the draft is of type `{type(module).__name__}`",
            hint="pass a torch.nn.Module with forward(token_ids, hidden)",
        )
    check_forward(module)
    # Layers of the main model's kind keep its configuration, and with it how they are written.
    with exportable(main) if main is not None else nullcontext():
        shell, formats = copy_without_values(module, dtype)
    keys = keys_beside(module, main, lambda name: PREFIX + name)
    hidden = hidden_type(captured.program.main)
    traced = trace_draft(shell, hidden, keys, lambda path: f"{PREFIX}{path}".rstrip("."))
    vocabulary = traced.program.main.output_types[0].shape[-1]
    if vocabulary != captured.program.main.output_types[0].shape[-1]:
        raise GraphError(
            "draft-results",
            f"the draft knows {vocabulary} tokens, the model "
            f"{captured.program.main.output_types[0].shape[-1]}",
            hint="a draft proposes tokens of the model: use the same vocabulary",
        )
    small = small_table(traced.program, vocabulary) if isinstance(vocabulary, int) else None
    if small:
        rows, place = small
        raise GraphError(
            "draft-results",
            f"the draft looks up {rows} token ids, the model has {vocabulary}",
            place,
            hint="a draft reads every token of the model: use the same vocabulary",
        )
    check_draft(traced.program)
    own = source_of_module(module, formats)
    renamed = ModuleSource(
        {_key(name, keys): tensor for name, tensor in own.tensors.items()},
        {_key(name, keys): kind for name, kind in formats.items()},
        {},
    )
    source = LayeredSource((captured.source, ArraySource(traced.constants), renamed))
    return replace(
        captured,
        source=source,
        remarks=(*captured.remarks, *traced.remarks),
        drafts=(*captured.drafts, traced.program),
    )


def keys_beside(
    module: nn.Module, main: nn.Module | None, other: Callable[[str], str]
) -> dict[str, str]:
    """Return the key of each tensor of a draft, by its name there.

    Args:
        module: The draft.
        main: Its model; a tensor of both has the model's key.
        other: Key of a tensor that is the draft's own.
    """
    of_main: dict[object, str] = {}
    if main is not None:
        canonical = canonical_keys(main)
        for name, tensor in _tensors(main).items():
            of_main.setdefault(_identity(tensor), canonical[name])
    own = canonical_keys(module)
    return {
        name: of_main.get(_identity(tensor), other(own[name]))
        for name, tensor in _tensors(module).items()
    }


def hidden_type(main: Graph) -> TensorType:
    """Return the type of the hidden states that the logits of a captured model are made of.

    Raises:
        GraphError: The logits are no projection.
    """
    (value,) = main.outputs
    while isinstance(main.op_of(value), Cast):
        value = main.nodes[value.node].operands[0]
    node = main.nodes[value.node]
    if not isinstance(node.op, Linear):
        raise GraphError(
            "no-draft",
            "the model's logits are no projection of hidden states, so a draft has nothing to read",
            node.location,
            hint="compile with draft_tokens=0",
        )
    return main.type_of(node.operands[0])


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


def _identity(tensor: Tensor) -> object:
    """Return what two tensors that are the same have in common: a place in memory, if any."""
    if tensor.is_meta or not tensor.numel():
        return id(tensor)
    return (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())


def _key(name: str, keys: Mapping[str, str]) -> str:
    """Return the key of a tensor, or of a half of a complex one; constants keep their name."""
    for part in ("", ".real", ".imag"):
        whole = name.removesuffix(part)
        if name.endswith(part) and whole in keys:
            return keys[whole] + part
    return name
