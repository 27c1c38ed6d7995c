"""From a pass that broke a program to the smallest case of its mistake."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.location import Location
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import Fidelity, ProgramPass
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.reduction.case import Case, Judge, Observed, observe
from ascendfx.passes.reduction.cut_pair import cut_pairs
from ascendfx.passes.reduction.cut_program import Point, Recording
from ascendfx.passes.reduction.shrink_nodes import shrink_nodes
from ascendfx.passes.reduction.shrink_sizes import shrink_sizes
from ascendfx.passes.reduction.shrink_values import shrink_values
from ascendfx.passes.rule import Rule
from ascendfx.passes.run_on_tokens import Form, form_of
from ascendfx.passes.verification.compare_step import Difference
from ascendfx.passes.verification.first_difference import unchanged_nodes
from ascendfx.passes.verification.follow_truth import Step, find_truth, follow_truth
from ascendfx.passes.verification.run_with_noise import Noisy

Tried = Callable[[str, int], None]
"""Told what is being reduced and how many candidates were tried."""

_TOKENS = 6
"""Length of the text on which passes are run that change what the entry takes."""


@dataclass(frozen=True)
class Broken:
    """What went wrong.

    Attributes:
        before: The program that the pass was given.
        after: The program that it made.
        fidelity: What the pass promises.
        found: The first tensor that differs; None if the program after cannot be run.
        captured: The program that is true.
        tensors: The checkpoint by key.
        tokens: Ids ``[texts, tokens]``.
        near: Lines of the model near the mistake.
    """

    before: Program
    after: Program
    fidelity: Fidelity
    found: Difference | None
    captured: Program
    tensors: Mapping[str, Array]
    tokens: Array
    near: frozenset[Location] = frozenset()


@dataclass(frozen=True)
class Reduced:
    """The smallest case.

    Attributes:
        case: Before the pass.
        after: After it.
        observed: The difference.
        rewrite: The pass that made ``after`` of the case, with no more rules than it needs; None
            if both programs were cut out.
    """

    case: Case
    after: Program
    observed: Observed
    rewrite: ProgramPass | None


def reduce_pass(
    broken: Broken, rewrite: ProgramPass | None, tried: Tried = lambda _, __: None
) -> Reduced | None:
    """Return the smallest case that was found, or None if the difference needs the whole program.

    Args:
        broken: What went wrong.
        rewrite: The pass, run again on every candidate; None if it cannot be imported.
        tried: Told about progress.
    """
    if rewrite is not None and (reduced := _by_pass(broken, rewrite, tried)) is not None:
        return reduced
    return _by_cutting(broken, tried)


def _by_pass(broken: Broken, rewrite: ProgramPass, tried: Tried) -> Reduced | None:
    for what, recorded, touched in _recordings(broken):
        rewrite = _with_fewer_rules(rewrite, recorded, broken.fidelity)
        judge = _judge(rewrite, broken.fidelity)
        likely = [each for each in touched if recorded.node(each).location in broken.near]
        case = shrink_nodes(recorded, judge, likely, lambda n, w=what: tried(w, n))
        if case is None:
            continue
        case = shrink_numbers(case, judge, tried)
        after = judge.after(case)
        observed = observe(case, after, broken.fidelity)
        if observed is not None:
            return Reduced(case, after, observed, rewrite)
    return None


def _judge(rewrite: ProgramPass, fidelity: Fidelity) -> Judge:
    return Judge(lambda program: rewrite.run(program).program, fidelity)


def _with_fewer_rules(rewrite: ProgramPass, recorded: Recording, fidelity: Fidelity) -> ProgramPass:
    """Return the pass with the rules alone that the mistake in a whole function needs."""
    rules: tuple[Rule, ...] = getattr(rewrite, "rules", ())
    if len(rules) < 2 or recorded.call is not None:
        return rewrite
    case = Case(recorded.program, recorded.tensors, recorded.sizes)
    if _judge(ApplyRules(rules), fidelity).observe(case) is None:
        return rewrite
    for rule in rules:
        fewer = tuple(each for each in rules if each is not rule)
        if fewer and _judge(ApplyRules(fewer), fidelity).observe(case) is not None:
            rules = fewer
    return ApplyRules(rules)


def _recordings(broken: Broken) -> Iterator[tuple[str, Recording, list[Point]]]:
    """Yield the program in parts that a pass may need: a function, then the entry with it."""
    step = _step(broken, broken.before, broken.tokens)
    calls = _suspects(broken, step)
    for call in calls:
        yield "nodes", *_local(broken, step, call)
    for call in calls:
        if 0 <= call < len(step.run.calls):
            yield "nodes of entry and function", *_with_entry(broken, step, call, None)
    if form_of(broken.before) is Form.CAPTURED:
        tokens = np.arange(1, _TOKENS + 1)[None]
        step = _step(replace(broken, tokens=tokens), broken.before, tokens)
        for number in dict.fromkeys((*(max(call, 0) for call in calls), 0)):
            if number < len(step.run.calls):
                yield "nodes, on tokens", *_with_entry(broken, step, number, tokens)
        if not step.run.calls:
            recorded, touched = _local(broken, step, calls[0])
            yield "nodes, on tokens", replace(recorded, tokens=tokens), touched


def _suspects(broken: Broken, step: Step) -> list[int]:
    """Return calls whose function has the mistake: that of the difference, where there is one.

    A program that cannot be run, or is no program, has no values to compare: then it is any of the
    functions that the pass changed, by their first calls.
    """
    if broken.found is not None:
        return [broken.found.call]
    first = {made.call.callee: n for n, made in reversed(list(enumerate(step.run.calls)))}
    old, new = broken.before.by_name, broken.after.by_name
    changed = [first[name] for name in first if old[name] != new.get(name)]
    return sorted(changed) or [0]


def _step(broken: Broken, program: Program, tokens: Array) -> Step:
    truth = find_truth(broken.captured, broken.tensors, tokens)
    steps = list(follow_truth(program, broken.tensors, truth))
    number = broken.found.step if broken.found else 0
    return steps[min(number, len(steps) - 1)]


def _local(broken: Broken, step: Step, call: int) -> tuple[Recording, list[Point]]:
    graph, values = observed_values(step, call)
    other = broken.after.by_name.get(graph.name)
    program = Program((graph,), broken.before.recipes)
    recorded = Recording(
        program,
        None,
        {(graph.name, at): tuple(v for v, _ in each) for at, each in values.items()},
        local_tensors(program, step, call, broken.tensors),
        step.runner.sizes,
    )
    return recorded, _near(graph, other)


def local_tensors(
    program: Program, step: Step, call: int, tensors: Mapping[str, Array]
) -> dict[str, Array]:
    """Return parameters and inputs of one function by their names in it."""
    names = checkpoint_types(program)
    if 0 <= call < len(step.run.calls):
        made = step.run.calls[call]
        inputs = zip(program.main.input_types, made.inputs, strict=True)
        found = {name: value for name, (value, _) in inputs}
        keys = {name: made.call.key_of(name) for name in names}
    else:
        found = {name: value for name, (value, _) in step.inputs.items()}
        keys = {name: name for name in names}
    return found | {name: _wide(tensors[key]) for name, key in keys.items()}


def _with_entry(
    broken: Broken, step: Step, call: int, tokens: Array | None
) -> tuple[Recording, list[Point]]:
    main, outer = observed_values(step, -1)
    made = step.run.calls[call]
    graph, inner = observed_values(step, call)
    values = {(main.name, at): tuple(v for v, _ in each) for at, each in outer.items()}
    values |= {(graph.name, at): tuple(v for v, _ in each) for at, each in inner.items()}
    program = Program((main, graph), broken.before.recipes)
    inputs = {name: value for name, (value, _) in step.inputs.items()}
    tensors = _Joined(inputs, broken.tensors)
    recorded = Recording(program, made.position, values, tensors, step.runner.sizes, tokens)
    after = broken.after
    return recorded, [
        *_near(graph, after.by_name.get(graph.name)),
        *_near(main, after.by_name.get(main.name)),
    ]


class _Joined(dict[str, Array]):
    """Inputs, and parameters that are read when they are asked for."""

    def __init__(self, inputs: Mapping[str, Array], tensors: Mapping[str, Array]) -> None:
        super().__init__(inputs)
        self._tensors = tensors

    def __missing__(self, key: str) -> Array:
        return _wide(self._tensors[key])


def observed_values(step: Step, call: int) -> tuple[Graph, dict[int, tuple[Noisy, ...]]]:
    """Return the function of a call, or the entry for a negative number, and all its values."""
    values: dict[int, tuple[Noisy, ...]] = {}
    runner = step.runner
    made = step.run.calls[call] if 0 <= call < len(step.run.calls) else None
    graph = runner.program.by_name[made.call.callee] if made else runner.program.main

    def keep(of: Graph, position: int, results: tuple[Noisy, ...]) -> None:
        if of.name == graph.name:
            values[position] = results

    if made:
        runner.function(made.call, made.inputs, keep)
    else:
        runner.entry(step.inputs, step.follow, keep)
    return graph, values


def _near(graph: Graph, after: Graph | None) -> list[Point]:
    """Return the nodes that the pass touched, those that read them, and the outputs."""
    same = unchanged_nodes(graph, after) if after else set[int]()
    calls = {i for i, node in enumerate(graph.nodes) if isinstance(node.op, Call)}
    computing = {i for i, node in enumerate(graph.nodes) if node.operands} - calls
    touched = sorted(computing - same)
    readers = [
        i for i in sorted(computing) if any(v.node in touched for v in graph.nodes[i].operands)
    ]
    outputs = [value.node for value in graph.outputs if value.node in computing]
    return [(graph.name, i) for i in dict.fromkeys((*touched, *readers, *outputs))]


def _by_cutting(broken: Broken, tried: Tried) -> Reduced | None:
    if broken.found is None or form_of(broken.before) is not form_of(broken.after):
        return None
    call = broken.found.call
    steps = [_step(broken, each, broken.tokens) for each in (broken.before, broken.after)]
    graphs, values = zip(*(observed_values(step, call) for step in steps), strict=True)
    if graphs[0].input_types != graphs[1].input_types:
        return None
    programs = (
        Program((graphs[0],), broken.before.recipes).pruned(),
        Program((graphs[1],), broken.after.recipes).pruned(),
    )
    tensors: dict[str, Array] = {}
    for program, step in zip(programs, steps, strict=True):
        tensors |= local_tensors(program, step, call, broken.tensors)
    judge = Judge(None, broken.fidelity)
    sizes = steps[0].runner.sizes
    for cut, other in cut_pairs(programs, values, broken.found.result, tensors, sizes):
        case = replace(cut, after=other)
        if judge.observe(case) is None:
            continue
        case = shrink_numbers(case, judge, tried)
        after = judge.after(case)
        if observed := observe(case, after, broken.fidelity):
            return Reduced(case, after, observed, None)
    return None


def shrink_numbers(case: Case, judge: Judge, tried: Tried = lambda _, __: None) -> Case:
    """Return the case with short axes and plain values.

    Axes are tried again behind values: a table may lose rows when no index asks for them.
    """
    case = shrink_sizes(case, judge, lambda n: tried("sizes", n))
    plain = shrink_values(case, judge, lambda n: tried("values", n))
    return plain if plain is case else shrink_sizes(plain, judge, lambda n: tried("sizes", n))


def _wide(array: Array) -> Array:
    kind = np.asarray(array).dtype.kind
    return array if kind == "b" else array.astype(np.int64 if kind in "iu" else np.float64)
