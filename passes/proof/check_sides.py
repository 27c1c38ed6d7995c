"""What is checked of one spelling of a rule by evaluating both sides."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array, as_float64
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.match import Miss, match_at
from ascendfx.passes.pattern import patterns_of
from ascendfx.passes.proof.format_bound import SCALE, format_bound
from ascendfx.passes.proof.irrational_constants import irrational_constants
from ascendfx.passes.proof.meeting_values import special_numbers, special_pairs
from ascendfx.passes.proof.prove_identity import prove_identity
from ascendfx.passes.proof.round_in_format import evaluate_rounded, round_to
from ascendfx.passes.proof.rounding_growth import allowed_growth, rounding_growth
from ascendfx.passes.proof.shown import (
    shown_difference,
    shown_formats,
    shown_operands,
    shown_rounded,
    shown_sizes,
    worst_place,
)
from ascendfx.passes.rounding_bound import rounding_bound
from ascendfx.passes.rule import Rule, Spelling
from ascendfx.passes.rule_sides import (
    FREE,
    forms_of,
    holes_of,
    operand_types,
    random_operands,
    random_sizes,
    side_of,
    side_or_none,
    unequal_sizes,
)
from ascendfx.passes.same_bits import same_bits

_LEADS = ((), (7,), (7, 8))


def check_types(rule: Rule, spelling: Spelling) -> str:
    """Compare the types of the sides for sizes that differ from each other."""
    for lead in _LEADS:
        try:
            holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, lead))
            lhs, rhs = (side_of(rule, each, holes) for each in (spelling.lhs, rule.rhs))
        except (GraphError, AttributeError) as error:
            reason = error.reason if isinstance(error, GraphError) else _missing_hole(error)
            return f"a side is not well typed: {reason}"
        if lhs.output_types != rhs.output_types:
            types = [", ".join(map(str, each.output_types)) for each in (lhs, rhs)]
            return f"the left side is {types[0]}, the right side {types[1]}"
    return ""


def _missing_hole(error: AttributeError) -> str:
    if type(error.obj).__name__ != "SimpleNamespace":
        raise error
    return f"it reads the hole `{error.name}`, which the left side does not capture"


def check_numbers(rule: Rule, spelling: Spelling, *, trials: int, seed: int) -> str:
    """Compare the sides on random sizes and values, whole numbers of few digits first."""
    random = np.random.default_rng(seed)
    for trial in range(trials):
        sizes = random_sizes(rule, random, largest=2 + trial * 4 // max(trials, 1))
        holes = holes_of(rule, spelling, sizes)
        lhs = side_or_none(rule, spelling.lhs, holes)
        rhs = side_or_none(rule, rule.rhs, holes) if lhs else None
        if lhs is None or rhs is None:
            continue
        tensors = random_operands(rule, holes, random, whole=2 * trial < trials)
        if found := unequal(lhs, rhs, tensors):
            shown = shown_sizes(sizes, forms_of(rule))
            return f"the sides differ for {shown}: with {shown_operands(tensors)} {found}"
    return ""


def unequal(
    lhs: Graph,
    rhs: Graph,
    tensors: Mapping[str, Array],
    sizes: Mapping[str, int] | None = None,
) -> str:
    """Return how two graphs differ by more than the rounding of float64, or nothing."""
    with np.errstate(all="ignore"):
        results = [interpret(each, tensors, sizes=sizes) for each in (lhs, rhs)]
        bounds = zip(*(rounding_bound(each, tensors, sizes) for each in (lhs, rhs)), strict=True)
        for a, c, (left, right) in zip(*results, bounds, strict=True):
            if a.shape != c.shape or _apart(a, c, left + right):
                return shown_difference(a, c)
    return ""


def _apart(a: Array, c: Array, bound: Array) -> bool:
    """Say whether results differ; what is finite on the left has to be so on the right."""
    left, right = as_float64(a), as_float64(c)
    known = np.isfinite(left) & np.isfinite(bound)
    differs = known & ~(np.abs(left - right) <= bound)
    undefined = np.isfinite(left) & ~np.isfinite(right)
    strange = ~np.isfinite(left) & (left != right) & ~(np.isnan(left) & np.isnan(right))
    return bool(np.any(differs | undefined | strange))


def check_identity(rule: Rule, spelling: Spelling) -> Iterator[str]:
    """Prove the identity for all values, by the kind of proof that the rule declares."""
    try:
        evidence = prove_identity(rule, spelling)
    except (TypeError, ValueError, AttributeError) as error:
        yield f"it cannot be proved: its sides do not accept symbols: {error}"
        return
    if evidence.difference:
        yield f"it cannot be proved: {evidence.difference}"
        holes = evidence.difference.holes
        sides = (side_of(rule, each, holes) for each in (spelling.lhs, rule.rhs))
        yield from irrational_constants(sides)
    elif evidence.gap:
        yield f"it cannot be proved: {evidence.gap}"
    if evidence.kind is not rule.proof:
        yield f"its proof is `{evidence.kind.value}`, not `{rule.proof.value}`"


def format_variants(rule: Rule, spelling: Spelling) -> Iterator[Mapping[str, DType]]:
    """Yield formats of the operands under which a rule fires: those it declares first.

    Others are bf16 for one of the formats that the operands name, or for the open one, as far as
    the sides are well typed and the preconditions accept the left side by itself.
    """
    yield {}
    names = {form.format for form in forms_of(rule).values() if isinstance(form.format, str)}
    open_format = any(form.format is None for form in forms_of(rule).values())
    for name in (*sorted(names), *([FREE] if open_format else [])):
        variant = {name: DType.BF16}
        if _fires_with(rule, spelling, variant):
            yield variant
    everything = dict.fromkeys((*names, FREE), DType.BF16)
    if len(names) + open_format > 1 and _fires_with(rule, spelling, everything):
        yield everything


def _fires_with(rule: Rule, spelling: Spelling, formats: Mapping[str, DType]) -> bool:
    holes = {**holes_of(rule, spelling, unequal_sizes(rule, spelling, (7,))), **formats}
    if any(isinstance(holes.get(n), DType) and not holes[n].is_float for n in formats):
        return False
    lhs = side_or_none(rule, spelling.lhs, holes)
    if lhs is None or side_or_none(rule, rule.rhs, holes) is None:
        return False
    pattern = patterns_of(rule)[rule.spellings.index(spelling)]
    return not isinstance(match_at(pattern, lhs, lhs.outputs[0]), Miss)


def check_fidelity(rule: Rule, spelling: Spelling, *, trials: int, seed: int) -> str:
    """Run both sides with the rounding of their formats: same bits, or within the bound."""
    random = np.random.default_rng(seed)
    for formats in format_variants(rule, spelling):
        for trial in range(trials):
            sizes = random_sizes(rule, random, largest=4)
            holes = {**holes_of(rule, spelling, sizes), **formats}
            lhs = side_or_none(rule, spelling.lhs, holes)
            rhs = side_or_none(rule, rule.rhs, holes) if lhs else None
            if lhs is None or rhs is None:
                continue
            tensors = _rounded_operands(
                rule, holes, random, special=trial // 2 if trial % 2 else None
            )
            bitwise = rule.fidelity is Fidelity.BITWISE
            if not bitwise and trial % 2 == 1:
                continue  # infinities have no error
            if found := rounded_differently(rule, lhs, rhs, tensors):
                return _shown_with(rule, holes, tensors, found)
        if found := _at_special_pairs(rule, spelling, formats, random):
            return found
    return ""


def _at_special_pairs(
    rule: Rule, spelling: Spelling, formats: Mapping[str, DType], random: np.random.Generator
) -> str:
    """Compare the bits where special numbers of several operands meet."""
    if rule.fidelity is not Fidelity.BITWISE:
        return ""
    holes = {**holes_of(rule, spelling, unequal_sizes(rule, spelling, ())), **formats}
    lhs, rhs = (side_or_none(rule, each, holes) for each in (spelling.lhs, rule.rhs))
    if lhs is None or rhs is None:
        return ""
    types = operand_types(rule, holes)
    kinds = {n: t.dtype for n, t in types.items() if t.dtype.is_float and n not in rule.values}
    plain = _rounded_operands(rule, holes, random, special=None)
    for tensors in special_pairs(plain, kinds, random):
        if found := _bits(lhs, rhs, tensors):
            return _shown_with(rule, holes, tensors, found)
    return ""


def _shown_with(
    rule: Rule, holes: Mapping[str, Any], tensors: Mapping[str, Array], found: str
) -> str:
    kinds = {name: t.dtype for name, t in operand_types(rule, holes).items()}
    return f"with {shown_operands(tensors)}{shown_formats(kinds)} {found}"


def rounded_differently(rule: Rule, lhs: Graph, rhs: Graph, tensors: Mapping[str, Array]) -> str:
    """Return where the rounding of the formats breaks the declared fidelity, or nothing."""
    if rule.fidelity is Fidelity.BITWISE:
        return _bits(lhs, rhs, tensors)
    return _error(rule, lhs, rhs, tensors)


def _rounded_operands(
    rule: Rule, holes: Mapping[str, Any], random: np.random.Generator, *, special: int | None
) -> dict[str, Array]:
    tensors = random_operands(rule, holes, random)
    for name, kind in operand_types(rule, holes).items():
        if kind.dtype.is_float:
            value = round_to(tensors[name], kind.dtype)
            if special is not None and name not in rule.values:
                numbers = special_numbers(kind.dtype)
                chosen = random.choice(numbers, value.shape)
                value = np.where(random.random(value.shape) < 0.6, chosen, value)
                value.flat[:1] = numbers[special % len(numbers)]  # each of them in turn
                special += 5
            tensors[name] = value
    return tensors


def _bits(lhs: Graph, rhs: Graph, tensors: Mapping[str, Array]) -> str:
    sides = [evaluate_rounded(each, tensors) for each in (lhs, rhs)]
    for i, (a, c) in enumerate(zip(*sides, strict=True)):
        same = same_bits(a, c)
        if not np.all(same):
            with np.errstate(all="ignore"):
                truth = interpret(lhs, tensors)[i]
            place = tuple(int(i) for i in np.argwhere(~same)[0])
            return f"the bits differ: {shown_rounded(truth, a, c, place)}"
    return ""


def _error(rule: Rule, lhs: Graph, rhs: Graph, tensors: Mapping[str, Array]) -> str:
    """Compare the rounded right side with the exact left side."""
    with np.errstate(all="ignore"):
        truth = interpret(lhs, tensors)
        ours, theirs = evaluate_rounded(rhs, tensors), evaluate_rounded(lhs, tensors)
        bounds = format_bound(lhs, tensors)
    whole = [i for i, each in enumerate(truth) if each.dtype.kind != "f"]
    if any(not np.array_equal(theirs[i], truth[i]) for i in whole):
        return ""  # rounding changed a decision of the left side: no statement about the right one
    allowed = 2 * allowed_growth(rule, rhs)  # twice: terms of second order in the unit
    for exact, before, rounded, (_, error) in zip(truth, theirs, ours, bounds, strict=True):
        if exact.dtype.kind != "f":
            if not np.array_equal(exact, rounded):
                return shown_difference(exact, rounded)
            continue
        with np.errstate(invalid="ignore"):
            limit = allowed * error / SCALE
            known = np.isfinite(exact) & (np.abs(before - exact) <= limit)  # else it underflows
            wrong = known & ~(np.abs(rounded - exact) <= limit)
        if np.any(wrong):
            place = worst_place(np.where(wrong, exact, rounded), rounded)
            shown = shown_rounded(exact, before, rounded, place)
            return f"{shown}: more than the bound of the rounding"
    return ""


def check_growth(rule: Rule, spelling: Spelling, *, seed: int) -> str:
    """Search values for which the right side rounds much worse than the left one."""
    if rule.growth is not None and not rule.growth.reason:
        return "its growth of rounding errors is declared without a reason"
    for formats in format_variants(rule, spelling):
        for lead in ((), (2,)):
            sizes = unequal_sizes(rule, spelling, lead)
            holes = {**holes_of(rule, spelling, sizes), **formats}
            lhs = side_or_none(rule, spelling.lhs, holes)
            rhs = side_or_none(rule, rule.rhs, holes) if lhs else None
            if lhs is None or rhs is None:
                continue
            with np.errstate(all="ignore"):
                found = rounding_growth(rule, (lhs, rhs), holes, seed)
            if found.exceeds:
                kinds = {name: t.dtype for name, t in operand_types(rule, holes).items()}
                return (
                    f"its rounding error explodes: with {shown_operands(found.operands)}"
                    f"{shown_formats(kinds)} the bound of the right side is "
                    f"{found.ratio:.3g} times that of the left side ({found.errors[1]:.3g} and "
                    f"{found.errors[0]:.3g} units), {found.allowed:.3g} are allowed"
                )
            if not any("*" in text for text in rule.operands.values()):
                break
    return ""


def check_values(rule: Rule) -> Iterator[str]:
    """Demand a reason for each range that is narrower than the default."""
    blocks = {condition.blocks for condition in rule.when}
    for name, by in rule.below_by.items():
        if name not in rule.below:
            yield f"it says what keeps `{name}` below, and not below what"
        elif by not in blocks:
            yield f"no precondition `{by}` keeps `{name}` below `{rule.below[name]}`"
    yield from _rotations(rule, blocks)
    for name, values in rule.values.items():
        if name not in rule.operands:
            yield f"it declares values of `{name}`, which is no operand"
        elif values.ensured_by and values.ensured_by not in blocks:
            yield f"no precondition `{values.ensured_by}` ensures the values of `{name}`"
        elif values.low >= 0 and not values.ensured_by:
            yield f"`{name}` may be negative: no precondition is said to exclude it"
        elif not values.ensured_by and not values.because:
            yield f"the values of `{name}` are narrowed without a reason"


def _rotations(rule: Rule, blocks: Collection[str]) -> Iterator[str]:
    """Demand a precondition for each operand that is said to be a rotation."""
    forms = forms_of(rule)
    for name, by in rule.orthogonal.items():
        axes = forms[name].axes if name in forms else ()
        if not axes or axes != axes[:1] * 2:
            yield f"it says that `{name}` is a rotation, which is no square operand"
        elif by not in blocks:
            yield f"no precondition `{by}` makes sure that `{name}` is a rotation"
