"""``ascendfx tensors``: every value of a run, in one file."""

from pathlib import Path

import click

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.cli import options, weights_options
from ascendfx.runtime.cli.counted import counted
from ascendfx.runtime.cli.output_file import prepare_output
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.cli.weights_options import weights_and_tokens
from ascendfx.runtime.dumps.bisect_dump import captured_program
from ascendfx.runtime.dumps.read_dump import Dump, DumpedStage, read_dump
from ascendfx.runtime.dumps.tensor_dump import dump_tensors, write_tensors_file


@click.command(short_help="Write every value of a program of a dump to a file.")
@click.argument("dump", type=UserPath())
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The safetensors file.",
)
@click.option("--stage", default=None, help="serving, decode or prefill; default: the last one.")
@click.option(
    "--after",
    type=int,
    default=None,
    metavar="N",
    help="The program after so many passes of the stage; 0: its input; default: its last.",
)
@weights_options.checkpoint
@weights_options.random_seed
@weights_options.tokens_seed
@options.verify_tokens
def tensors(
    dump: Path,
    output: Path,
    stage: str | None,
    after: int | None,
    checkpoint: Path | None,
    random_seed: int | None,
    tokens_seed: int,
    verify_length: int | None,
) -> None:
    """Run a program of the dump directory DUMP in float64 and write the value of every operation.

    Each value has its operation, the module path and the line of the model, and how much rounding
    may have moved it. `ascendfx compare` compares two such files.
    """
    prepare_output(output, dump)
    read = read_dump(dump)
    if (stage is None or after is None) and (unfinished := read.unfinished):
        unfinished.hint += _what_there_is(read, stage)
        raise unfinished
    chosen = _stage(read, stage)
    most = len(chosen.on_tokens)
    number = most if after is None else after
    if not 0 <= number <= most:
        raise click.BadParameter(
            f"stage {chosen.name} has {counted(most, 'pass')} whose programs run on tokens: "
            f"{after} is none of {_numbers(most)}",
            param_hint="'--after'",
        )
    program = chosen.program(number)
    captured = captured_program(read)
    seeds = random_seed, tokens_seed
    weights, tokens = weights_and_tokens(read, (captured,), checkpoint, seeds, verify_length)
    name = f"{dump.resolve().name}/{chosen.name} after {counted(number, 'pass')}"
    made = dump_tensors(program, weights, tokens[:1], name)
    write_tensors_file(output, made)
    click.echo(
        f"{output}: {counted(len(made.entries), 'value')} of {counted(tokens.shape[1], 'token')}"
    )


def _what_there_is(dump: Dump, stage: str | None) -> str:
    """Return what may be named of a dump that is not whole, as the end of a hint."""
    there = {s.name: s for s in dump.stages if s.at.layer is None}
    if not there:
        return ""
    chosen = there.get(stage or "") or list(there.values())[-1]
    most = len(chosen.on_tokens)
    return (
        f"; or name both stage and program, for example --stage {chosen.name} --after {most} "
        f"(there are {_numbers(most)})"
    )


def _numbers(most: int) -> str:
    return f"0 to {most}" if most else "0"


def _stage(dump: Dump, name: str | None) -> DumpedStage:
    stages = {s.name: s for s in dump.stages if s.at.layer is None}
    if not stages:
        raise GraphError("damaged-dump", f"{dump.directory} has no stage", hint="compile again")
    if name is not None and name not in stages:
        raise click.BadParameter(
            f"the dump has no stage `{name}`; it has {', '.join(stages)}", param_hint="'--stage'"
        )
    return stages[name] if name else list(stages.values())[-1]
