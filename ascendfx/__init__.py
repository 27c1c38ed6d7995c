"""Compile DeepSeek models for Huawei Ascend 910B by proved graph transformations."""

from importlib import import_module
from typing import TYPE_CHECKING

from ascendfx.version import VERSION

if TYPE_CHECKING:
    from ascendfx.compiler import compile  # noqa: A004
    from ascendfx.find_bundled_model import bundled_model
    from ascendfx.ir.diagnostic import GraphError
    from ascendfx.ir.onnx.block_programs import block_programs
    from ascendfx.ir.onnx.export_program import to_onnx
    from ascendfx.runtime.engine.draft_policy import ExpectedGain
    from ascendfx.runtime.engine.engine import Engine
    from ascendfx.runtime.engine.metrics import AcceptanceWarning, Metrics
    from ascendfx.runtime.engine.request import Generation, Piece, Request, Update
    from ascendfx.runtime.engine.sampling import Sampling
    from ascendfx.runtime.engine.text_pieces import TextPieces
    from ascendfx.runtime.engine.transfer_record import TransferRecord
    from ascendfx.runtime.engine.updates import Updates
    from ascendfx.runtime.engine.verification import Relaxed, Typical
    from ascendfx.runtime.package.load_package import load

__all__ = [
    "AcceptanceWarning",
    "Engine",
    "ExpectedGain",
    "Generation",
    "GraphError",
    "Metrics",
    "Piece",
    "Relaxed",
    "Request",
    "Sampling",
    "TextPieces",
    "TransferRecord",
    "Typical",
    "Update",
    "Updates",
    "__version__",
    "block_programs",
    "bundled_model",
    "compile",
    "load",
    "to_onnx",
]
__version__ = VERSION

_HOME = {
    "AcceptanceWarning": "ascendfx.runtime.engine.metrics",
    "Engine": "ascendfx.runtime.engine.engine",
    "ExpectedGain": "ascendfx.runtime.engine.draft_policy",
    "Generation": "ascendfx.runtime.engine.request",
    "GraphError": "ascendfx.ir.diagnostic",
    "Metrics": "ascendfx.runtime.engine.metrics",
    "Piece": "ascendfx.runtime.engine.request",
    "Relaxed": "ascendfx.runtime.engine.verification",
    "Request": "ascendfx.runtime.engine.request",
    "Sampling": "ascendfx.runtime.engine.sampling",
    "TextPieces": "ascendfx.runtime.engine.text_pieces",
    "TransferRecord": "ascendfx.runtime.engine.transfer_record",
    "Typical": "ascendfx.runtime.engine.verification",
    "Update": "ascendfx.runtime.engine.request",
    "Updates": "ascendfx.runtime.engine.updates",
    "block_programs": "ascendfx.ir.onnx.block_programs",
    "bundled_model": "ascendfx.find_bundled_model",
    "compile": "ascendfx.compiler",
    "load": "ascendfx.runtime.package.load_package",
    "to_onnx": "ascendfx.ir.onnx.export_program",
}
"""Public names and where they live; imported when first used, so that this import costs nothing."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first used.

    Raises:
        AttributeError: There is no such name.
    """
    if name not in _HOME:
        raise AttributeError(f"module `ascendfx` has no attribute `{name}`")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
