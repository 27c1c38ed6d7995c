"""Options of the subcommands that run the programs of a dump."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.runtime.checked_limit import checked_limit
from ascendfx.runtime.cli.idle_options import refuse_idle
from ascendfx.runtime.cli.options import Decorator
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.dumps.dump_weights import weights_for
from ascendfx.runtime.dumps.read_dump import Dump
from ascendfx.runtime.start_verifier import LENGTH, LONGEST, token_ids


def _one_source(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse two sources of weights; the option that is read last sees the other one."""
    others = {"checkpoint", "random_seed"} - {parameter.name}
    if value is not None and any(context.params.get(each) is not None for each in others):
        raise click.UsageError("pass --checkpoint or --random, not both")
    return value


checkpoint: Decorator = click.option(
    "--checkpoint",
    type=UserPath(file_okay=False),
    default=None,
    callback=_one_source,
    help="Take the weights from this model directory; default: the one that the dump names.",
)
random_seed: Decorator = click.option(
    "--random",
    "random_seed",
    type=click.IntRange(min=0),
    default=None,
    metavar="SEED",
    callback=_one_source,
    help="Take random weights.",
)
tokens_seed: Decorator = click.option(
    "--tokens-seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the random tokens that the programs run on.",
)


def weights_and_tokens(
    dump: Dump,
    programs: Sequence[Program],
    checkpoint: Path | None,
    seeds: tuple[int | None, int],
    length: int | None,
) -> tuple[Mapping[str, Array], Array]:
    """Return the weights and the ids ``[texts, tokens]``.

    Args:
        dump: Names the checkpoint, and what its compilation was verified on.
        programs: The captured ones that are run, the main model first.
        checkpoint: A directory to use instead.
        seeds: Of random weights, if they are wanted, and of random tokens.
        length: Of random texts; None: the texts, or the length, of the verification.
    """
    seed, token_seed = seeds
    verified = dump.header.verify or {}
    weights = weights_for(dump, programs, checkpoint=checkpoint, seed=seed)
    given = verified.get("tokens") if length is None else None
    if given is not None:
        refuse_idle(
            ("tokens_seed",),
            f"where the dump {dump.directory.name} holds the texts",
            "pass --verify-tokens N for random ones",
        )
    if length is None:
        length = checked_limit(
            "the length of texts in the dump", verified.get("length", LENGTH), least=1, most=LONGEST
        )
    vocabulary = programs[0].main.output_types[0].shape[-1]
    known = vocabulary if isinstance(vocabulary, int) else 0
    return weights, token_ids(given, known, token_seed, length)
