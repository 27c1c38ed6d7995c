"""What the code of a rule raised, as text: what is missing, where, and what there is instead."""

from ascendfx.passes.line_of_user import line_of_user
from ascendfx.passes.rule import Rule
from ascendfx.passes.rule_sides import letters_of


def shown_failure(rule: Rule, error: Exception) -> str:
    """Return what is wrong and the line of the user where it came up."""
    where = line_of_user(error)
    if not isinstance(error, KeyError):
        return f"{type(error).__name__}: {error}{where}"
    operands = ", ".join(f"`{name}`" for name in rule.operands)
    letters = ", ".join(f"`{name}`" for name in letters_of(rule)) or "none"
    key = error.args[0] if error.args else ""
    return (
        f"KeyError: it looks up `{key}`, which is not there{where}; "
        f"the operands are {operands}, the axis letters {letters}"
    )
