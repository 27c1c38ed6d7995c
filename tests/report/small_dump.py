"""A dump small enough to read, written by hand in the layout of runtime/dumps."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument, KernelKind
from ascendfx.codegen.ascendc.launch_plan import (
    Argument,
    Buffer,
    Capacities,
    Launch,
    LaunchPlan,
    Place,
    print_plan,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.dumps.dump_header import FORMAT, text_hash

SOURCE = "\n".join(f"line {number}" for number in range(1, 41)) + "\n"

BEFORE = """\
// source model.py = {source}
graph @main {
  %0 = input "token_ids" : i32[rows]
  // model.py:10 in embed
  %1 = cast %0 {dtype=f32} : f32[rows]
  // model.py:20 in layers.0
  %2 = call %1 {callee="layer_0", keys=[["w", "layers.0.w"]]} : f32[rows]
  return %2
}

graph @layer_0 {
  %0 = input "x" : f32[rows]
  // model.py:30 in layers.0.act
  %1 = sigmoid %0 : f32[rows]
  %2 = multiply %0, %1 : f32[rows]
  // model.py:31 in layers.0
  %3 = add %2, %0 : f32[rows]
  return %3
}
"""

AFTER = """\
// source model.py = {source}
graph @main {
  %0 = input "token_ids" : i32[rows]
  // model.py:10 in embed
  %1 = cast %0 {dtype=f32} : f32[rows]
  // model.py:20 in layers.0
  %2 = call %1 {callee="layer_0", keys=[["w", "layers.0.w"]]} : f32[rows]
  return %2
}

graph @layer_0 {
  %0 = input "x" : f32[rows]
  // model.py:30 in layers.0.act
  %1 = silu %0 : f32[rows]
  // model.py:31 in layers.0
  %2 = add %1, %0 : f32[rows]
  return %2
}
"""

ERROR = {
    "max": 2e-6,
    "rms": 1e-7,
    "bound": 1e-6,
    "worst": {"graph": "layer_0", "node": 1, "op": "silu", "location": "model.py:30 in layers.0"},
    "layers": [{"module": "layers.0", "max": 2e-6, "rms": 1e-7, "bound": 1e-6, "broken": True}],
}
BROKEN = "result 0 of @layer_0, call 0 moved by 2e-06; rounding explains 1e-06"

KERNEL_TEXT = '// y = silu(x)\n#include "kernel_operator.h"\nconstexpr uint32_t N = 16;\n'


def small_plan() -> LaunchPlan:
    """Return two launches of one kernel over an arena of two buffers."""
    arguments = (
        KernelArgument("x", DType.F32, Direction.IN, 16),
        KernelArgument("y", DType.F32, Direction.OUT, 16),
    )
    kernel = Kernel("decode_silu", "vector_chain", KernelKind.VECTOR, 1, arguments, KERNEL_TEXT)
    buffers = (
        Buffer("token_ids", DType.I32, (16,), Place.CONTROL),
        Buffer("cast.1", DType.F32, (16,), Place.ARENA, 0),
        Buffer("layers.0.silu.1", DType.F32, (16,), Place.ARENA, 64),
        Buffer("logits", DType.F32, (16,), Place.CONTROL),
    )
    launches = (
        Launch("decode_silu", (Argument("token_ids"), Argument("cast.1")), "embed: cast"),
        Launch("decode_silu", (Argument("cast.1"), Argument("layers.0.silu.1")), "layers.0: silu"),
        Launch("decode_silu", (Argument("layers.0.silu.1"), Argument("logits")), "layers.0: add"),
    )
    return LaunchPlan(
        name="decode",
        buffers=buffers,
        launches=launches,
        kernels=(kernel,),
        arena_bytes=128,
        capacities=Capacities(rows=16, requests=16, context=128, blocks=16, table_blocks=1),
        results=("logits",),
    )


def write_small_dump(
    directory: Path,
    *,
    replace: Mapping[str, str] | None = None,
    error: Any = ERROR,
    broken: Any = BROKEN,
) -> Path:
    """Write the dump and the model's source beside it; return the dump's folder.

    Args:
        directory: Receives ``model.py`` and ``dump/``.
        replace: Texts to replace in every file of the dump.
        error: What the index says of the first pass.
        broken: The same.
    """
    source = directory / "model.py"
    source.write_text(SOURCE, encoding="utf-8")
    index = [
        {
            "file": "01-fuse.ir",
            "pass": "fuse",
            "code": "somewhere:Fuse",
            "fidelity": "real",
            "parameters": {},
            "statistics": {"silu": 1},
            "remarks": ["relu: nothing to do"],
            "changed": True,
            "error": error,
            "broken": broken,
        },
        {
            "file": "02-simplify.ir",
            "pass": "simplify",
            "code": "somewhere:Simplify",
            "fidelity": "bitwise",
            "parameters": {},
            "statistics": {},
            "remarks": [],
            "changed": False,
            "error": None,
            "broken": None,
        },
    ]
    cost = {"name": "decode_silu", "kernel": "decode_silu.cpp", "launches": 3, "bound": "hbm"}
    figures = {"microseconds": 9.5, "bytes": 384, "operations": 96}
    header = {
        "format": FORMAT,
        "ascendfx": "0.1.0",
        "source": str(directory),
        "dtype": "float32",
        "target": "ascend910b2",
        "limits": {"max_batch": 16, "cache_blocks": None},
        "strategy": "ordered",
        "stages": ["decode"],
        "verify": None,
    }
    passes = [
        {"pass": "fuse", "seconds": 0.25, "verification": 0.5},
        {"pass": "simplify", "seconds": 0.125, "verification": 0.0},
    ]
    before = BEFORE.replace("{source}", str(source))
    after = AFTER.replace("{source}", str(source))
    files = {
        "dump.json": json.dumps(header),
        "timing.json": json.dumps({"passes": {"decode": passes}, "lower decode": 1.5}),
        "decode/index.json": json.dumps(index),
        "decode/00-input.ir": before,
        "decode/01-fuse.ir": after,
        "decode/02-simplify.ir": after,
        "decode/plan.json": print_plan(small_plan()),
        "decode/cost.json": json.dumps(
            {"target": "ascend910b2", "step": {"rows": 16}, "launches": 3}
            | {"total": figures, "kernels": [cost | figures]}
        ),
        "decode/kernels/decode_silu.cpp": KERNEL_TEXT,
    }
    dump = directory / "dump"
    for name, text in files.items():
        for old, new in (replace or {}).items():
            text = text.replace(old, new)  # noqa: PLW2901
        (dump / name).parent.mkdir(parents=True, exist_ok=True)
        (dump / name).write_text(text, encoding="utf-8")
    write_kernel(dump, (dump / "decode/kernels/decode_silu.cpp").read_text(encoding="utf-8"))
    return dump


def write_kernel(dump: Path, text: str) -> None:
    """Write the text of the one kernel and its hash."""
    (dump / "decode/kernels/decode_silu.cpp").write_text(text, encoding="utf-8")
    hashes = json.dumps({"decode_silu": text_hash(text)})
    (dump / "decode/kernels.json").write_text(hashes, encoding="utf-8")
