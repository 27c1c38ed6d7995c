"""From a compiled model to an engine: choose the executor, load weights, build kernels."""

from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.arguments import check_text
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.executor.emulated import EmulatedExecutor
from ascendfx.runtime.executor.reference import ReferenceExecutor
from ascendfx.runtime.executor.step import StepExecutor
from ascendfx.runtime.materialise_weight import check_finite, materialise_weight
from ascendfx.runtime.progress import Progress, silent

EXECUTORS = ("emulator", "reference")


def start_engine(
    compiled: CompiledModel,
    executor: str = "emulator",
    *,
    kernel_cache: Path | None = None,
    progress: Progress = silent,
) -> Engine:
    """Return an engine that runs ``compiled``.

    Raises:
        GraphError: There is no such executor, a weight is not finite, or kernels cannot be built.
    """
    check_executor(executor)
    codec = TextCodec(compiled.tokenizer) if compiled.tokenizer else None
    runner = _executor(compiled, executor, kernel_cache, progress)
    return Engine(compiled.config, runner, codec, compiled=compiled)


def check_executor(name: str) -> None:
    """Check that there is an executor of a name, before the work that leads to one.

    Raises:
        GraphError: There is none, or the name is no text.
    """
    check_text("executor", name)
    if name not in EXECUTORS:
        raise GraphError(
            code="unknown-executor",
            reason=f"no executor is called `{name}`",
            hint=f"known: {', '.join(EXECUTORS)}",
        )


def _executor(
    compiled: CompiledModel, name: str, kernel_cache: Path | None, progress: Progress
) -> StepExecutor:
    if name == "reference":
        capacities = {each: plan.capacities for each, plan in compiled.plans.items()}
        keys = list(dict.fromkeys(key for spec in compiled.weights for key in spec.keys))
        for done, key in enumerate(keys):
            progress("weights", done, len(keys))
            check_finite(compiled.source, key)
        progress("weights", len(keys), len(keys))
        return ReferenceExecutor(compiled.steps, capacities, compiled.source)
    weights = {}
    for done, spec in enumerate(compiled.weights):
        progress("weights", done, len(compiled.weights))
        weights[spec.name] = materialise_weight(spec, compiled.source)
    progress("weights", len(compiled.weights), len(compiled.weights))
    return EmulatedExecutor(
        compiled.plans,
        weights,
        compiled.target,
        cache_dir=kernel_cache,
        progress=progress,
    )
