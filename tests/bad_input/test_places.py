"""Where a package is written: odd names, links, and interruptions while an older one is there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ascendfx import GraphError
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.package.load_package import load
from ascendfx.runtime.package.save_package import save_package


@pytest.mark.parametrize("name", ["a\0b", "a" * 300, "loop"])
def test_a_name_that_no_folder_can_have_is_one_error(
    name: str, compiled: CompiledModel, tmp_path: Path
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(GraphError) as caught:
        save_package(compiled, tmp_path / name)
    assert caught.value.code == "not-writable"
    assert caught.value.hint


def test_the_working_directory_may_become_the_package(
    compiled: CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    save_package(compiled, Path())
    assert [each.name for each in tmp_path.iterdir()] == ["here"]
    assert (tmp_path / "here" / "package.json").is_file()


def test_a_link_to_a_package_stays_a_link(
    package: Path, compiled: CompiledModel, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(package)
    (package / "stray").touch()
    save_package(compiled, tmp_path / "link")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "pkg"]
    assert (tmp_path / "link").is_symlink()
    assert not (package / "stray").exists()


def test_an_interruption_while_writing_leaves_the_older_package(
    package: Path, compiled: CompiledModel
) -> None:
    before = sorted(each.name for each in package.iterdir())

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_package(compiled, package, progress=interrupt)
    assert sorted(each.name for each in package.iterdir()) == before
    assert [each.name for each in package.parent.iterdir()] == ["pkg"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interruption_between_the_two_renames_leaves_the_older_package(
    error: type[BaseException],
    package: Path,
    compiled: CompiledModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (package / "stray").touch()
    rename: Callable[[Path, Path], Path] = Path.rename

    def fails_for_the_new_one(self: Path, target: Path) -> Path:
        if target == package and not self.name.endswith(".old"):
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails_for_the_new_one)
    with pytest.raises((KeyboardInterrupt, GraphError)):
        save_package(compiled, package)
    assert (package / "stray").exists()
    assert [each.name for each in package.parent.iterdir()] == ["pkg"]
    load(package)
