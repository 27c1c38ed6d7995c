"""Names of figures are read as they are written."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from ascendfx.passes.search.figure import (
    BYTES,
    CHOSEN,
    FOUND,
    GIVEN,
    NANOSECONDS,
    OPERATIONS,
    ORDERED,
    Figure,
    figures_of,
    read_figure,
)
from ascendfx.passes.search.op_cost import Cost

FORMS, UNITS = (FOUND, ORDERED, GIVEN, CHOSEN), (NANOSECONDS, BYTES, OPERATIONS)


@given(graph=st.text(min_size=1) | st.sampled_from(["a, chosen: bytes", "g, b", "\n"]))
def test_every_figure_is_read_from_its_name(graph: str) -> None:
    for form, unit in product(FORMS, UNITS):
        figure = Figure(graph, form, unit)
        assert read_figure(str(figure)) == figure


def test_other_statistics_are_no_figures() -> None:
    for name in ("layer_0: nodes of all forms", "applied compose-linears", "g, best: bytes", "x"):
        assert read_figure(name) is None


def test_a_cost_is_told_in_whole_units() -> None:
    assert figures_of("g", CHOSEN, Cost(2.6e-9, 10.0, 3.0)) == {
        "g, chosen: nanoseconds": 3,
        "g, chosen: bytes": 10,
        "g, chosen: operations": 3,
    }
