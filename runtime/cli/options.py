"""Options that several subcommands share."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import click

from ascendfx.codegen.ascendc.target import find_target, target_names
from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.step_names import PLANS
from ascendfx.passes.expose_hidden import CHAININGS
from ascendfx.quant_passes.insertion.chosen_lines import PRESETS
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.device_memory import LARGEST_INDEX
from ascendfx.runtime.limits import DEFAULT_LIMITS, DTYPES, MOST_DRAFTS
from ascendfx.runtime.presets import STRATEGIES
from ascendfx.runtime.start_verifier import LENGTH, LONGEST, MODES

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class _TargetName(click.ParamType[str]):
    """The name of a chip, in letters of any case."""

    name = "chip"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it is known."""
        text = str(value).lower()
        if text in target_names():
            return text
        near = get_close_matches(text, target_names(), n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        return self.fail(
            f"no chip is called `{value}`; {meant}Known: {', '.join(target_names())}", param, ctx
        )


class _Tree(click.ParamType[tuple[int, ...]]):
    """How many candidates a draft tree has at each depth."""

    name = "tree"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers; what they may be is checked with the other limits."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(each) for each in str(value).split(",") if value)
        except ValueError:
            return self.fail(f"`{value}` is no list of numbers such as 3,2,1", param, ctx)


class _Plans(click.ParamType[tuple[str, ...]]):
    """Kinds of steps, with commas between them."""

    name = "plans"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return their names, each once."""
        if isinstance(value, tuple):
            return value
        names = tuple(
            dict.fromkeys(name for part in str(value).split(",") if (name := part.strip()))
        )
        unknown = [each for each in names if each not in PLANS]
        if unknown or not names:
            what = f"no plan is called `{unknown[0]}`" if unknown else "no plan is asked for"
            return self.fail(f"{what}; known: {', '.join(PLANS)}", param, ctx)
        return names


def _aliases() -> str:
    """Return what the names stand for that are not those of a chip."""
    chips = {name: find_target(name).name for name in target_names()}
    return ", ".join(f"{name} stands for {chip}" for name, chip in chips.items() if name != chip)


_SIZE = click.IntRange(1, LARGEST_INDEX + 1)
_BLOCKS = click.IntRange(1, (LARGEST_INDEX + 1) // BLOCK_TOKENS)

target: Decorator = click.option(
    "-t",
    "--target",
    default="ascend910b",
    show_default=True,
    type=_TargetName(),
    metavar="NAME",
    help=f"Chip: {', '.join(target_names())}; {_aliases()}.",
)
dtype: Decorator = click.option(
    "--dtype",
    type=click.Choice(list(DTYPES)),
    default=None,
    help="Element format of weights and activations; default: the checkpoint's own.",
)
max_batch: Decorator = click.option(
    "--max-batch",
    type=_SIZE,
    default=DEFAULT_LIMITS.max_batch,
    show_default=True,
    help="Requests a decode step serves.",
)
max_context: Decorator = click.option(
    "--max-context",
    type=_SIZE,
    default=DEFAULT_LIMITS.max_context,
    show_default=True,
    help="Tokens of a request, prompt and answer.",
)
prefill_chunk: Decorator = click.option(
    "--prefill-chunk",
    type=_SIZE,
    default=DEFAULT_LIMITS.prefill_chunk,
    show_default=True,
    help="Prompt tokens a prefill step serves.",
)
cache_blocks: Decorator = click.option(
    "--cache-blocks",
    type=_BLOCKS,
    default=None,
    help="Cache blocks of 128 tokens; default: enough for a full batch.",
)
draft_tokens: Decorator = click.option(
    "--draft-tokens",
    type=click.IntRange(0, MOST_DRAFTS),
    default=DEFAULT_LIMITS.draft_tokens,
    show_default=True,
    metavar="K",
    help="Tokens that draft layers of the checkpoint propose per step; `run --verification` says "
    "which are accepted.",
)
draft_tree: Decorator = click.option(
    "--draft-tree",
    type=_Tree(),
    default="",
    metavar="B,B,..",
    help="Candidates that draft layers propose at each depth, such as 3,2,1, instead of "
    "--draft-tokens.",
)
group_steps: Decorator = click.option(
    "--group-steps",
    type=_SIZE,
    default=DEFAULT_LIMITS.group_steps,
    show_default=True,
    help="Decode steps whose tokens the device keeps until the host reads them.",
)
plans: Decorator = click.option(
    "--plans",
    type=_Plans(),
    default=",".join(PLANS),
    show_default=True,
    metavar="NAME,..",
    help="Kinds of steps that the package has; one alone for an engine that only reads prompts, "
    "or only goes on from there.",
)
draft_chaining: Decorator = click.option(
    "--draft-chaining",
    type=click.Choice(CHAININGS),
    default=CHAININGS[0],
    show_default=True,
    help="Which hidden state draft layers read.",
)
dump_dir: Decorator = click.option(
    "--dump-dir",
    type=UserPath(file_okay=False),
    default=None,
    help="Write the program after each pass, plans and kernels to this folder.",
)
strategy: Decorator = click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default="ordered",
    show_default=True,
    help="Apply rules in a fixed order, or search for the cheapest form on the target.",
)
quant: Decorator = click.option(
    "--quant",
    type=click.Choice(sorted(PRESETS)),
    default=None,
    help="Let projections multiply codes. w8a8: eight bits for weights and their inputs, without "
    "data. w4a8: routed experts in four bits. w8a8kv8, w4a8kv8: the latent cache in eight bits, "
    "too.",
)
verify: Decorator = click.option(
    "--verify",
    type=click.Choice(MODES),
    default=None,
    help="Verification of passes: compare the program after each with the captured one, in "
    "float64.",
)
verify_tokens: Decorator = click.option(
    "--verify-tokens",
    "verify_length",
    type=click.IntRange(min=1, max=LONGEST),
    default=None,
    metavar="N",
    help=f"Length of the random texts that passes are verified on; default: {LENGTH}, or that of "
    "the compilation. The time grows with its square.",
)
allow_code: Decorator = click.option(
    "--allow-code",
    is_flag=True,
    help="Import modules outside of ascendfx that the file names for its passes and rules: they "
    "may do anything.",
)
kernel_cache: Decorator = click.option(
    "--kernel-cache",
    type=UserPath(file_okay=False),
    default=None,
    help="Folder of built kernels and traced models; default: the user's cache folder.",
)
executor: Decorator = click.option(
    "--executor",
    type=click.Choice(["emulator", "reference"]),
    default="emulator",
    show_default=True,
    help="Run the emitted kernels on the CPU, or interpret the graph in float64.",
)
