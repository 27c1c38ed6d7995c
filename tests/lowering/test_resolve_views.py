from ascendfx.codegen.ascendc.lowering.graph_context import find_constants
from ascendfx.codegen.ascendc.lowering.resolve_views import resolve_views
from ascendfx.ir.graph import Value
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.text.parser import parse_program

CAPACITY = {"rows": 4, "requests": 4, "context": 256, "blocks": 8, "table_blocks": 2}


def resolve(text):
    graph = parse_program(text).main
    return resolve_views(graph, CAPACITY, constants=find_constants(graph))


def test_heads_of_a_projection_are_views_of_it():
    views = resolve("""graph @g {
      %0 = input "x" : f32[rows, 24]
      %1 = relu %0 : f32[rows, 24]
      %2 = reshape %1 {shape=[<rows>, 2, 12]} : f32[rows, 2, 12]
      %3 = slice %2 {axis=2, start=8, stop=12} : f32[rows, 2, 4]
      return %3
    }""")
    view = views.of[Value(3)]
    assert (view.root, view.offset, view.strides) == (Value(1), 8, (24, 12, 1))
    assert views.is_root(Value(1))
    assert not views.is_root(Value(3))


def test_a_written_cache_is_the_cache():
    views = resolve("""graph @g {
      %0 = input "cache" : f32[blocks, 128, 8]
      %1 = input "slots" : i32[rows]
      %2 = input "x" : f32[rows, 8]
      %3 = cache_write %0, %1, %2 : f32[blocks, 128, 8]
      return %3
    }""")
    assert views.of[Value(3)] == views.of[Value(0)]


def test_wide_integers_are_stored_in_32_bits():
    views = resolve("""graph @g {
      %0 = input "ids" : i32[rows]
      %1 = cast %0 {dtype=i64} : i64[rows]
      %2 = cast %1 {dtype=f32} : f32[rows]
      return %2
    }""")
    assert views.of[Value(1)] == views.of[Value(0)]
    assert views.of[Value(1)].dtype is DType.I32
    assert views.is_root(Value(2))


def test_products_that_are_only_joined_write_into_the_joined_tensor():
    views = resolve("""graph @g {
      %0 = input "x" : f32[rows, 8]
      %1 = param "a" : f32[16, 8]
      %2 = param "b" : f32[32, 8]
      %3 = linear %0, %1 : f32[rows, 16]
      %4 = linear %0, %2 : f32[rows, 32]
      %5 = reshape %3 {shape=[<rows>, 2, 8]} : f32[rows, 2, 8]
      %6 = reshape %4 {shape=[<rows>, 2, 16]} : f32[rows, 2, 16]
      %7 = concat %5, %6 {axis=2} : f32[rows, 2, 24]
      return %7
    }""")
    assert views.joined_in_place == frozenset()  # heads of one product are not adjacent any more
    views = resolve("""graph @g {
      %0 = input "x" : f32[rows, 8]
      %1 = param "a" : f32[16, 8]
      %2 = param "b" : f32[32, 8]
      %3 = linear %0, %1 : f32[rows, 16]
      %4 = linear %0, %2 : f32[rows, 32]
      %5 = concat %3, %4 {axis=1} : f32[rows, 48]
      return %5
    }""")
    assert views.joined_in_place == {5}
    first, second = views.of[Value(3)], views.of[Value(4)]
    assert (first.root, first.offset, first.strides) == (Value(5), 0, (48, 1))
    assert (second.root, second.offset, second.strides) == (Value(5), 16, (48, 1))


def test_a_joined_product_that_others_read_keeps_its_own_buffer():
    views = resolve("""graph @g {
      %0 = input "x" : f32[rows, 8]
      %1 = param "a" : f32[16, 8]
      %2 = param "b" : f32[16, 8]
      %3 = linear %0, %1 : f32[rows, 16]
      %4 = linear %0, %2 : f32[rows, 16]
      %5 = concat %3, %4 {axis=1} : f32[rows, 32]
      %6 = relu %3 : f32[rows, 16]
      return %5, %6
    }""")
    assert views.joined_in_place == frozenset()
    assert views.is_root(Value(3))


def test_what_depends_on_weights_alone_is_a_tensor_of_its_own():
    views = resolve("""graph @g {
      %0 = input "x" : f32[rows, 8]
      %1 = param "w" : f32[8, 4]
      %2 = transpose %1 {permutation=[1, 0]} : f32[4, 8]
      %3 = linear %0, %2 : f32[rows, 4]
      return %3
    }""")
    assert views.of[Value(2)].root == Value(2)


def test_attention_results_too_wide_for_a_copy_are_stored_head_by_head():
    text = """graph @g {
      %0 = input "q" : bf16[rows, HEADS, 512]
      %1 = input "r" : bf16[rows, HEADS, 64]
      %2 = input "k" : bf16[requests, context, 1, 512]
      %3 = input "p" : bf16[requests, context, 1, 64]
      %4 = input "positions" : i32[rows]
      %5 = input "row_request" : i32[rows]
      %6 = param "w" : bf16[HEADS, 128, 512]
      %7 = ragged_attention %0, %1, %2, %3, %2, %4, %5 {parts=2, scale=1.0} : bf16[rows, HEADS, 512]
      %8 = head_linear %7, %6 : bf16[rows, HEADS, 128]
      return %8
    }"""
    assert resolve(text.replace("HEADS", "128")).of[Value(7)].strides == (512, 4 * 512, 1)
    assert resolve(text.replace("HEADS", "64")).of[Value(7)].strides == (64 * 512, 512, 1)
