"""Capture a module that is in memory."""

from typing import Any

from torch import nn

from ascendfx.ir.capture.capture_program import capture_program
from ascendfx.ir.capture.captured_model import CapturedModel, ModelFacts
from ascendfx.ir.capture.config_fields import count_in, end_ids_in
from ascendfx.ir.capture.module_source import array_of, source_of_module
from ascendfx.ir.capture.without_values import copy_without_values
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import ArraySource, LayeredSource, TensorSource
from ascendfx.ir.tensor_type import DType


def capture_module(
    module: nn.Module, *, dtype: DType | None = None, weights: TensorSource | None = None
) -> CapturedModel:
    """Return the plain forward of ``module`` as a program.

    The module is neither changed nor copied: the source shares its tensors. Parameters on the meta
    device can be captured, but not loaded.

    Args:
        module: Its forward takes ids ``[batch, tokens]`` and returns logits, alone, as the
            attribute ``logits`` or as the first of several results.
        dtype: Element format of parameters and hidden states; the module's own by default.
        weights: Where the values of parameters and buffers are; by default, the module.

    Raises:
        GraphError: The module cannot be captured.
    """
    if not isinstance(module, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GraphError(
            "no-model",
            f"the model is of type `{type(module).__name__}`",
            hint="pass a torch.nn.Module, or the path of a Hugging Face directory",
        )
    shell, formats = copy_without_values(module, dtype)
    traced = capture_program(shell)
    config: Any = getattr(module, "config", None)
    plain: dict[str, Any] = config.to_dict() if hasattr(config, "to_dict") else {}
    facts = facts_of(traced.program, type(module).__name__, plain)
    constants = ArraySource({name: array_of(tensor) for name, tensor in traced.constants.items()})
    source = LayeredSource((constants, weights or source_of_module(module, formats)))
    return CapturedModel(traced.program, source, facts, traced.remarks)


def facts_of(program: Program, name: str, config: dict[str, Any]) -> ModelFacts:
    """Return the facts that a program and a configuration in the usual spelling tell.

    Raises:
        GraphError: A field of the configuration has another form.
    """
    logits = program.main.output_types[0]
    last = logits.shape[-1]
    vocabulary, where = last if isinstance(last, int) else 0, f"the configuration of `{name}`"
    return ModelFacts(
        name=name,
        dtype=logits.dtype,
        vocabulary=vocabulary,
        max_positions=count_in(config, "max_position_embeddings", where),
        end_ids=end_ids_in(config, where, vocabulary),
        config=config,
    )
