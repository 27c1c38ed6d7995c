"""Hypothesis profiles and the golden-file fixture."""

import pytest
from hypothesis import settings

from tests.golden_file import Golden

settings.register_profile("ci", derandomize=True, max_examples=100, deadline=None)
settings.register_profile("nightly", max_examples=5_000, deadline=None)
settings.load_profile("ci")  # the default is repeatable


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")
    parser.addoption("--nightly", action="store_true", help="run tests marked nightly, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="runs with --nightly")
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(skip)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(update=bool(request.config.getoption("--update-golden")))
