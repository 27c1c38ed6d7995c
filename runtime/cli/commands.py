"""The group ``ascendfx`` of all subcommands."""

import click

from ascendfx.runtime.cli.bisect import bisect
from ascendfx.runtime.cli.compare import compare
from ascendfx.runtime.cli.compile_command import compile_command
from ascendfx.runtime.cli.demo import demo
from ascendfx.runtime.cli.eval_command import eval_command
from ascendfx.runtime.cli.golden import golden
from ascendfx.runtime.cli.opt import opt
from ascendfx.runtime.cli.prune import prune
from ascendfx.runtime.cli.quantize import quantize
from ascendfx.runtime.cli.reduce import reduce_command
from ascendfx.runtime.cli.replay import replay_command
from ascendfx.runtime.cli.report import report
from ascendfx.runtime.cli.run import run
from ascendfx.runtime.cli.sensitivity import sensitivity
from ascendfx.runtime.cli.tensors import tensors
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
    eval_command,
    golden,
    opt,
    prune,
    quantize,
    reduce_command,
    replay_command,
    report,
    run,
    sensitivity,
    tensors,
):
    cli.add_command(command)
