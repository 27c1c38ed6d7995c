"""Put a model into the form that can be exported, and back into the form it had."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn


@contextmanager
def exportable(model: nn.Module) -> Generator[None]:
    """Choose evaluation mode, grouped experts and plain attention while the block runs.

    Experts written as a loop over those that the sample happens to hit cannot be exported; the
    grouped form computes the same. Both choices are made through the public hooks of transformers
    where a model has them; other models are left as they are.
    """
    with ExitStack() as undo:
        for module in model.modules():
            undo.callback(setattr, module, "training", module.training)
        model.eval()
        for name, wanted in (("experts", "grouped_mm"), ("attn", "eager")):
            _choose(model, name, wanted, undo)
        yield


def _choose(model: nn.Module, name: str, wanted: str, undo: ExitStack) -> None:
    setter: Callable[[str], Any] | None = getattr(model, f"set_{name}_implementation", None)
    config = getattr(model, "config", None)
    before = getattr(config, f"_{name}_implementation", None)
    if setter is None or before == wanted:
        return
    try:
        setter(wanted)
    except ValueError:
        # The model has no such choice: transformers has no other way of asking.
        return
    if before is not None:
        undo.callback(setter, before)
