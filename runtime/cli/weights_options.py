"""Options of the subcommands that run the programs of a dump."""

from collections.abc import Mapping
from pathlib import Path

import click

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.runtime.cli.options import Decorator
from ascendfx.runtime.dumps.dump_weights import weights_for
from ascendfx.runtime.dumps.read_dump import Dump
from ascendfx.runtime.start_verifier import token_ids

checkpoint: Decorator = click.option(
    "--checkpoint",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Take the weights from this model directory; default: the one that the dump names.",
)
random_seed: Decorator = click.option(
    "--random",
    "random_seed",
    type=int,
    default=None,
    metavar="SEED",
    help="Take random weights.",
)
token_seed: Decorator = click.option(
    "--tokens-seed",
    default=0,
    show_default=True,
    help="Of the random tokens that the programs run on.",
)


def weights_and_tokens(
    dump: Dump, program: Program, checkpoint: Path | None, seed: int | None, tokens: int
) -> tuple[Mapping[str, Array], Array]:
    """Return the weights and the ids ``[texts, tokens]``: those of the verification, if any."""
    weights = weights_for(dump, program, checkpoint=checkpoint, seed=seed)
    given = (dump.header.verify or {}).get("tokens")
    vocabulary = program.main.output_types[0].shape[-1]
    return weights, token_ids(given, vocabulary if isinstance(vocabulary, int) else 0, tokens)
