"""What the code of a rule raised, as text: what is missing, where, and what there is instead."""

import traceback
from pathlib import Path

from ascendfx.passes.rule import Rule
from ascendfx.passes.rule_sides import letters_of


def shown_failure(rule: Rule, error: Exception) -> str:
    """Return what is wrong and the line where it was noticed."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    if not isinstance(error, KeyError):
        return f"{type(error).__name__}: {error}{where}"
    operands = ", ".join(f"`{name}`" for name in rule.operands)
    letters = ", ".join(f"`{name}`" for name in letters_of(rule)) or "none"
    key = error.args[0] if error.args else ""
    return (
        f"KeyError: it looks up `{key}`, which is not there{where}; "
        f"the operands are {operands}, the axis letters {letters}"
    )
