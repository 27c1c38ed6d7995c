"""What a step keeps must fit: of main model, draft layers and requests."""

import pytest

from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.text.parser import parse_program
from ascendfx.runtime.device_memory import check_kept

TARGET = find_target("ascend910b2")
MIB = 1 << 20
BYTES = {"cache.0.0": 4 * 128 * 64, "cache.draft.0.0": 4 * 128 * 64, "cache.counts": 4 * 4096}


def step(*names: str) -> str:
    kinds = {
        "cache.0.0": "f32[blocks, 128, 64]",
        "cache.draft.0.0": "f32[blocks, 128, 64]",
        "cache.counts": "i32[places, 4096]",
    }
    lines = [f'  %{i} = input "{name}" : {kinds[name]}' for i, name in enumerate(names)]
    results = ", ".join(f"%{i}" for i in range(len(names)))
    return "\n".join(["graph @main {", *lines, f"  return {results}", "}"])


@pytest.mark.parametrize("last", ["cache.draft.0.0", "cache.counts"])
def test_everything_that_is_kept_is_counted(last: str) -> None:
    most = TARGET.hbm_gib << 30
    names = ("cache.0.0", last)
    each = most // (sum(BYTES[name] for name in names))
    check_kept(parse_program(step(*names)), each, each, TARGET)
    with pytest.raises(GraphError, match="limit-too-large"):
        check_kept(parse_program(step(*names)), each + 1, each + 1, TARGET)
    check_kept(parse_program(step("cache.0.0")), each + 1, each + 1, TARGET)


def test_the_message_tells_caches_from_what_requests_keep() -> None:
    blocks, places = 4 * MIB, 3
    with pytest.raises(GraphError) as found:
        check_kept(parse_program(step(*BYTES)), blocks, places, TARGET)
    assert f"need {2 * blocks * BYTES['cache.0.0']:,} bytes" in found.value.reason
    assert f"of 3 requests {places * BYTES['cache.counts']:,}," in found.value.reason
