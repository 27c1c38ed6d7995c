"""``verify="each-pass"`` around a quantization: its error is told, later passes are held to it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Op
from ascendfx.ir.ops import Constant, GroupedLinear, Linear
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity, ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.verification.verify_pass import (
    PassCheck,
    PassVerifier,
    Rewritten,
    rewritten,
    table_lines,
)
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.insertion.site_form import W4A8, W8A8, SiteLine
from ascendfx.runtime.limits import DEFAULT_LIMITS
from ascendfx.runtime.presets import TO_SERVING, passes_for
from tests.passes.captured_models import captured

NAME = "v3yarn_f32"
TOKENS = np.random.default_rng(0).integers(0, 60, (1, 4))


@cache
def serving() -> Program:
    return run_pipeline(captured(NAME), TO_SERVING)[0]


def verifier() -> PassVerifier:
    program = captured(NAME)
    return PassVerifier(program, random_weights(program, 0), TOKENS)


def checked(
    known: PassVerifier, stage: str, program: Program, *passes: ProgramPass
) -> tuple[Program, list[PassCheck]]:
    """Run passes, each checked as a compilation does."""
    checks: list[PassCheck] = []
    made, _ = run_pipeline(
        program, passes, observe=lambda run: checks.append(known.check(stage, rewritten(run)))
    )
    return made, checks


@pytest.mark.parametrize(
    ("plan", "lines"),
    [("decode", W8A8), ("prefill", W8A8), pytest.param("decode", W4A8, marks=pytest.mark.nightly)],
)
def test_the_error_is_told_and_both_plans_keep_it(plan: str, lines: tuple[SiteLine, ...]) -> None:
    known = verifier()
    quantized, (first,) = checked(known, "serving", serving(), InsertQuantization(lines))
    assert any(pairs_of(node.op) for g in quantized.graphs for node in g.nodes) == (lines == W4A8)
    assert first.fidelity is Fidelity.LOSSY
    assert not first.broken
    assert first.error.bound < 1e-9
    assert 1e-3 < first.error.rms < first.error.max
    assert len(first.error.layers) > 1
    passes = passes_for(plan, target=find_target("ascend910b"), limits=DEFAULT_LIMITS)
    _, checks = checked(known, plan, quantized, *passes)
    assert len(checks) == len(passes)
    assert not any(each.broken for each in checks)
    assert all(each.error.max > 1e-3 for each in checks)
    line = table_lines([first, *checks])[1]
    assert line.startswith("serving  insert-quantization")
    assert f"lossy    {first.error.max:9.2e} {first.error.rms:9.2e}" in line


def pairs_of(op: Op) -> bool:
    return isinstance(op, Linear | GroupedLinear) and op.pairs


def test_a_pass_behind_it_that_changes_scales_is_caught() -> None:
    """Its own error is far below that of the quantization, which must not hide it."""
    known = verifier()
    quantized, (first,) = checked(known, "serving", serving(), InsertQuantization(W8A8))
    changed = replace(quantized, graphs=tuple(map(_other_scales, quantized.graphs)))
    check = known.check("decode", Rewritten("other-scales", Fidelity.REAL, quantized, changed))
    assert check.broken
    assert check.found is not None
    assert first.error.max > 10 * check.found.max


def _other_scales(graph: Graph) -> Graph:
    """Return the graph with the constant 1 / 127 one part in ten million off."""
    nodes = [
        replace(node, op=replace(node.op, value=node.op.value * (1 + 1e-7)))
        if isinstance(node.op, Constant) and abs(node.op.value * 127 - 1) < 1e-9
        else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))
