"""Layers that a configuration names and files do not have: known before a model is built."""

import re
from collections.abc import Iterable

from ascendfx.ir.diagnostic import GraphError

_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,9})\.")


def check_layers(keys: Iterable[str], layers: int, where: str) -> None:
    """Check that the files have the last layer; to build millions of layers takes hours.

    Args:
        keys: Of the tensors of the files; if none is of a numbered layer, nothing is checked.
        layers: How many the configuration names.
        where: What the configuration is called in a message.

    Raises:
        GraphError: They do not.
    """
    numbers = {int(found[1]) for key in keys if (found := _LAYER.search(key))}
    if numbers and layers and layers - 1 not in numbers:
        raise GraphError(
            "missing-tensor",
            f"the files have no tensor of layer {layers - 1}, the last of `num_hidden_layers` "
            f"{layers} of {where}; their last one is {max(numbers)}",
            hint="config.json and the weights belong to different models, or a file is missing",
        )
