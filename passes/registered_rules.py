"""Rules that users wrote: checked before they are known, then usable by name of the object.

The list is the only state of this folder. It changes by `register` alone, which a user calls; no
import changes it, and no pass of ours reads it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.passes.check_rule import check_rule
from ascendfx.passes.proof.check_fields import check_fields
from ascendfx.passes.registry import PROGRAM_PASSES
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RULES

_REGISTERED: dict[str, Rule] = {}


def register(rule: Rule, *, examples: Mapping[str, Program], seed: int = 0) -> Rule:
    """Check a rule and make it known, so that ``ascendfx.compile(..., rules=(rule,))`` takes it.

    Args:
        rule: The rule.
        examples: As for `check_rule`: where it applies, and what each precondition blocks.
        seed: Of the random numbers of the check.

    Returns:
        The rule itself.

    Raises:
        GraphError: `rule-not-proved` with a counterexample; `rule-name-taken` if another rule,
            registered or of the library, or a pass has the name.
    """
    if not isinstance(rule, Rule) or any(check_fields(rule)):  # pyright: ignore[reportUnnecessaryIsInstance]
        check_rule(rule, examples=examples, seed=seed)  # says what is wanted
    _require_own_name(rule)
    check_rule(rule, examples=examples, seed=seed)
    _REGISTERED[rule.name] = rule
    return rule


def _require_own_name(rule: Rule) -> None:
    """Refuse the name of another rule or of a pass: dumps and `ascendfx opt` know both by name."""
    known = _REGISTERED.get(rule.name)
    library = next((each for each in RULES if each.name == rule.name), None)
    if known is not None and known is not rule:
        reason = f"another rule named `{rule.name}` is registered"
    elif library is not None and library is not rule:
        reason = f"a rule of the library is named `{rule.name}`"
    elif any(each.name == rule.name for each in PROGRAM_PASSES):
        reason = f"a pass is named `{rule.name}`"
    else:
        return
    raise GraphError("rule-name-taken", reason, hint="give the rule a name of its own")


def registered() -> tuple[Rule, ...]:
    """Return the registered rules, in the order of their registration."""
    return tuple(_REGISTERED.values())


def require_registered(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return ``rules`` as a tuple if each of them passed its check.

    Raises:
        GraphError: ``rules`` are no sequence of rules, or one was not registered.
    """
    given: Any = rules
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
        raise _no_rules(given)
    wanted = tuple(rules)
    for rule in wanted:
        if not isinstance(rule, Rule) or not isinstance(rule.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _no_rules(rule)
        if _REGISTERED.get(rule.name) is not rule:
            raise GraphError(
                "rule-not-registered",
                f"rule `{rule.name}` was not checked",
                hint="call ascendfx.rules.register(rule, examples=...) first",
            )
    return wanted


def _no_rules(found: Any) -> GraphError:
    what = f"the class {found.__name__}" if isinstance(found, type) else f"{found!r:.80}"
    return GraphError(
        "bad-argument",
        f"`rules` is no sequence of Rules: it has {type(found).__name__} {what}"
        if not isinstance(found, Rule)
        else f"`rules` is the rule `{found.name}`, not a sequence of Rules",
        hint="pass a tuple: rules=(rule,), of what ascendfx.rules.register returned",
    )
