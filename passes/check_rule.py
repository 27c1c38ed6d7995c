"""Prove a rule before it may run: the checks of our own rules, for those that users write."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import sympy

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array, as_float64
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.match import Miss, match_at, patterns_of
from ascendfx.passes.rounding_bound import rounding_bound
from ascendfx.passes.rule import Proof, Rule, Spelling
from ascendfx.passes.rule_sides import (
    holes_of,
    letters_of,
    operand_types,
    random_operands,
    random_sizes,
    side_of,
    side_or_none,
    unequal_sizes,
)

_SYMBOLS = 20
_LEADS = ((), (7,), (7, 8))


def check_rule(
    rule: Rule,
    *,
    examples: Mapping[str, Program] | None = None,
    trials: int = 20,
    seed: int = 0,
) -> None:
    """Return if every check holds; see `problems_of_rule` for what is checked.

    Args:
        rule: The rule.
        examples: A program in which the rule applies under ``""``, and for each precondition, by
            its ``blocks`` name, one in which that precondition alone forbids it.
        trials: Random sizes and tensors for each spelling.
        seed: Of the random numbers.

    Raises:
        GraphError: A check fails; all failures are in its notes.
    """
    problems = tuple(problems_of_rule(rule, examples or {}, trials=trials, seed=seed))
    if problems:
        raise GraphError(
            code="rule-not-proved",
            reason=f"{rule.name}: {problems[0]}",
            notes=problems[1:],
            hint="a rule that is not proved would change results without a message",
        )


def problems_of_rule(
    rule: Rule, examples: Mapping[str, Program], *, trials: int, seed: int
) -> Iterator[str]:
    """Yield what is wrong: types, numbers, symbols, the match, and the examples."""
    for i, spelling in enumerate(rule.spellings):
        where = f"spelling {i}: " if len(rule.spellings) > 1 else ""
        if problem := _types(rule, spelling):
            yield where + problem
            continue
        checks = (
            _numbers(rule, spelling, trials, seed),
            _symbols(rule, spelling) if rule.proof is not Proof.CASES else "",
            _fires(rule, spelling),
        )
        yield from (where + problem for problem in checks if problem)
    if "" not in examples:
        yield "there is no example in which it applies"
    elif ApplyRules((rule,)).run(examples[""]).program is examples[""]:
        yield "it does not apply in its example"
    for condition in rule.when:
        yield from _necessity(rule, condition.blocks, examples.get(condition.blocks))


def _types(rule: Rule, spelling: Spelling) -> str:
    for lead in _LEADS:
        try:
            holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, lead))
            lhs, rhs = (side_of(rule, each, holes) for each in (spelling.lhs, rule.rhs))
        except GraphError as error:
            return f"a side is not well typed: {error.reason}"
        if lhs.output_types != rhs.output_types:
            types = [", ".join(map(str, each.output_types)) for each in (lhs, rhs)]
            return f"the left side is {types[0]}, the right side {types[1]}"
    return ""


def _numbers(rule: Rule, spelling: Spelling, trials: int, seed: int) -> str:
    random = np.random.default_rng(seed)
    for _ in range(trials):
        sizes = random_sizes(rule, random)
        holes = holes_of(rule, spelling, sizes)
        lhs = side_or_none(rule, spelling.lhs, holes)
        rhs = side_or_none(rule, rule.rhs, holes)
        if lhs is None or rhs is None:
            continue
        tensors = random_operands(rule, holes, random)
        results = interpret(lhs, tensors), interpret(rhs, tensors)
        for a, c, bound in zip(*results, rounding_bound(lhs, tensors), strict=True):
            if a.shape != c.shape or _apart(a, c, 2 * bound):
                shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
                return f"the sides differ for {shown}: {_first(a, c)}"
    return ""


def _apart(a: Array, c: Array, bound: Array) -> bool:
    left, right = as_float64(a), as_float64(c)
    finite = np.isfinite(left)
    differs = np.where(finite, ~(np.abs(left - right) <= bound), left != right)
    return bool(np.any(differs & ~(np.isnan(left) & np.isnan(right))))


def _first(a: Array, c: Array) -> str:
    if a.shape != c.shape:
        return f"shapes {a.shape} and {c.shape}"
    place = np.unravel_index(np.argmax(np.abs(as_float64(a) - as_float64(c))), a.shape)
    return f"{a[place]} and {c[place]}"


def _symbols(rule: Rule, spelling: Spelling) -> str:
    difference = symbolic_difference(rule, spelling)
    return f"as expressions, the sides differ by {difference[0]}" if difference else ""


def symbolic_difference(rule: Rule, spelling: Spelling) -> list[Any]:
    """Return what of ``lhs - rhs`` survives simplification; float operands are free symbols."""
    holes = holes_of(rule, spelling, _small_sizes(rule, spelling))
    operands: dict[str, Array] = {
        name: cast("Any", sympy).symarray(name, kind.shape, positive=True).astype(object)
        if kind.dtype.is_float
        else _counted([bind_size(d, {}) for d in kind.shape]) % holes[rule.below[name]]
        for name, kind in operand_types(rule, holes).items()
    }
    sides = (interpret(side_of(rule, each, holes), operands) for each in (spelling.lhs, rule.rhs))
    return [
        element
        for lhs, rhs in zip(*sides, strict=True)
        for element in np.ravel(lhs - rhs)
        if not _is_zero(element)
    ]


def _counted(shape: list[int]) -> Array:
    return np.arange(int(np.prod(shape))).reshape(shape)


def _small_sizes(rule: Rule, spelling: Spelling) -> dict[str, Any]:
    """Return sizes of two, of which the first shrink to one until there are few symbols."""
    sizes: dict[str, Any] = {**dict.fromkeys(letters_of(rule), 2), "lead": ()}
    for letter in letters_of(rule):
        types = operand_types(rule, holes_of(rule, spelling, sizes)).values()
        if sum(int(np.prod([bind_size(d, {}) for d in t.shape])) for t in types) <= _SYMBOLS:
            break
        sizes[letter] = rule.minimum.get(letter, 1)
    return sizes


def _is_zero(difference: Any) -> bool:
    exact = cast("Any", sympy).nsimplify(difference, rational=True)
    return bool(sympy.expand(exact) == 0 or cast("Any", sympy).simplify(exact) == 0)


def _fires(rule: Rule, spelling: Spelling) -> str:
    """Match the left side with itself, preconditions and surroundings aside."""
    alone = replace(rule, spellings=(spelling,), when=(), derive=lambda _: {})
    holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, (7,)))
    lhs = side_of(rule, spelling.lhs, holes)
    result = match_at(patterns_of(alone)[0], lhs, lhs.outputs[0])
    return (
        f"it does not match its own left side: {result.reason}" if isinstance(result, Miss) else ""
    )


def _necessity(rule: Rule, blocks: str, example: Program | None) -> Iterator[str]:
    if example is None:
        yield f"there is no example for the precondition `{blocks}`"
        return
    if ApplyRules((rule,)).run(example).program is not example:
        yield f"it applies in the example of `{blocks}`"
    others = replace(rule, when=tuple(each for each in rule.when if each.blocks != blocks))
    try:
        free = ApplyRules((others,)).run(example).program is not example
    except (GraphError, AttributeError):
        free = True  # the rewrite would not even be well typed
    if not free:
        yield f"the precondition `{blocks}` is not what forbids it in its example"
