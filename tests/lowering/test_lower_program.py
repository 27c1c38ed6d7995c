from dataclasses import replace
from itertools import combinations

import pytest

from ascendfx.codegen.ascendc.kernel import Direction
from ascendfx.codegen.ascendc.launch_plan import Place
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.lowering.plan_memory import ALIGNMENT, find_lifetimes
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from tests.lowering.serving_programs import V3, Shape, serving_program

TARGET = find_target("ascend910b")
TINY = {"rows": 4, "requests": 4, "context": 256, "blocks": 8, "name": "decode"}
LARGE = {"rows": 32, "requests": 32, "context": 32768, "blocks": 4096, "name": "decode"}
CHUNK = {"rows": 512, "requests": 1, "context": 8192, "blocks": 4096, "name": "prefill"}


def lower(shape, sizes):
    return lower_program(serving_program(shape, sizes["name"]), target=TARGET, **sizes)


CASES = {
    "tiny decode": (Shape(), TINY),
    "tiny prefill": (replace(Shape(), expanded=True), {**CHUNK, "context": 1024, "blocks": 8}),
    "V3 decode": (replace(V3, moe_layers=2), LARGE),
    "V3 decode of one row": (replace(V3, moe_layers=2), {**LARGE, "rows": 1, "requests": 1}),
    "V3 prefill": (replace(V3, moe_layers=2, expanded=True), CHUNK),
}


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def lowered(request):
    return lower(*request.param)


def test_no_two_temporaries_alive_together_overlap(lowered):
    plan, _ = lowered
    arena = {buffer.name: buffer for buffer in plan.of_place(Place.ARENA)}
    lifetimes = find_lifetimes(
        [[a.buffer for a in launch.arguments if a.buffer in arena] for launch in plan.launches]
    )
    assert lifetimes.keys() == arena.keys()
    for a, b in combinations(arena.values(), 2):
        if lifetimes[a.name].overlaps(lifetimes[b.name]):
            first, second = sorted((a, b), key=lambda buffer: buffer.offset_bytes)
            assert first.offset_bytes + first.bytes <= second.offset_bytes
    assert all(buffer.offset_bytes % ALIGNMENT == 0 for buffer in arena.values())
    assert max(b.offset_bytes + b.bytes for b in arena.values()) <= plan.arena_bytes


def test_no_launch_reads_a_temporary_before_one_wrote_it(lowered):
    plan, _ = lowered
    written = {b.name for b in plan.buffers if b.place is not Place.ARENA}
    written -= {*plan.results}
    for launch in plan.launches:
        formals = plan.kernel_by_name[launch.kernel].arguments
        pairs = list(zip(formals, launch.arguments, strict=True))
        reads = {a.buffer for f, a in pairs if f.direction in (Direction.IN, Direction.IN_OUT)}
        assert reads <= written, launch.label
        written |= {a.buffer for f, a in pairs if f.direction is not Direction.IN}
    assert plan.results == ("next_tokens", "logits")
    assert {*plan.results} <= written


def test_every_argument_lies_inside_its_buffer(lowered):
    plan, _ = lowered
    for launch in plan.launches:
        formals = plan.kernel_by_name[launch.kernel].arguments
        for formal, actual in zip(formals, launch.arguments, strict=True):
            buffer = plan.buffer_by_name[actual.buffer]
            assert formal.dtype is buffer.dtype
            end = actual.byte_offset + formal.elements * formal.dtype.bytes
            assert end <= buffer.bytes, (launch.label, formal.name)


def test_weights_and_constants_are_never_written(lowered):
    plan, weights = lowered
    assert {spec.name for spec in weights} == {b.name for b in plan.of_place(Place.WEIGHT)}
    for launch in plan.launches:
        formals = plan.kernel_by_name[launch.kernel].arguments
        for formal, actual in zip(formals, launch.arguments, strict=True):
            if plan.buffer_by_name[actual.buffer].place is Place.WEIGHT:
                assert formal.direction is Direction.IN


def test_kernel_names_are_distinct_and_texts_too(lowered):
    plan, _ = lowered
    names = [kernel.name for kernel in plan.kernels]
    assert len(set(names)) == len(names)
    bodies = [kernel.source.replace(kernel.name, "") for kernel in plan.kernels]
    assert len(set(bodies)) == len(bodies)


def test_deepseek_v3_decode_has_few_kernels_and_launches():
    plan, weights = lower_program(serving_program(V3), target=TARGET, **LARGE)
    assert len(plan.kernels) <= 40
    assert len(plan.launches) < 61 * 26
    assert plan.arena_bytes < 64 << 20
    assert len(weights) > 900


def test_equal_layers_share_arena_places_and_kernels():
    two, _ = lower(replace(Shape(), moe_layers=2), TINY)
    five, _ = lower(replace(Shape(), moe_layers=5), TINY)
    assert two.arena_bytes == five.arena_bytes
    assert [k.name for k in two.kernels] == [k.name for k in five.kernels]


def test_lowering_is_deterministic_and_reads_the_text_form():
    program = serving_program(Shape())
    again = parse_program(print_program(program))
    assert lower_program(program, target=TARGET, **TINY) == lower_program(
        again, target=TARGET, **TINY
    )


def test_the_launches_of_a_tiny_step_are_the_reviewed_ones(golden):
    plan, _ = lower(Shape(), TINY)
    lines = [f"{launch.kernel:50} {launch.label}" for launch in plan.launches]
    golden.check("lowering/tiny_decode.txt", "\n".join(lines) + "\n")


def test_the_hand_written_programs_are_the_reviewed_ones(golden):
    golden.check("lowering/tiny_decode.ir", print_program(serving_program(Shape())))
    prefill = serving_program(replace(Shape(), expanded=True), "prefill")
    golden.check("lowering/tiny_prefill.ir", print_program(prefill))


def test_a_program_that_is_no_serving_form_is_refused():
    program = serving_program(Shape())
    main = program.main
    outputs = (*main.outputs[:2], *reversed(main.outputs[2:]))
    swapped = Program((replace(main, outputs=outputs), *program.graphs[1:]), program.recipes)
    with pytest.raises(GraphError) as caught:
        lower_program(swapped, target=TARGET, **TINY)
    assert caught.value.code == "no-serving-form"
    assert "returns cache.1.1, cache.1.0, cache.0.1, cache.0.0" in caught.value.reason


def test_expanded_keys_of_several_requests_are_refused_with_a_remedy():
    with pytest.raises(GraphError) as caught:
        lower(replace(Shape(), expanded=True), TINY)
    assert str(caught.value) == (
        "error[no-kernel]: ragged_attention: expanded keys f32[requests, context, 2, 32] of up to "
        "4 requests\n"
        "   |\n"
        "   | %40 = ragged_attention %18, %20, %38, %34, %39, %4, %5 "
        "{parts=2, scale=0.14433756729740643} : f32[rows, 2, 32]\n"
        "   |\n\n"
        "hint: chunks of a prompt are attended for one request at a time; a decode step attends to "
        "the cached vectors themselves, so keys and values of all heads must be projections of one "
        "vector of the token, with no other operation in between"
    )
