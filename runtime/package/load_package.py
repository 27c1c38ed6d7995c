"""Read a package and start an engine on it; needs neither torch nor the checkpoint."""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Buffer, LaunchPlan, Place
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.safetensors_file import read_header
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.executor.emulated import EmulatedExecutor
from ascendfx.runtime.package.read_plans import read_plans
from ascendfx.runtime.package.save_package import FORMAT, MANIFEST, TOKENIZER, WEIGHTS
from ascendfx.runtime.progress import Progress, silent

_FIELDS = ("target", "vocabulary", "end_tokens", "block_tokens", "tokenizer")
_AGAIN = "compile the model again"


def load(
    directory: "str | PathLike[str]",
    *,
    kernel_cache: "str | PathLike[str] | None" = None,
    progress: Progress = silent,
) -> Engine:
    """Return an engine that runs the package in the emulator.

    Args:
        directory: What `Engine.save` or ``ascendfx compile`` wrote.
        kernel_cache: Folder of built kernels; None: the user's cache folder.
        progress: ``progress(what, done, total)`` during kernel builds.

    Raises:
        GraphError: The folder is no package, or a file of it is missing or damaged.
    """
    folder = Path(directory)
    manifest = _read_manifest(folder)
    target = find_target(manifest["target"])
    codec = TextCodec(folder / TOKENIZER) if manifest["tokenizer"] else None
    plans = read_plans(folder)
    weights = _map_weights(folder, plans)
    executor = EmulatedExecutor(
        plans,
        weights,
        target,
        cache_dir=Path(kernel_cache) if kernel_cache else None,
        progress=progress,
    )
    config = ServingConfig(
        manifest["vocabulary"], frozenset(manifest["end_tokens"]), manifest["block_tokens"]
    )
    return Engine(config, executor, codec)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise GraphError(
            code="not-a-package",
            reason=f"{folder} has no {MANIFEST}",
            hint="a package is what `ascendfx compile` or `engine.save` wrote",
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise _damaged(f"{path} cannot be read: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else manifest
        raise GraphError(
            code="package-version",
            reason=f"{path} has format {found}, this version reads {FORMAT}",
            hint=_AGAIN,
        )
    missing = [field for field in _FIELDS if field not in manifest]
    if missing:
        raise _damaged(f"{path} has no `{missing[0]}`")
    return manifest


def _damaged(reason: str) -> GraphError:
    return GraphError("package-damaged", reason, hint=_AGAIN)


def _map_weights(folder: Path, plans: Mapping[str, LaunchPlan]) -> dict[str, NDArray[Any]]:
    """Return every weight of the plans as a read-only view of the file."""
    path = folder / WEIGHTS
    if not path.is_file():
        raise _damaged(f"{folder}: `{WEIGHTS}` is missing")
    stored = read_header(path)
    wanted: dict[str, Buffer] = {
        buffer.name: buffer for plan in plans.values() for buffer in plan.of_place(Place.WEIGHT)
    }
    weights: dict[str, NDArray[Any]] = {}
    for name, buffer in wanted.items():
        if name not in stored:
            raise GraphError("missing-tensor", f"{path} has no tensor `{name}`", hint=_AGAIN)
        array = stored[name].load()
        if array.shape != buffer.shape or array.dtype != buffer.dtype.numpy:
            raise _damaged(
                f"tensor `{name}` of {path} is {array.dtype}{list(array.shape)}, "
                f"the plan wants {buffer.dtype.value}{list(buffer.shape)}"
            )
        weights[name] = array
    return weights
