"""Run torch.export on a model so that its plain forward becomes one functional ATen graph."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from ascendfx.ir.capture.locate import location_of_error
from ascendfx.ir.diagnostic import GraphError

WRAPPER_PREFIX = "model"
"""What stands before every name in the exported program."""

_BATCH, _TOKENS = 3, 7
"""Sizes of the sample; distinct and not 0 or 1, so that no size is taken for a special one."""


class LogitsOf(nn.Module):
    """The plain forward of a language model: ids ``[batch, tokens]`` to logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._keywords = _keywords_for(model.forward)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Return the logits, whatever the model wraps them in."""
        found = self.model(token_ids, **self._keywords)
        if isinstance(found, Tensor):
            return found
        return found.logits if hasattr(found, "logits") else found[0]


def _keywords_for(forward: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(forward).parameters
    return {"use_cache": False} if "use_cache" in parameters else {}


def export_model(model: nn.Module) -> ExportedProgram:
    """Return the functional ATen program of ``model`` with symbolic batch and tokens.

    The parameters may be on the meta device; none is copied.

    Raises:
        GraphError: The control flow depends on values, or the model cannot be traced.
    """
    batch, tokens = Dim("batch", min=1), Dim("tokens", min=1)
    sample = torch.zeros(_BATCH, _TOKENS, dtype=torch.int64, device=_device_of(model))
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            exported = torch.export.export(
                LogitsOf(model),
                (sample,),
                dynamic_shapes={"token_ids": {0: batch, 1: tokens}},
                strict=False,
            )
            return exported.run_decompositions({})
    except GraphError:
        raise
    except (
        RuntimeError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        IndexError,
        NotImplementedError,
        AssertionError,
        torch._dynamo.exc.TorchDynamoException,  # the type of UserError has no public name
    ) as error:
        raise _explained(error) from error


def _device_of(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


_DATA_DEPENDENT = (
    "data-dependent",
    "DataDependent",
    "GuardOnDataDependentSymNode",
    "Could not guard on",
    "Could not extract specialized integer",
    "_local_scalar_dense",
)


def _explained(error: BaseException) -> GraphError:
    text = f"{type(error).__name__}: {error}"
    location = location_of_error(error)
    first = str(error).strip().split("\n", 1)[0]
    if any(mark in text for mark in _DATA_DEPENDENT):
        return GraphError(
            "data-dependent",
            "the control flow of the model depends on the values of a tensor",
            location,
            notes=(first,),
            hint=(
                "compute all cases and choose with torch.where, or, for experts, sort the tokens by "
                "expert and use torch.nn.functional.grouped_mm"
            ),
        )
    return GraphError(
        "not-exportable",
        f"torch.export failed: {type(error).__name__}: {first}",
        location,
        hint="the model's forward must run on symbolic shapes without printing or reading values",
    )
