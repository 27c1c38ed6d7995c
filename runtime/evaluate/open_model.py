"""What a user names as a model: a directory, a quantized one, or a package."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.insertion.chosen_lines import QuantLine
from ascendfx.quant_passes.policy.recipe import draft_layers
from ascendfx.quant_passes.policy.shipped import recipe_named
from ascendfx.quant_passes.policy.site_lines import site_lines
from ascendfx.runtime.checkpoint.read_directory import read_config
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.evaluate.engine_model import EngineModel
from ascendfx.runtime.evaluate.language_model import LanguageModel, ModelCard
from ascendfx.runtime.evaluate.reference_model import ReferenceModel, reference_model
from ascendfx.runtime.executor.plans_of import plans_of
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.package.load_package import load
from ascendfx.runtime.package.save_package import MANIFEST, TOKENIZER
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.start_engine import check_executor, start_engine

_LONGEST = 1024
"""Tokens that an engine is made for, if the model itself reads more."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is run.

    Attributes:
        executor: ``reference``: its program in float64; ``emulator``: its kernels.
        quant: As of `ascendfx.compile`.
        dtype: As of `ascendfx.compile`.
        draft_tokens: Of an engine: its answers tell how many drafts were accepted.
        max_context: Tokens that an engine reads; None: those of the model, but at most 1,024.
        kernel_cache: Folder of built kernels and traced models; None: the user's cache folder.
    """

    executor: str = "reference"
    quant: str | Sequence[QuantLine] | None = None
    dtype: str | None = None
    draft_tokens: int = 0
    max_context: int | None = None
    kernel_cache: Path | None = None


def open_model(
    path: Path,
    options: ModelOptions | None = None,
    *,
    like: LanguageModel | None = None,
    progress: Progress = silent,
) -> LanguageModel:
    """Return a model that predicts texts.

    A package runs in the emulator, whatever the executor: it holds kernels and nothing else.

    Args:
        path: A directory in the Hugging Face layout, quantized or not, or a package.
        options: How it is run; None: the defaults.
        like: A model that was opened before; of the same directory, this one begins sooner.
        progress: Told what is done.

    Raises:
        GraphError: There is no model, it cannot be captured or compiled, or options do not fit it.
    """
    chosen = options or ModelOptions()
    check_executor(chosen.executor)
    if (path / MANIFEST).is_file():
        return _packaged(path, chosen, progress)
    traces = trace_folder_of(chosen.kernel_cache)
    if chosen.executor == "reference":
        return reference_model(
            path,
            quant=chosen.quant,
            dtype=chosen.dtype,
            trace_folder=traces,
            like=like.raised if isinstance(like, ReferenceModel) else None,
            progress=progress,
        )
    return _compiled(path, chosen, traces, progress)


def lines_of_recipe(name: str, directory: Path) -> tuple[QuantLine, ...]:
    """Return what a recipe makes of the weights of a directory, as `ascendfx.compile` takes it.

    Raises:
        GraphError: There is no such recipe, or no program makes its codes.
    """
    return site_lines(recipe_named(name), draft_layers(read_config(directory)))


def _packaged(path: Path, options: ModelOptions, progress: Progress) -> EngineModel:
    if options.quant is not None or options.dtype is not None:
        what = "dtype" if options.quant is None else "quant"
        raise GraphError(
            "needs-model",
            f"{path} is a package, whose numbers are fixed: {what} changes nothing",
            hint=f"leave {what} out, or give the directory of the checkpoint",
        )
    engine = load(path, kernel_cache=options.kernel_cache, progress=progress)
    tokenizer = path / TOKENIZER
    return _of_engine(path, engine, tokenizer if tokenizer.is_file() else None)


def _compiled(
    path: Path, options: ModelOptions, traces: Path | None, progress: Progress
) -> EngineModel:
    # One request at a time, but the kernels of other commands, which are built already.
    limits = Limits(max_context=options.max_context or _LONGEST, draft_tokens=options.draft_tokens)
    compiled = compile_model(
        path,
        dtype=options.dtype,
        limits=limits,
        quant=options.quant,
        trace_folder=traces,
        progress=progress,
    )
    engine = start_engine(compiled, kernel_cache=options.kernel_cache, progress=progress)
    return _of_engine(path, engine, compiled.tokenizer)


def _of_engine(path: Path, engine: Engine, tokenizer: Path | None) -> EngineModel:
    if "decode" not in plans_of(engine.executor):
        raise GraphError(
            "other-half",
            f"{path} only reads prompts: it has no decode plan",
            hint="give the other half, or a whole package",
        )
    capacities = engine.executor.capacities("decode")
    tokens = capacities.context - capacities.drafts
    card = ModelCard(
        str(path), engine.config.vocabulary, tokens, engine.config.end_tokens, tokenizer
    )
    return EngineModel(card, engine)
