"""A golden directory of the bundled model, recorded once; tests get copies."""

import shutil
from pathlib import Path

import pytest

import ascendfx
from ascendfx.runtime.golden.make_golden import Subject
from ascendfx.runtime.golden.record_golden import record_golden
from ascendfx.runtime.limits import Limits

LIMITS = Limits()  # as of tests/models, so that the kernels are built once


def subject(**changes: object) -> Subject:
    return Subject(ascendfx.bundled_model(), limits=LIMITS, **changes)  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a golden directory that nobody may change."""
    place = tmp_path_factory.mktemp("golden") / "model"
    record_golden(subject(tokens=[[5, 17, 4000, 3, 9], [8, 8]]), place)
    return place


@pytest.fixture
def golden_copy(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded, tmp_path / "model")
