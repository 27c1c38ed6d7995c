"""Which numbers of two golden directories differ by more than rounding explains, and why."""

from collections.abc import Iterator, Mapping

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, Param
from ascendfx.ir.program import Program
from ascendfx.ir.text.printer import print_node
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.verification.verify_pass import PassCheck, PassVerifier, Rewritten
from ascendfx.runtime.dumps.bisect_dump import bisect_dump, captured_program
from ascendfx.runtime.golden.changed_text import Change
from ascendfx.runtime.golden.golden_directory import TRUTH, Golden, Output
from ascendfx.runtime.progress import Progress


def moved_outputs(recorded: Golden, made: Golden) -> Iterator[Change]:
    """Yield each output that moved, with its error against the recorded float64 truth."""
    truth = recorded.outputs[TRUTH]
    for name, now in made.outputs.items():
        was = recorded.outputs.get(name)
        if was is None:
            continue  # a new stage, which the programs tell
        moved, bound = gap(was, now), was.rounding + now.rounding
        if moved > bound:
            place = _farthest(was.logits, now.logits)
            yield Change(
                "output",
                f"{_title(name)} moved by {moved:.3g}, rounding explains {bound:.3g}",
                (
                    f"first at {place}",
                    f"error against the recorded float64 truth: was {gap(truth, was):.3g}, "
                    f"is {gap(truth, now):.3g}, rounding explains "
                    f"{truth.rounding + now.rounding:.3g}",
                ),
            )


def untrue_outputs(made: Golden) -> list[str]:
    """Return what breaks the declared fidelity of the passes: logits too far from the truth."""
    truth = made.outputs[TRUTH]
    return [
        f"{_title(name)}: error {gap(truth, each):.3g} against float64, rounding explains "
        f"{truth.rounding + each.rounding:.3g}"
        for name, each in made.outputs.items()
        if name != TRUTH and not _is_lossy(made, name)
        if gap(truth, each) > truth.rounding + each.rounding
    ]


def _is_lossy(golden: Golden, plan: str) -> bool:
    stages = [stage for stage in golden.dump.stages if stage.name in {"serving", plan}]
    return any(each.fidelity is Fidelity.LOSSY for stage in stages for each in stage.passes)


def gap(one: Output, other: Output) -> float:
    """Return the largest difference; infinite if the shapes differ or one of both is no number."""
    if one.logits.shape != other.logits.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        same = (one.logits == other.logits) | (np.isnan(one.logits) & np.isnan(other.logits))
        moved = np.where(same, 0.0, np.abs(one.logits - other.logits))
    return float(np.nan_to_num(moved, nan=np.inf, posinf=np.inf).max(initial=0.0))


def _farthest(was: Array, now: Array) -> str:
    if was.shape != now.shape:
        return f"the shape, which was {list(was.shape)} and is {list(now.shape)}"
    moved = np.nan_to_num(np.abs(was - now), nan=np.inf)
    step, text, token = np.unravel_index(int(moved.argmax()), moved.shape)
    before, after = was[step, text, token], now[step, text, token]
    return f"step {step}, text {text}, logit {token}: was {before:.9g}, is {after:.9g}"


def _title(name: str) -> str:
    return "the float64 truth" if name == TRUTH else f"the logits of {name}"


def changed_weights(recorded: Golden, made: Golden) -> Iterator[Change]:
    """Yield one change if tensors of the checkpoint are other ones, with what reads the first."""
    old, new = recorded.header.weights, made.header.weights
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    if keys:
        program = captured_program(made.dump)
        lines = [f"{key}{_reader(program, key)}" for key in keys[:8]]
        more = [f"... {len(keys) - 8} more"] if len(keys) > 8 else []
        title = f"{len(keys)} of {len(new)} tensors of the checkpoint differ"
        yield Change("weights", title, (*lines, *more))


def _reader(program: Program, key: str) -> str:
    """Return the operation that reads a tensor, and its line of the model."""
    main = program.main
    if text := _reader_in(main, key):
        return text
    for node in main.nodes:
        if isinstance(node.op, Call):
            for formal, actual in node.op.keys:
                if actual == key:
                    return _reader_in(program.by_name[node.op.callee], formal)
    return ""


def _reader_in(graph: Graph, key: str) -> str:
    for position, node in enumerate(graph.nodes):
        if any(_is_param(graph, value.node, key) for value in node.operands):
            return f": read by `{print_node(graph, position)}` in @{graph.name}, {node.location}"
    return ""


def _is_param(graph: Graph, position: int, key: str) -> bool:
    op = graph.nodes[position].op
    return isinstance(op, Param) and op.name == key


def broken_pass(
    recorded: Golden, made: Golden, tensors: Mapping[str, Array], progress: Progress
) -> Change | None:
    """Return the first pass that breaks its fidelity, capture being the first of all.

    Every program is run layer by layer from the float64 values of the captured program.
    """
    tokens = np.array(made.header.tokens, np.int64)
    before, after = captured_program(recorded.dump), captured_program(made.dump)
    if before != after:
        try:
            verifier = PassVerifier(before, tensors, tokens)
        except (GraphError, KeyError, ValueError) as error:
            return Change("pass", f"the recorded model cannot be run on these weights: {error}")
        check = verifier.check("serving", Rewritten("capture", Fidelity.REAL, before, after))
        if check.broken:
            return _told(check, "the captured model", ())
    found = bisect_dump(made.dump, tensors, tokens, progress=progress).culprit
    if found is None:
        return None
    title = f"pass `{found.entry.name}` ({found.stage.name}/{found.entry.file})"
    return _told(found.check, title, (f"rule: {found.rule}",) if found.rule else ())


def _told(check: PassCheck, title: str, more: tuple[str, ...]) -> Change:
    place = check.place
    where = (
        (f"value: @{place.graph.name}: {place.text}", f"line of the model: {place.node.location}")
        if place
        else ()
    )
    error = check.error
    figures = (
        f"error against float64: {error.max:.3g} at most, {error.rms:.3g} rms; "
        f"rounding explains {error.bound:.3g}"
    )
    what = f"{title} is declared {check.fidelity.value}, but {check.broken}"
    return Change("pass", what, (*more, *where, figures))
