"""From models and sets to a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.evaluate.blas_threads import one_blas_thread
from ascendfx.runtime.evaluate.harness import run_harness
from ascendfx.runtime.evaluate.language_model import LanguageModel
from ascendfx.runtime.evaluate.measure import Measuring, measure
from ascendfx.runtime.evaluate.read_samples import read_samples
from ascendfx.runtime.evaluate.reference_model import ReferenceModel
from ascendfx.runtime.evaluate.report import EvaluationReport, report_of
from ascendfx.runtime.evaluate.run_program import CodeLimits
from ascendfx.runtime.evaluate.sample import Reader
from ascendfx.runtime.evaluate.scorer import PartsOfModels, WholeModels
from ascendfx.runtime.evaluate.tasks import HARNESS, all_tasks, check_tasks
from ascendfx.runtime.evaluate.workers import Alone, Workers
from ascendfx.runtime.progress import Progress, silent

WAYS = ("data", "pipeline")
"""Each worker has samples of its own and whole models; or some layers, and all samples."""


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """What a user may choose.

    Attributes:
        tasks: Only these; empty: those that rows name or fit.
        limit: Rows of each set; None: all.
        window: Tokens of a window of `perplexity`; None: as many as the model reads.
        new_tokens: The longest answer.
        code: Runs tests of the task ``code``, with these limits; None: nothing is executed.
        way: One of `WAYS`.
    """

    tasks: tuple[str, ...] = ()
    limit: int | None = None
    window: int | None = None
    new_tokens: int = 48
    code: CodeLimits | None = None
    way: str = WAYS[0]


def evaluate(
    model: LanguageModel,
    files: Sequence[Path],
    *,
    truth: LanguageModel | None = None,
    options: EvaluationOptions | None = None,
    workers: Workers | None = None,
    progress: Progress = silent,
) -> EvaluationReport:
    """Return what a model makes of sets of samples, in one pass over them.

    Numbers are the same for any number of workers and both ways to share the work, bit by bit: a
    sample is computed by itself, by one thread of BLAS, and sums are rounded once.

    Args:
        model: What is evaluated.
        files: Sets of samples, ``.jsonl``.
        truth: The model that it was made of.
        options: What is evaluated, and how; None: the defaults.
        workers: Processes that all call this with the same arguments; None: this one alone.
        progress: Told about ``evaluate``.

    Raises:
        GraphError: A task is not known, a set or a row is wrong, the models do not fit each other,
            or a model fails; on all workers.
    """
    chosen, together = options or EvaluationOptions(), workers or Alone()
    check_tasks(chosen.tasks)
    models = (model, truth) if truth is not None else (model,)
    _check_models(models, chosen)
    tasks = all_tasks(chosen.code)
    named = tuple(name for name in chosen.tasks if not name.startswith(HARNESS))
    foreign = tuple(name.removeprefix(HARNESS) for name in chosen.tasks if name not in named)
    codec = _Codec(model)
    reader = Reader(codec.encode, model.card, _window(models, chosen), chosen.new_tokens)
    samples = ()
    if files or not foreign:
        samples = read_samples(files, tasks, reader, chosen=named, limit=chosen.limit)
    with one_blas_thread():
        parts = _parts(models) if chosen.way == "pipeline" and together.size > 1 else None
        scorer = PartsOfModels(parts, together) if parts else WholeModels(models)
        records = measure(
            samples,
            Measuring(tasks, scorer, codec.decode, chosen.new_tokens),
            together,
            together=bool(parts),
            progress=progress,
        )
        harness = run_harness(foreign, scorer, codec, chosen.limit) if foreign else None
    remarks = [each for m in models for each in getattr(m, "remarks", ())]
    about: dict[str, Any] = {"model": model.card.name, "window": reader.window}
    if truth is not None:
        about["float"] = truth.card.name
    return report_of(records, tasks, about, tuple(dict.fromkeys(remarks)), harness)


class _Codec:
    """Opens the tokenizer of a model when the first text is read; token ids need none."""

    def __init__(self, model: LanguageModel) -> None:
        self._card = model.card
        self._codec: TextCodec | None = None

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return self._opened().encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens."""
        return self._opened().decode(ids)

    def _opened(self) -> TextCodec:
        if self._codec is None:
            if self._card.tokenizer is None:
                raise GraphError(
                    "no-tokenizer",
                    f"{self._card.name} has no tokenizer.json, so that texts cannot be read",
                    hint="write rows with `input_ids` for the task perplexity",
                )
            self._codec = TextCodec(self._card.tokenizer)
        return self._codec


def _window(models: Sequence[LanguageModel], options: EvaluationOptions) -> int:
    most = min(model.card.max_tokens for model in models)
    window = most if options.window is None else options.window
    if not 2 <= window <= most:
        raise GraphError(
            "bad-limit",
            f"window={window}: windows have 2 to {most:,} tokens, as many as the models read",
            hint="leave it out",
        )
    return window


def _check_models(models: Sequence[LanguageModel], options: EvaluationOptions) -> None:
    if options.way not in WAYS:
        raise GraphError(
            "unknown-way",
            f"no way to share the work is called `{options.way}`",
            hint=f"known: {', '.join(WAYS)}",
        )
    sizes = [model.card.vocabulary for model in models]
    if len(set(sizes)) > 1:
        raise GraphError(
            "other-vocabulary",
            f"{models[0].card.name} has {sizes[0]:,} token ids, {models[1].card.name} {sizes[1]:,}",
            hint="compare a model with the one that it was made of",
        )
    files = [model.card.tokenizer for model in models if model.card.tokenizer]
    if len({file.read_bytes() for file in files}) > 1:
        raise GraphError(
            "other-vocabulary",
            f"{files[0]} and {files[1]} differ: the same tokens are other texts",
            hint="compare a model with the one that it was made of",
        )


def _parts(models: Sequence[LanguageModel]) -> tuple[ReferenceModel, ...]:
    for model in models:
        if not isinstance(model, ReferenceModel):
            raise GraphError(
                "unknown-way",
                f"{model.card.name} runs as a whole: it has no parts for several workers",
                hint='share the samples, way="data", or take executor="reference"',
            )
    return tuple(each for each in models if isinstance(each, ReferenceModel))
