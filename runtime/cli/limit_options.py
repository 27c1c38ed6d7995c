"""The sizes that plans are made for, as options of the command line."""

from collections.abc import Callable, Collection
from dataclasses import fields
from functools import wraps
from typing import Any

from ascendfx.ir.step_names import PLANS
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.idle_options import refuse_idle
from ascendfx.runtime.cli.option_words import wrong_options
from ascendfx.runtime.limits import Limits

_OPTIONS = (
    options.max_batch,
    options.max_context,
    options.prefill_chunk,
    options.cache_blocks,
    options.draft_tokens,
    options.draft_tree,
    options.group_steps,
)


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `Limits`, which it gets as ``limits``."""

    @wraps(command)
    def chosen(**given: Any) -> Any:
        named = {field.name: given.pop(field.name) for field in fields(Limits)}
        with wrong_options():
            limits = Limits(**named)
        return command(limits=limits, **given)

    found: Callable[..., Any] = chosen
    for option in reversed(_OPTIONS):
        found = option(found)
    return found


def refuse_idle_limits(limits: Limits, plans: Collection[str] = PLANS) -> None:
    """Refuse what was written about drafts or plans that there are not.

    Raises:
        click.UsageError: It would change nothing.
    """
    if not limits.draft_tokens:
        refuse_idle(("draft_chaining",), "without drafts", "pass --draft-tokens K")
    if "decode" not in plans:
        refuse_idle(("group_steps",), "without the plan decode", "add it to --plans")
    if "prefill" not in plans:
        refuse_idle(("prefill_chunk",), "without the plan prefill", "add it to --plans")
