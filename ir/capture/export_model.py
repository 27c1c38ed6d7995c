"""Run torch.export on a model so that its plain forward becomes one functional ATen graph."""

import inspect
import io
import logging
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import DispatchKey
from torch._dynamo.exc import TorchDynamoException
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.export import Dim, ExportedProgram, default_decompositions
from torch.overrides import TorchFunctionMode

from ascendfx.ir.capture.aten import HANDLERS
from ascendfx.ir.capture.draft_results import draft_results
from ascendfx.ir.capture.locate import location_of_error
from ascendfx.ir.capture.size_decisions import (
    Heard,
    refuse_heard,
    refuse_size_decisions,
    size_decisions_heard,
    size_refusal,
)
from ascendfx.ir.capture.state_check import refuse_changes, state_of
from ascendfx.ir.capture.without_values import TORCH_DTYPES
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_type import TensorType

WRAPPER_PREFIX = "model"
"""What stands before every name in the exported program."""

_BATCH, _TOKENS = 3, 7
"""Sizes of the sample; distinct and not 0 or 1, so that no size is taken for a special one."""


class _Watched(nn.Module):
    """Calls a module as it is called outside training, and refuses changes of itself."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        # In a tuple: while the model is traced, its modules are seen through proxies.
        self._modules_themselves = (model,)
        self._keywords = _keywords_for(model.forward)

    def call(self, *arguments: Tensor) -> Any:
        """Return what the module returns."""
        before = state_of(self._modules_themselves[0])
        with _DropoutIsIdentity():
            found = self.model(*arguments, **self._keywords)
        refuse_changes(self._modules_themselves[0], before)
        return found


class LogitsOf(_Watched):
    """The plain forward of a language model: ids ``[batch, tokens]`` to logits."""

    def forward(self, token_ids: Tensor) -> Tensor:
        """Return the logits, whatever the model wraps them in."""
        found = self.call(token_ids)
        if isinstance(found, Tensor):
            return found
        return found.logits if hasattr(found, "logits") else found[0]


class DraftOf(_Watched):
    """A draft layer: ids and hidden states to logits and hidden states."""

    def forward(self, token_ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, the hidden state behind the last norm, and the one before it."""
        return draft_results(self.call(token_ids, hidden), hidden)


class _DropoutIsIdentity(TorchFunctionMode):
    """Dropout outside training returns its very argument, as it does when a model runs.

    torch.export records a fresh tensor instead, so that a later change in place of the result
    would not reach the argument (pytorch#195422).
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        keywords = dict(kwargs or {})
        if "dropout" in getattr(func, "__name__", "") and not _trains(args, keywords):
            return args[0] if args else keywords["input"]
        return func(*args, **keywords)


def _trains(arguments: Any, keywords: dict[str, Any]) -> bool:
    """Whether a dropout is asked to drop: ``(input, p, training)``, by place or by name."""
    given = arguments[2] if len(arguments) > 2 else keywords.get("training", keywords.get("train"))
    return given is not False


def _keywords_for(forward: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(forward).parameters
    return {"use_cache": False} if "use_cache" in parameters else {}


def export_model(model: nn.Module, hidden: TensorType | None = None) -> ExportedProgram:
    """Return the functional ATen program of ``model`` with symbolic batch and tokens.

    Its tensors need no memory, see `copy_without_values`.

    Args:
        model: A language model, or a draft layer.
        hidden: Type of the hidden states that a draft layer reads; None for a language model.

    Raises:
        GraphError: The control flow depends on values, or the model cannot be traced.
    """
    sample = {"token_ids": torch.zeros(_BATCH, _TOKENS, dtype=torch.int64)}
    if hidden is not None:
        kind = TORCH_DTYPES[hidden.dtype]
        sample["hidden"] = torch.zeros(_BATCH, _TOKENS, bind_size(hidden.shape[-1], {}), dtype=kind)
    called = LogitsOf(model) if hidden is None else DraftOf(model)
    heard = Heard()
    try:
        with _quiet(), torch.no_grad(), size_decisions_heard(heard):
            exported = torch.export.export(
                called,
                tuple(sample.values()),
                dynamic_shapes={name: {0: Dim.DYNAMIC, 1: Dim.DYNAMIC} for name in sample},
                strict=False,
            )
            refuse_size_decisions(exported, heard)
            return _written_out(exported.run_decompositions({}))
    except GraphError:
        raise
    except (*_OF_MODELS, TorchDynamoException) as error:
        if _FIXED in str(error):
            refuse_heard(heard)
        raise _explained(error, fails_itself=_fails(called, sample, error)) from error


_OF_MODELS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What the code of a model raises, whose sizes do not fit each other or are zero."""


_FIXED = "Constraints violated"
"""What PyTorch says of a size that must have the value of the sample."""


def _fails(called: nn.Module, sample: Mapping[str, Tensor], traced: BaseException) -> bool:
    """Whether a plain call, with sizes and no values, fails where tracing did."""
    try:
        with _quiet(), torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
            called(*sample.values())
    except (GraphError, *_NEEDS_VALUES):
        return False
    except _OF_MODELS as error:
        return location_of_error(error) == location_of_error(traced)
    return False


def _written_out(exported: ExportedProgram) -> ExportedProgram:
    """Replace calls without a translation by the calls that PyTorch itself defines them by."""
    for _ in range(_DEPTH):
        unknown = {
            node.target
            for node in exported.graph.nodes
            if isinstance(node.target, OpOverload)
            and node.target.namespace == "aten"
            and str(node.target) not in HANDLERS
            and any("Tensor" in str(each.type) for each in node.target._schema.returns)  # pyright: ignore[reportPrivateUsage]
            and node.target.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)
        }
        if not unknown:
            break
        table = default_decompositions()
        exported = exported.run_decompositions({op: table[op] for op in unknown if op in table})
    return exported


_DEPTH = 4
"""Calls in definitions of calls: einsum, for one, is defined by others that have a definition."""


@contextmanager
def _quiet() -> Generator[None]:
    """Keep PyTorch from telling about its internals; our errors say what there is to say."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


_TALKATIVE = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.export",
    "torch._export",
    "torch",
    "torch.__trace",  # for TORCH_TRACE; pytest shows it under every failed test
)


_NEEDS_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
)

_DATA_DEPENDENT = (
    "data-dependent",
    "DataDependent",
    "GuardOnDataDependentSymNode",
    "Could not guard on",
    "Could not extract specialized integer",
    "_local_scalar_dense",
)


def _explained(error: BaseException, *, fails_itself: bool) -> GraphError:
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
                "compute all cases and choose with torch.where; for experts, sort the tokens by "
                "expert and use torch.nn.functional.grouped_mm"
            ),
        )
    if _FIXED in text:
        return size_refusal(first, location)
    if fails_itself:
        return GraphError(
            "model-fails",
            f"the model cannot be called: {type(error).__name__}: {first}",
            location,
            hint=(
                "it fails without ascendfx, too: call it to see where; most often "
                "sizes of its configuration do not fit each other"
            ),
        )
    return GraphError(
        "not-exportable",
        f"torch.export failed: {type(error).__name__}: {first}",
        location,
        hint="the model's forward must run on symbolic shapes without printing or reading values",
    )
