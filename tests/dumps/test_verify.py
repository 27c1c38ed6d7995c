"""Verification of each pass: sound pipelines pass, a broken one stops with a report."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Node, Value
from ascendfx.ir.ops import Add, Constant, Iota, Minimum, Softmax, Subtract
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.rebuild import rebuild
from ascendfx.passes.verification.verify_pass import PassVerifier, Rewritten, fidelity_error
from ascendfx.runtime.dumps.dump_header import DumpHeader
from ascendfx.runtime.dumps.write_dump import DumpWriter
from ascendfx.runtime.presets import DECODE, PREFILL, TO_SERVING
from ascendfx.runtime.progress import silent
from ascendfx.runtime.rewriting import Rewriting
from ascendfx.runtime.start_verifier import check_mode, token_ids
from tests.dumps import planted
from tests.dumps.verified_passes import Thirds, rewrite, verifier
from tests.passes.captured_models import captured

_FLOAT_ROUNDING = 1e-9


@pytest.mark.parametrize("name", ["v3_halfrope", "v2_f32", "llama_f32"])
def test_every_pass_of_ours_keeps_its_fidelity(name: str) -> None:
    found = verifier(name)
    rewriting = Rewriting(None, found, silent)
    serving, _ = rewriting.run("serving", captured(name), TO_SERVING)
    for stage, passes in (("decode", DECODE), ("prefill", PREFILL)):
        if "llama" not in name:
            rewriting.run(stage, serving, passes)
    assert not [check.name for check in found.checks if check.broken]
    assert all(check.error.max < _FLOAT_ROUNDING for check in found.checks)


def _planted(bug: str) -> tuple[ProgramPass, ...]:
    broken: Any = getattr(planted, bug)()
    return tuple(broken if each.name == broken.name else each for each in TO_SERVING)


def test_a_broken_pass_stops_with_the_pass_the_layer_the_operation_and_the_table() -> None:
    with pytest.raises(GraphError) as caught:
        rewrite("v3_halfrope", _planted("mask_forgotten"))
    error = caught.value
    assert error.code == "fidelity-broken"
    assert error.reason.startswith(
        "pass `recognise-causal-mask` of stage serving is declared real, but result 0 of @layer_0, "
        "call 0 moved by "
    )
    assert error.location.file == "v3_halfrope.ir"
    assert error.excerpt.startswith("@layer_0: %")
    assert "attention" in error.excerpt
    table = [line.split()[1] for line in error.notes[2:]]
    assert table == ["simplify", "narrow-repeated-inputs", "simplify", *table[3:]]
    assert table[-1] == "recognise-causal-mask"
    assert error.notes[-1].endswith("broken")


def test_the_dump_of_a_stopped_compilation_holds_the_broken_program(tmp_path: Path) -> None:
    writer = DumpWriter(tmp_path)
    writer.begin(DumpHeader(None, None, "ascend910b2", {}, "ordered", ("serving",)))
    with pytest.raises(GraphError, match="fidelity-broken"):
        rewrite("v3_halfrope", _planted("mask_forgotten"), writer)
    index = json.loads((tmp_path / "serving" / "index.json").read_text(encoding="utf-8"))
    last = index[-1]
    assert last["file"].endswith("-recognise-causal-mask.ir")
    assert last["error"]["max"] > last["error"]["bound"]
    assert last["error"]["worst"]["op"] == "attention"
    assert (tmp_path / "serving" / last["file"]).is_file()
    timing = json.loads((tmp_path / "timing.json").read_text(encoding="utf-8"))
    assert timing["passes"]["serving"][-1]["verification"] > 0


def test_rounding_is_no_mistake() -> None:
    (check,) = rewrite("v3_halfrope", [Thirds()]).checks
    assert 0 < check.error.max < _FLOAT_ROUNDING
    assert check.error.rms <= check.error.max <= check.error.bound


@dataclass(frozen=True, slots=True)
class Cancellation(ProgramPass):
    """Writes ``x`` as ``(x + 1e6) - 1e6``: equal over the reals, and 1e6 times as inexact."""

    name: ClassVar[str] = "cancellation"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run(self, program: Program) -> PassResult:
        def emit(
            b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            if not isinstance(node.op, Softmax):
                return None
            far = b.add(Constant(1e6, node.types[0].dtype))
            return (b.add(Subtract(), b.add(Add(), b.add(node.op, *operands), far), far),)

        return PassResult(
            Program(tuple(rebuild(graph, emit) for graph in program.graphs), program.recipes)
        )


def test_a_program_does_not_explain_its_own_error() -> None:
    with pytest.raises(GraphError, match="`cancellation` of stage serving is declared real, but"):
        rewrite("v3_halfrope", [Cancellation()])


def test_tokens_are_filled_up_and_checked() -> None:
    np.testing.assert_array_equal(token_ids([[1, 2, 3], [4]], 9), [[1, 2, 3], [4, 0, 0]])
    with pytest.raises(GraphError, match=r"error\[token-range\]: verify_tokens has id 9"):
        token_ids([[9]], 9)
    with pytest.raises(GraphError, match=r"error\[empty-prompt\]"):
        token_ids([], 9)
    with pytest.raises(GraphError, match=r"error\[unknown-verification\]: no verification is"):
        check_mode("some")
    wrong: Any
    for wrong in ("text", ["text"], [1, 2], [[1.5]], 7):
        with pytest.raises(GraphError, match=r"error\[bad-argument\]: verify_tokens"):
            check_mode("each-pass", wrong)
    check_mode("each-pass", [[1, 2], np.array([3])])


def test_texts_to_verify_on_need_something_to_verify() -> None:
    with pytest.raises(GraphError, match="verify_tokens is given, but nothing is verified"):
        check_mode(None, [[1, 2]])
    with pytest.raises(GraphError, match="verify_length is given, but nothing is verified"):
        check_mode(None, None, 40)
    with pytest.raises(GraphError, match="texts have their own length"):
        check_mode("each-pass", [[1, 2]], 40)
    with pytest.raises(GraphError, match="verify_length must be at least 1, got 0"):
        check_mode("each-pass", None, 0)
    check_mode("each-pass", None, 40)


@dataclass(frozen=True, slots=True)
class _Far(ProgramPass):
    """Stops counting positions at 40: nothing is wrong with shorter texts."""

    name: ClassVar[str] = "far"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run(self, program: Program) -> PassResult:
        def emit(
            b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            if not isinstance(node.op, Iota) or node.types[0].names != {"tokens"}:
                return None
            limit = b.add(Constant(40, node.types[0].dtype))
            return (b.add(Minimum(), b.add(node.op, *operands), limit),)

        return PassResult(
            Program(tuple(rebuild(graph, emit) for graph in program.graphs), program.recipes)
        )


def test_a_mistake_far_into_a_text_needs_a_text_of_that_length() -> None:
    program = captured("v3_halfrope")
    for length, broken in ((32, False), (48, True)):
        tokens = token_ids(None, 90, length=length)
        found = PassVerifier(program, random_weights(program, 0), tokens)
        after = _Far().run(program).program
        check = found.check("serving", Rewritten("far", Fidelity.BITWISE, program, after))
        assert bool(check.broken) == broken
        assert f"on 2 texts of {length} tokens:" in str(fidelity_error(check, [check], found.shape))
