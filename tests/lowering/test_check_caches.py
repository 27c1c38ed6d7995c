import pytest

from ascendfx.codegen.ascendc.lowering.check_caches import check_caches
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.text.parser import parse_program

WRITE = """graph @main {
  %0 = input "cache.0.0" : f32[blocks, 128, 8]
  %1 = input "slots" : i32[rows]
  %2 = input "x" : f32[rows, 8]
  %3 = input "table" : i32[requests, table_blocks]
  %4 = cache_write %0, %1, %2 : f32[blocks, 128, 8]
  %5 = cache_read READ, %3 {context=<context>} : f32[requests, context, 8]
  return %4, %5
}
"""

CALL = """graph @main {
  %0 = input "cache.0.0" : f32[blocks, 128, 8]
  %1 = input "slots" : i32[rows]
  %2 = input "x" : f32[rows, 8]
  %3 = call %0, %1, %2 {callee="layer", keys=[]} : f32[blocks, 128, 8]
  %4 = call SECOND, %1, %2 {callee="layer", keys=[]} : f32[blocks, 128, 8]
  return %4
}

graph @layer {
  %0 = input "cache" : f32[blocks, 128, 8]
  %1 = input "slots" : i32[rows]
  %2 = input "x" : f32[rows, 8]
  %3 = cache_write %0, %1, %2 : f32[blocks, 128, 8]
  %4 = cache_write %3, %1, %2 : f32[blocks, 128, 8]
  return %4
}
"""


@pytest.mark.parametrize("text", [WRITE.replace("READ", "%4"), CALL.replace("SECOND", "%3")])
def test_reading_the_new_cache_is_fine(text):
    check_caches(parse_program(text))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (WRITE.replace("READ", "%0"), "%4 = cache_write %0, %1, %2"),
        (CALL.replace("SECOND", "%0"), "%3 = call %0, %1, %2"),
    ],
)
def test_using_the_old_cache_is_refused(text, line):
    with pytest.raises(GraphError, match="its old contents are used, too") as caught:
        check_caches(parse_program(text))
    assert caught.value.excerpt.startswith(line)
