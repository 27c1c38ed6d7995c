"""A program that every whole-program check lets through."""

GOOD = """\
graph @main {
  %0 = input "x" : f32[2]
  %1 = call %0 {callee="f", keys=[["w", "0.w"]]} : f32[2]
  return %1
}

graph @f {
  %0 = input "x" : f32[2]
  %1 = param "w#1" : f32[2]
  %2 = add %0, %1 : f32[2]
  return %2
}

recipe @f "w#1" {
  %0 = param "w" : f32[2]
  %1 = add %0, %0 : f32[2]
  return %1
}
"""
