"""Compile DeepSeek models for Huawei Ascend 910B by proved graph transformations."""

from importlib import import_module
from typing import TYPE_CHECKING

from ascendfx.version import VERSION

if TYPE_CHECKING:
    from ascendfx.compiler import compile  # noqa: A004
    from ascendfx.find_bundled_model import bundled_model
    from ascendfx.ir.diagnostic import GraphError
    from ascendfx.ir.onnx.export_program import to_onnx
    from ascendfx.runtime.engine.engine import Engine
    from ascendfx.runtime.engine.request import Generation
    from ascendfx.runtime.package.load_package import load

__all__ = [
    "Engine",
    "Generation",
    "GraphError",
    "__version__",
    "bundled_model",
    "compile",
    "load",
    "to_onnx",
]
__version__ = VERSION

_HOME = {
    "Engine": "ascendfx.runtime.engine.engine",
    "Generation": "ascendfx.runtime.engine.request",
    "GraphError": "ascendfx.ir.diagnostic",
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
