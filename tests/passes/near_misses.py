"""Mutants of a program: passes leave them alone, or make something equal."""

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.proof.graph_mutants import mutants
from ascendfx.passes.proof.random_tensors import random_tensors
from tests.strategies.rounding_bound import assert_equal_up_to_rounding


def runs(graph: Graph, tensors: dict[str, Array]) -> bool:
    """Whether the mutant computes anything: an index may be out of range now."""
    try:
        with np.errstate(all="ignore"):
            return all(np.isfinite(y).all() for y in interpret(graph, tensors))
    except (IndexError, ValueError):
        return False


def check(program: Program, passes: tuple[ProgramPass, ...]) -> tuple[int, int]:
    """Return how many mutants still ran, and how many of them were left alone."""
    tensors = random_tensors(program, seed=0, ids=2)
    ran = refused = 0
    for what, mutant in mutants(program.main):
        if not runs(mutant, tensors):
            continue
        ran += 1
        after, _ = run_pipeline(Program((mutant,)), passes)
        refused += after.main == mutant
        try:
            with np.errstate(all="ignore"):
                assert_equal_up_to_rounding(mutant, after, tensors)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from error
    return ran, refused
