"""Where transforms must not go: each refusal with its place."""

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.quant_passes.migration.choices import Choices
from ascendfx.quant_passes.migration.migrate_outliers import MigrateOutliers


def program(*lines: str) -> Program:
    body = "\n".join(f"  {line}" for line in lines)
    return parse_program(f"graph @main {{\n{body}\n}}\n", file="test.ir")


ROUTING = (
    '{k=2, scoring="softmax", biased=false, groups=1, topk_groups=1, group_score="max", '
    "masked_value=-inf, normalize=true, scale=1.0}"
)
NORMED = (
    '%0 = input "x" : f32[rows, 4]',
    '%1 = param "norm.weight" : f32[4]',
    '%2 = param "w" : f32[6, 4]',
    "%3 = rms_norm %0, %1 {eps=1e-06} : f32[rows, 4]",
    "%4 = linear %3, %2 : f32[rows, 6]",
)


def migrate(choices: Choices, *lines: str) -> Program:
    return MigrateOutliers(choices).run(program(*lines)).program


@pytest.mark.parametrize(
    "rest",
    [
        ("%5 = multiply %0, %3 : f32[rows, 4]", "return %4, %5"),
        ("return %4, %3",),
        ("%5 = silu %3 : f32[rows, 4]", "return %4, %5"),
    ],
)
def test_a_norm_with_another_reader_is_no_place(rest: tuple[str, ...]) -> None:
    before = program(*NORMED, *rest)
    assert MigrateOutliers(Choices(stream="factors")).run(before).program is before


def test_the_bias_of_a_projection_is_not_scaled() -> None:
    with pytest.raises(GraphError, match="`down#factors` cannot be folded") as found:
        migrate(
            Choices(up="factors"),
            '%0 = input "x" : f32[rows, 4]',
            '%1 = param "gate" : f32[6, 4]',
            '%2 = param "up" : f32[6, 4]',
            '%3 = param "bias" : f32[6]',
            '%4 = param "down" : f32[4, 6]',
            "%5 = linear %0, %1 : f32[rows, 6]",
            "%6 = linear %0, %2 : f32[rows, 6]",
            "%7 = add %6, %3 : f32[rows, 6]",
            "%8 = swiglu %5, %7 : f32[rows, 6]",
            "%9 = linear %8, %4 : f32[rows, 4]",
            "return %9",
        )
    assert found.value.code == "not-folded"
    assert found.value.location.line > 0


def test_the_bias_of_what_writes_to_the_stream_is_not_rotated() -> None:
    with pytest.raises(GraphError) as found:
        migrate(
            Choices(stream="rotation"),
            '%0 = input "x" : f32[rows, 4]',
            '%1 = param "norm.weight" : f32[4]',
            '%2 = param "w" : f32[4, 4]',
            '%3 = param "bias" : f32[4]',
            "%4 = rms_norm %0, %1 {eps=1e-06} : f32[rows, 4]",
            "%5 = linear %4, %2 : f32[rows, 4]",
            "%6 = add %5, %3 : f32[rows, 4]",
            "%7 = add %0, %6 : f32[rows, 4]",
            "return %7",
        )
    assert found.value.code == "not-folded"


@pytest.mark.parametrize("choice", ["factors", "rotation"])
def test_a_router_that_would_be_rounded_is_refused(choice: str) -> None:
    routed = (
        '%0 = input "x" : bf16[rows, 4]',
        '%1 = param "norm.weight" : bf16[4]',
        '%2 = param "gate" : bf16[6, 4]',
        "%3 = rms_norm %0, %1 {eps=1e-06} : bf16[rows, 4]",
        "%4 = linear %3, %2 : bf16[rows, 6]",
        "%5 = cast %4 {dtype=f32} : f32[rows, 6]",
        "%6 = route_topk %5 " + ROUTING + " : f32[rows, 2], i64[rows, 2]",
        "return %6, %6.1",
    )
    with pytest.raises(GraphError, match="router `gate`") as found:
        migrate(Choices(stream=choice), *routed)  # pyright: ignore[reportArgumentType]
    assert found.value.code == "router-format"


def test_a_tied_table_becomes_two() -> None:
    tied = migrate(
        Choices(stream="rotation"),
        '%0 = input "ids" : i64[rows]',
        '%1 = param "table" : f32[9, 4]',
        '%2 = param "norm.weight" : f32[4]',
        "%3 = gather_rows %1, %0 : f32[rows, 4]",
        "%4 = rms_norm %3, %2 {eps=1e-06} : f32[rows, 4]",
        "%5 = linear %4, %1 : f32[rows, 9]",
        "return %5",
    )
    assert sorted(name for _, name in tied.recipes) == ["table#migrated", "table#migrated2"]


def test_a_rotation_does_not_cross_an_activation() -> None:
    with pytest.raises(GraphError, match="a gated activation is no linear map") as found:
        Choices(up="rotation")  # pyright: ignore[reportArgumentType]
    assert found.value.code == "bad-migration"
    with pytest.raises(GraphError, match="`stream` cannot have 'scale'"):
        Choices(stream="scale")  # pyright: ignore[reportArgumentType]
