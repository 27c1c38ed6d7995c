"""Formats by name."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ascendfx import quantization
from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats import registry
from ascendfx.quant_passes.formats.codebook import Codebook
from ascendfx.quant_passes.formats.registry import FORMATS, format_named, register_format


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    return


@pytest.mark.parametrize("name", FORMATS)
def test_every_name_leads_to_its_format(name: str) -> None:
    assert format_named(name).name == name


def test_names_that_people_expect() -> None:
    expected = {"int2", "int3", "int4", "int8", "uint4", "float8_e4m3fn", "float8_e5m2"}
    assert expected | {"hifloat8", "hifloat4", "nf4", "int4-narrow"} <= FORMATS.keys()
    assert len(set(map(repr, FORMATS.values()))) == len(FORMATS)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("int44", "did you mean `int4`"),
        ("INT4", "did you mean `int4`"),
        ("fp8", "did you mean `float8_e4m3fn`?"),
        ("hif8", "did you mean `hifloat8`?"),
        ("nf5", "did you mean `nf4`"),
        ("posit", "known: int2 to int8, float8_e4m3fn, float8_e5m2, hifloat4, nf4, fp4, hifloat8"),
    ],
)
def test_an_unknown_name_gets_a_proposal(name: str, meant: str) -> None:
    with pytest.raises(GraphError, match=f"no format is called `{name}`") as refused:
        format_named(name)
    assert refused.value.code == "format-not-known"
    assert meant in refused.value.hint


def test_a_format_of_a_user_is_known_by_name() -> None:
    own = Codebook((-1.0, 0.0, 1.0), name="ternary")
    assert quantization.register_format(own) is own
    assert quantization.format_named("ternary") == own
    assert register_format(Codebook((-1.0, 0.0, 1.0), name="ternary")) == own, "again is no error"
    with pytest.raises(GraphError, match="another format is called `ternary`") as refused:
        register_format(Codebook((0.0, 1.0), name="ternary"))
    assert refused.value.code == "format-name-taken"


def test_names_of_the_library_are_taken() -> None:
    with pytest.raises(GraphError, match="another format is called `nf4`"):
        register_format(Codebook((0.0, 1.0), name="nf4"))


def test_what_fails_its_check_is_not_registered() -> None:
    class Wrong(Codebook):
        @property
        def largest(self) -> float:
            return 3.0

    with pytest.raises(GraphError) as refused:
        register_format(Wrong((0.0, 1.0), name="wrong"))
    assert refused.value.code == "format-not-proved"
    with pytest.raises(GraphError):
        format_named("wrong")


def test_public_names_resolve() -> None:
    for name in quantization.__all__:
        assert getattr(quantization, name) is not None
    tensor = quantization.round_to_nearest(np.eye(4), format_named("int8"), quantization.PerToken())  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(tensor.decode(), np.eye(4))
    assert replace(quantization.DYNAMIC) == quantization.DYNAMIC
