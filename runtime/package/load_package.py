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
from ascendfx.runtime.arguments import check_flag, check_function, checked_folder, checked_path
from ascendfx.runtime.checkpoint.safetensors_file import read_header
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.executor.emulated import EmulatedExecutor
from ascendfx.runtime.package.hashes import check_file, read_hashes
from ascendfx.runtime.package.read_plans import read_plans, read_runners
from ascendfx.runtime.package.save_package import FORMAT, MANIFEST, TOKENIZER, WEIGHTS
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.start_engine import check_executor

_FIELDS = ("target", "vocabulary", "end_tokens", "block_tokens", "model", "tokenizer")
_AGAIN = "copy the package again, or compile the model again"


def load(
    directory: "str | PathLike[str]",
    *,
    executor: str = "emulator",
    verify: bool = True,
    kernel_cache: "str | PathLike[str] | None" = None,
    progress: Progress = silent,
) -> Engine:
    """Return an engine that runs the package in the emulator.

    Every file is compared with its hash before it is used. For weights of hundreds of gigabytes
    this takes minutes; ``verify=False`` leaves out the weights, and only them.

    Args:
        directory: What `Engine.save` or ``ascendfx compile`` wrote.
        executor: ``"emulator"``. A package holds kernels, but neither the program nor the
            checkpoint that ``"reference"`` interprets.
        verify: Verification of files (of passes: ``compile(verify=...)``; of drafts:
            ``Sampling(verification=...)``). True compares the weights with their hash, too.
        kernel_cache: Folder of built kernels; None: the user's cache folder.
        progress: ``progress(what, done, total)`` while files are checked and kernels are built.

    Raises:
        GraphError: The folder is no package, a file of it is missing or damaged, or an argument is
            wrong.
    """
    folder = checked_path("directory", directory)
    _check_executor(executor)
    check_flag("verify", verify)
    check_function("progress", progress)
    kernels = checked_folder("kernel_cache", kernel_cache)
    manifest = _read_manifest(folder)
    target = find_target(manifest["target"])
    plans = read_plans(folder)
    weights = _map_weights(folder, plans)
    tokenizer = (TOKENIZER,) if manifest["tokenizer"] else ()
    digests = read_hashes(folder)
    for path in (MANIFEST, *tokenizer, *((WEIGHTS,) if verify else ())):
        check_file(folder, path, digests, progress=progress)
    codec = TextCodec(folder / TOKENIZER) if tokenizer else None
    emulated = EmulatedExecutor(
        plans,
        weights,
        target,
        cache_dir=kernels,
        runners=read_runners(folder, plans),
        progress=progress,
    )
    config = ServingConfig(
        manifest["vocabulary"],
        frozenset(manifest["end_tokens"]),
        manifest["block_tokens"],
        manifest["model"],
    )
    return Engine(config, emulated, codec)


def _check_executor(executor: str) -> None:
    check_executor(executor)
    if executor == "reference":
        raise GraphError(
            code="needs-model",
            reason="the reference executor interprets the model's program on its checkpoint; a "
            "package holds neither",
            hint='ascendfx.compile(model, executor="reference"), or '
            "`ascendfx run MODEL --executor reference` with the directory of the checkpoint",
        )


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.exists():
        raise GraphError(
            code="not-a-package",
            reason=f"there is no folder {folder}",
            hint="a package is what `ascendfx compile` or `engine.save` wrote",
        )
    if not path.is_file() and (folder / "config.json").is_file():
        raise GraphError(
            code="not-a-package",
            reason=f"{folder} is the directory of a model, not a package",
            hint=f"compile it first: `ascendfx compile {folder} -o PKG`, or in Python "
            "`ascendfx.compile`; then run PKG",
        )
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
