"""The command ``ascendfx``: collects the subcommands and turns errors into exit codes."""

import sys

import click

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.cli.bisect import bisect
from ascendfx.runtime.cli.compare import compare
from ascendfx.runtime.cli.compile_command import compile_command
from ascendfx.runtime.cli.demo import demo
from ascendfx.runtime.cli.golden import golden
from ascendfx.runtime.cli.opt import opt
from ascendfx.runtime.cli.option_words import error_in_options
from ascendfx.runtime.cli.reduce import reduce_command
from ascendfx.runtime.cli.replay import replay_command
from ascendfx.runtime.cli.report import report
from ascendfx.runtime.cli.run import run
from ascendfx.runtime.cli.tensors import tensors
from ascendfx.runtime.emulator.error import EmulatorError
from ascendfx.version import VERSION


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="ascendfx")
def cli() -> None:
    """Compile DeepSeek models for Huawei Ascend 910B and run them.

    Results go to standard output, everything else to standard error. Exit code 1 means that the
    input was at fault and the message says what to do, 2 that the command line was wrong, 3 that
    the emulator found a fault in a kernel.
    """


for command in (
    bisect,
    compare,
    compile_command,
    demo,
    golden,
    opt,
    reduce_command,
    replay_command,
    report,
    run,
    tensors,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line; the only place that turns errors into exit codes.

    A fault that the emulator finds in a kernel is a bug of ours or of the kernel's author; it is
    shown with kernel, core and line, and exits with 3.
    """
    try:
        cli()
    except GraphError as error:
        click.echo(str(error_in_options(error, cli)), err=True)
        sys.exit(1)
    except EmulatorError as error:
        click.echo(f"fault in an emulated kernel: {error}", err=True)
        sys.exit(3)
