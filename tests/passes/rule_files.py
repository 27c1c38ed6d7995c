"""Where each rule stands: found in the modules themselves."""

import importlib
import pkgutil
from collections.abc import Iterator

from ascendfx.passes import rules
from ascendfx.passes.rule import Rule


def rules_by_file() -> dict[str, list[Rule]]:
    """Return the rules that each file of passes/rules defines, by its stem."""
    found: dict[str, list[Rule]] = {}
    for info in pkgutil.iter_modules(rules.__path__):
        module = importlib.import_module(f"{rules.__name__}.{info.name}")
        named = {rule.name: rule for value in vars(module).values() for rule in _rules_in(value)}
        found[info.name] = list(named.values())
    return found


def _rules_in(value: object) -> Iterator[Rule]:
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, Rule):
            yield each
