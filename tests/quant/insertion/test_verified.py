"""``verify="each-pass"`` around a quantization: its error is told, later passes are held to it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.graph import Graph
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity, ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.verification.verify_pass import (
    PassCheck,
    PassVerifier,
    Rewritten,
    fidelity_error,
    rewritten,
    table_lines,
)
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.insertion.site_form import W8A8
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


def checked(known: PassVerifier, stage: str, program: Program, *passes: ProgramPass) -> Program:
    """Run passes, each checked as a compilation does."""
    return run_pipeline(
        program, passes, observe=lambda run: _refuse(known.check(stage, rewritten(run)), known)
    )[0]


def _refuse(check: PassCheck, known: PassVerifier) -> None:
    if check.broken:
        raise fidelity_error(check, known.checks, known.shape)


@pytest.mark.parametrize("plan", ["decode", "prefill"])
def test_the_error_is_told_and_both_plans_keep_it(plan: str) -> None:
    known = verifier()
    quantized = checked(known, "serving", serving(), InsertQuantization(W8A8))
    (check,) = known.checks
    assert check.fidelity is Fidelity.LOSSY
    assert not check.broken
    assert check.error.bound < 1e-9
    assert 1e-3 < check.error.rms < check.error.max
    assert len(check.error.layers) > 1
    passes = passes_for(plan, target=find_target("ascend910b"), limits=DEFAULT_LIMITS)
    checked(known, plan, quantized, *passes)
    assert len(known.checks) == 1 + len(passes)
    assert all(each.error.max > 1e-3 for each in known.checks)
    line = table_lines(known.checks)[1]
    assert line.startswith("serving  insert-quantization")
    assert f"lossy    {check.error.max:9.2e} {check.error.rms:9.2e}" in line


def test_a_pass_behind_it_that_changes_scales_is_caught() -> None:
    """Its own error is far below that of the quantization, which must not hide it."""
    known = verifier()
    quantized = checked(known, "serving", serving(), InsertQuantization(W8A8))
    changed = replace(quantized, graphs=tuple(map(_other_scales, quantized.graphs)))
    check = known.check("decode", Rewritten("other-scales", Fidelity.REAL, quantized, changed))
    assert check.broken
    assert known.checks[0].error.max > 10 * check.found.max  # pyright: ignore[reportOptionalMemberAccess]


def _other_scales(graph: Graph) -> Graph:
    """Return the graph with the constant 1 / 127 one part in ten million off."""
    nodes = [
        replace(node, op=replace(node.op, value=node.op.value * (1 + 1e-7)))
        if node.op.mnemonic == "constant" and abs(node.op.value * 127 - 1) < 1e-9  # pyright: ignore[reportAttributeAccessIssue]
        else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))
