"""Patterns match the chosen modules and no others."""

from hypothesis import given
from hypothesis import strategies as st

from ascendfx.quant_passes.checkpoint.module_patterns import matches, patterns_of

KNOWN = [
    *(f"model.layers.{i}.mlp.{p}_proj" for i in (0, 12) for p in ("gate", "up")),
    *(f"model.layers.{i}.mlp.experts.{e}.up_proj" for i in (1, 2, 10) for e in (0, 1, 11)),
    *(f"model.layers.{i}.mlp.shared_experts.up_proj" for i in (1, 2, 10)),
    "lm_head",
    "model.xlayers.1.mlp.gate_proj",
    "a.experts.3.w",
    "a.experts.4.w",
]


@given(st.sets(st.sampled_from(KNOWN)))
def test_exactly_the_chosen_ones_match(chosen: set[str]) -> None:
    patterns = patterns_of(chosen, KNOWN)
    assert {name for name in KNOWN if any(matches(each, name) for each in patterns)} == chosen


def test_whole_groups_are_one_pattern() -> None:
    experts = [name for name in KNOWN if "layers." in name and ".experts." in name]
    assert patterns_of(experts, KNOWN) == [r"re:^model\.layers\.\d+\.mlp\.experts\.\d+\.up_proj$"]
    assert patterns_of([n for n in experts if ".10." not in n], KNOWN) == [
        r"re:^model\.layers\.(?:1|2)\.mlp\.experts\.\d+\.up_proj$"
    ]
    assert patterns_of(["lm_head"], KNOWN) == ["re:^lm_head$"]


def test_names_match_as_a_whole() -> None:
    assert matches("lm_head", "lm_head")
    assert not matches("lm_head", "lm_head2")
