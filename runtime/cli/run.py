"""``ascendfx run``: generate with a package."""

import json
from dataclasses import replace
from pathlib import Path

import click

from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.idle_choices import Choices, refuse_idle_choices, refuse_idle_with
from ascendfx.runtime.cli.idle_options import refuse_idle
from ascendfx.runtime.cli.option_words import wrong_options
from ascendfx.runtime.cli.output_file import prepare_beside
from ascendfx.runtime.cli.read_text import read_text
from ascendfx.runtime.cli.sampling_options import SPELLED, sampling_options
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.engine.draft_policy import ExpectedGain
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.package.load_package import load
from ascendfx.runtime.package.save_package import MANIFEST
from ascendfx.runtime.progress import Progress
from ascendfx.runtime.start_engine import start_engine


@click.command(short_help="Continue prompts with a package.")
@click.argument("package", type=UserPath())
@click.option("-p", "--prompt", "prompts", multiple=True, help="A prompt; may be repeated.")
@click.option(
    "--prompts-file",
    type=UserPath(exists=True, dir_okay=False),
    help="A file with one prompt per line; blank lines are skipped.",
)
@click.option(
    "-n",
    "--max-new-tokens",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Limit per prompt.",
)
@click.option(
    "--min-new-tokens",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="No token that ends a text is taken before so many.",
)
@click.option(
    "--stop-id",
    "stop_ids",
    type=click.IntRange(0, 2**31 - 1),
    multiple=True,
    metavar="ID",
    help="A token id that ends a text, too; may be repeated.",
)
@click.option(
    "--draft-tokens",
    type=click.IntRange(min=0),
    default=None,
    metavar="K",
    help="Draft tokens per step, at most those that the package was compiled with; default: all.",
)
@click.option("--ignore-eos", is_flag=True, help="Go on behind end tokens.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option(
    "--adaptive-drafts",
    is_flag=True,
    help="Each prompt has as many of the package's drafts as its own acceptance pays for.",
)
@click.option(
    "--metrics",
    metavar="FILE",
    type=UserPath(),
    help="Write how many drafts were accepted, for `ascendfx report --metrics`.",
)
@click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="Verification of files: compare the weights with their hash first; "
    "minutes for hundreds of gigabytes.",
)
@options.executor
@options.kernel_cache
@sampling_options
def run(
    package: Path,
    prompts: tuple[str, ...],
    prompts_file: Path | None,
    max_new_tokens: int,
    min_new_tokens: int,
    stop_ids: tuple[int, ...],
    draft_tokens: int | None,
    executor: str,
    kernel_cache: Path | None,
    sampling: Sampling,
    *,
    metrics: Path | None,
    verify: bool,
    ignore_eos: bool,
    adaptive_drafts: bool,
    as_json: bool,
) -> None:
    """Continue prompts with the package in folder PACKAGE.

    With --executor reference, PACKAGE is the Hugging Face directory of the model: its graph is
    interpreted on the checkpoint, which a package does not hold.
    """
    with wrong_options():
        Request(prompt=(), max_new_tokens=max_new_tokens, stop_ids=stop_ids)
    choices = Choices(
        sampling=sampling,
        draft_tokens=draft_tokens,
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        stops=bool(stop_ids),
        ignore_eos=ignore_eos,
    )
    refuse_idle_choices(choices)
    if executor == "reference":
        refuse_idle(("verify",), "with --executor reference", "run a package in the emulator")
    texts = _texts(prompts, prompts_file)
    with wrong_options(SPELLED):
        samplings = [replace(sampling, seed=sampling.seed + i) for i in range(len(texts))]
    if metrics:
        prepare_beside(metrics, package)
    with terminal_progress() as progress:
        if executor == "reference" and not (package / MANIFEST).is_file():
            engine = _interpreted(package, kernel_cache, progress)
        else:
            engine = load(
                package,
                executor=executor,
                verify=verify,
                kernel_cache=kernel_cache,
                progress=progress,
            )
        refuse_idle_with(engine, choices)
        if adaptive_drafts:
            engine.draft_policy = ExpectedGain()
        results = engine.generate(
            texts,
            max_new_tokens=max_new_tokens,
            min_new_tokens=min_new_tokens,
            stop_at_eos=not ignore_eos,
            stop_ids=stop_ids,
            sampling=samplings,
            draft_tokens=draft_tokens,
            progress=lambda done, total: progress("tokens", done, total),
        )
    if metrics:
        engine.save_metrics(metrics)
    for prompt, result in zip(texts, results, strict=True):
        if as_json:
            line = {
                "prompt": prompt,
                "text": result.text,
                "token_ids": list(result.token_ids),
                "finish_reason": result.finish_reason,
            }
            click.echo(json.dumps(line, ensure_ascii=False))
        else:
            click.echo(f"{prompt}{result.text}\n")


def _texts(prompts: tuple[str, ...], file: Path | None) -> list[str]:
    texts = list(prompts)
    if file:
        texts += [line for line in read_text(file).splitlines() if line.strip()]
        if not texts:
            raise click.UsageError(f"{file} holds no prompt: all its lines are blank")
    if not texts:
        raise click.UsageError("no prompt: pass -p TEXT or --prompts-file FILE")
    return texts


def _interpreted(model: Path, kernel_cache: Path | None, progress: Progress) -> Engine:
    compiled = compile_model(model, trace_folder=trace_folder_of(kernel_cache), progress=progress)
    return start_engine(compiled, "reference", progress=progress)
