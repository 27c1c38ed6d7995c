"""Latent caches of codes: which ones, in what order, what they hold, what a reader sees."""

from functools import cache

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import CacheRead, CacheWrite, Call
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.ir.verify import verify_program
from ascendfx.passes.describe_pass import describe_pass, restore_pass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.quant_passes.insertion.cache_form import LATENTS, CacheForm, CacheLine
from ascendfx.quant_passes.insertion.chosen_lines import (
    check_quantized,
    chosen_lines,
    quantizing_passes,
)
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.insertion.latent_caches import latent_caches
from ascendfx.quant_passes.insertion.quantize_cache import QuantizeCache
from ascendfx.quant_passes.insertion.site_form import W8A8
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.presets import TO_SERVING
from tests.passes.captured_models import captured

ALL = QuantizeCache(LATENTS)


@cache
def serving(name: str = "v3yarn_f32") -> Program:
    return run_pipeline(captured(name), TO_SERVING)[0]


def caches(graph: Graph) -> dict[str, str]:
    kinds = graph.input_types.items()
    return {name: str(kind) for name, kind in kinds if name.startswith("cache.")}


def test_the_latent_is_found_and_the_rotated_part_is_not() -> None:
    for graph in serving().graphs[1:]:
        (latent,) = latent_caches(graph)
        assert latent.name == "cache.0"
        assert latent.parameter.endswith("kv_a_layernorm.weight")


def test_scales_stand_behind_the_caches_in_inputs_and_results() -> None:
    program = ALL.run(serving()).program
    verify_program(program)
    assert parse_program(print_program(program)) == program
    layers = [node.op for node in program.main.nodes if isinstance(node.op, Call)]
    names = list(caches(program.main))
    count = len(layers)
    numbers = [f"cache.{i}.{j}" for i in range(count) for j in (0, 1)]
    assert names == [*numbers, *(f"cache.{i}.2" for i in range(count))]
    kinds = [caches(program.main)[name] for name in names]
    assert kinds[0] == "i8[blocks, 128, 32]"
    assert kinds[1] == "f32[blocks, 128, 1, 8]"
    assert kinds[-1] == "f32[blocks, 128, 1]"
    returned = [str(kind) for kind in program.main.output_types]
    assert returned[-len(names) :] == kinds
    for graph in program.graphs[1:]:
        assert list(caches(graph)) == ["cache.0", "cache.1", "cache.2"]


def test_new_rows_are_quantized_once_and_every_reader_sees_codes_times_scale() -> None:
    for graph in ALL.run(serving()).program.graphs[1:]:
        ops = [node.op for node in graph.nodes]
        stored = [node.types[0] for node in graph.nodes if isinstance(node.op, CacheWrite)]
        read = [node.types[0].dtype for node in graph.nodes if isinstance(node.op, CacheRead)]
        assert sorted(kind.dtype.value for kind in stored) == ["f32", "f32", "i8"]
        assert read.count(DType.I8) == 1
        assert sum(op.mnemonic == "round" for op in ops) == 1


def test_lines_choose_layers_by_the_key_of_the_norm_and_functions_are_split() -> None:
    program = serving()
    result = QuantizeCache((CacheLine("model.layers.2.*", None), *LATENTS)).run(program)
    verify_program(result.program)
    assert result.statistics["functions split"] == 1
    kept = [name for name, kind in caches(result.program.main).items() if kind.startswith("f32[")]
    assert "cache.2.0" in kept
    assert "cache.2.2" not in caches(result.program.main)
    assert caches(result.program.main)["cache.1.0"].startswith("i8")
    nothing = QuantizeCache((CacheLine("*", None),)).run(program)
    assert nothing.program is program


def test_it_runs_behind_projections_of_codes_and_stores_again_nothing() -> None:
    lines = chosen_lines("w8a8kv8")
    passes = quantizing_passes(lines)
    assert [each.name for each in passes] == ["insert-quantization", "quantize-cache"]
    program, _ = run_pipeline(serving(), passes)
    verify_program(program)
    check_quantized(program, lines)
    assert ALL.run(program).program is program
    assert quantizing_passes(W8A8) == (InsertQuantization(W8A8),)


def rotated() -> Program:
    """Return attention whose one cache holds what is rotated beside what is not."""
    return parse_program("""
graph @main {
  %0 = input "x" : f32[rows, 16]
  %1 = input "angle" : f32[rows, 1, 4]
  %2 = input "slots" : i32[rows]
  %3 = input "positions" : i32[rows]
  %4 = input "row_request" : i32[rows]
  %5 = input "block_table" : i32[requests, table_blocks]
  %6 = input "cache.0" : f32[blocks, 128, 16]
  %7 = slice %0 {axis=1, start=8, stop=16} : f32[rows, 8]
  %8 = reshape %7 {shape=[<rows>, 1, 8]} : f32[rows, 1, 8]
  %9 = rotary %8, %1, %1 {interleaved_in=true, interleaved_out=false} : f32[rows, 1, 8]
  %10 = reshape %9 {shape=[<rows>, 8]} : f32[rows, 8]
  %11 = slice %0 {axis=1, start=0, stop=8} : f32[rows, 8]
  %12 = concat %11, %10 {axis=1} : f32[rows, 16]
  %13 = cache_write %6, %2, %12 : f32[blocks, 128, 16]
  %14 = cache_read %13, %5 {context=<context>} : f32[requests, context, 16]
  %15 = reshape %14 {shape=[<requests>, <context>, 1, 16]} : f32[requests, context, 1, 16]
  %16 = reshape %0 {shape=[<rows>, 1, 16]} : f32[rows, 1, 16]
  %17 = ragged_attention %16, %15, %15, %3, %4 {parts=1, scale=1.0} : f32[rows, 1, 16]
  return %17, %13
}
""")


def test_rows_with_a_rotated_part_keep_their_format_and_are_told() -> None:
    """quantization.md 5.1: a scale for both costs sixteen times the error."""
    program = rotated()
    result = ALL.run(program)
    assert result.program is program
    assert [str(each).partition(" at ")[0] for each in result.remarks] == [
        "quantize-cache: `cache.0` of @main holds rotated keys beside what is not rotated"
    ]
    with pytest.raises(GraphError, match=r"no-latent-cache.*key and value at once and not rotated"):
        check_quantized(program, LATENTS)


def test_a_cache_of_the_entry_itself_is_found() -> None:
    text = print_program(rotated()).replace("concat %11, %10", "concat %11, %11")
    program = ALL.run(parse_program(text)).program
    verify_program(program)
    assert list(caches(program.main)) == ["cache.0", "cache.1"]
    assert [str(each) for each in program.main.output_types[1:]] == [
        "i8[blocks, 128, 16]",
        "f32[blocks, 128, 1]",
    ]


def test_other_widths_and_other_names_are_told() -> None:
    with pytest.raises(GraphError, match=r"bad-cache-form.*a cache of 4 bits"):
        CacheForm(4)
    with pytest.raises(GraphError, match="quant-preset-not-known") as told:
        chosen_lines("w8a8kv4")
    assert told.value.hint.startswith("did you mean `w8a8kv8`?")


def test_a_dump_can_make_the_pass_again() -> None:
    assert restore_pass(describe_pass(ALL)) == ALL


def test_a_tree_of_drafts_is_refused_before_the_work() -> None:
    limits = Limits(draft_tokens=2, draft_tree=(2, 1))
    with pytest.raises(GraphError, match=r"bad-limit.*moves entries of caches of one format"):
        compile_model("nowhere", quant="w8a8kv8", limits=limits)
