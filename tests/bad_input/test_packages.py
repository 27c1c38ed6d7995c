"""Damaged packages: one error that names the file and says what to do, before anything is built."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.package import load_package
from ascendfx.runtime.package.load_package import load
from tests.bad_input.ended import Command
from tests.engine.hosted_steps import HostedSteps

Damage = Callable[[Path], object]


def a_kernel(package: Path) -> Path:
    return min((package / "kernels").glob("decode_*.cpp"))


def set_manifest(package: Path, **fields: object) -> None:
    file = package / "package.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def drop_from_manifest(package: Path, field: str) -> None:
    file = package / "package.json"
    fields = json.loads(file.read_text())
    del fields[field]
    file.write_text(json.dumps(fields))


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


def cut_weights(package: Path) -> None:
    file = package / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def without_a_weight(package: Path) -> None:
    tensors = load_file(package / "weights.safetensors")
    tensors.pop(min(tensors))
    save_file(tensors, package / "weights.safetensors")


def weight_of_another_shape(package: Path) -> None:
    tensors = load_file(package / "weights.safetensors")
    tensors[min(tensors)] = np.zeros(3, np.float32)
    save_file(tensors, package / "weights.safetensors")


def flip_a_weight(package: Path) -> None:
    flip(package / "weights.safetensors", -1)


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def drop_hash(package: Path, path: str) -> None:
    file = package / "MANIFEST"
    lines = [line for line in file.read_text().splitlines() if not line.endswith(f"  {path}")]
    file.write_text("\n".join(lines) + "\n")


def other_tokenizer(package: Path) -> None:
    """A package written with a file that is no tokenizer, so that the hash is right."""
    (package / "tokenizer.json").write_text("[]")
    drop_hash(package, "tokenizer.json")
    append(package / "MANIFEST", f"{hashlib.sha256(b'[]').hexdigest()}  tokenizer.json\n")


DAMAGED = "error[package-damaged]: "
AGAIN = "compile the "

CASES: dict[str, tuple[Damage, str, str]] = {
    "no manifest": (
        lambda package: (package / "package.json").unlink(),
        "error[not-a-package]: {package} has no package.json",
        "a package is what `ascendfx compile` or `engine.save` wrote",
    ),
    "manifest is no JSON": (
        lambda package: (package / "package.json").write_text("{"),
        DAMAGED + "{package}/package.json cannot be read",
        AGAIN,
    ),
    "manifest of another version": (
        lambda package: set_manifest(package, format=7),
        "error[package-version]: {package}/package.json has format 7, this version reads ",
        AGAIN,
    ),
    "manifest without a field": (
        lambda package: drop_from_manifest(package, "end_tokens"),
        DAMAGED + "{package}/package.json has no `end_tokens`",
        AGAIN,
    ),
    "unknown target": (
        lambda package: set_manifest(package, target="ascend310"),
        "error[unknown-target]: ",
        "ascend910b2",
    ),
    "no list of files": (
        lambda package: (package / "MANIFEST").unlink(),
        "error[not-a-package]: {package} has no MANIFEST",
        "",
    ),
    "list of files of another form": (
        lambda package: append(package / "MANIFEST", "nonsense\n"),
        DAMAGED + "{package}: `MANIFEST` ",
        AGAIN,
    ),
    "a kernel missing": (
        lambda package: a_kernel(package).unlink(),
        DAMAGED + "{package}: `kernels/{kernel}` is missing",
        AGAIN,
    ),
    "a kernel changed": (
        lambda package: append(a_kernel(package), "// changed\n"),
        DAMAGED + "{package}: `kernels/{kernel}` is not what was written",
        AGAIN,
    ),
    "a plan changed": (
        lambda package: append(package / "plan-decode.json", " "),
        DAMAGED + "{package}: `plan-decode.json` is not what was written",
        AGAIN,
    ),
    "no weights": (
        lambda package: (package / "weights.safetensors").unlink(),
        DAMAGED + "{package}: `weights.safetensors` is missing",
        AGAIN,
    ),
    "weights cut off": (
        cut_weights,
        "error[damaged-file]: {package}/weights.safetensors is not a complete safetensors file: ",
        "hint: ",
    ),
    "a weight missing": (
        without_a_weight,
        "error[missing-tensor]: {package}/weights.safetensors has no tensor `",
        AGAIN,
    ),
    "a weight of another shape": (
        weight_of_another_shape,
        DAMAGED + "tensor `",
        AGAIN,
    ),
    "a weight changed": (
        flip_a_weight,
        DAMAGED + "{package}: `weights.safetensors` is not what was written",
        AGAIN,
    ),
    "weights without a hash": (
        lambda package: drop_hash(package, "weights.safetensors"),
        DAMAGED + "{package}: `MANIFEST` has no line for `weights.safetensors`",
        AGAIN,
    ),
    "another list of end tokens": (
        lambda package: set_manifest(package, end_tokens=[7]),
        DAMAGED + "{package}: `package.json` is not what was written",
        AGAIN,
    ),
    "tokenizer missing": (
        lambda package: (package / "tokenizer.json").unlink(),
        DAMAGED + "{package}: `tokenizer.json` is missing",
        AGAIN,
    ),
    "tokenizer changed": (
        lambda package: (package / "tokenizer.json").write_text("[]"),
        DAMAGED + "{package}: `tokenizer.json` is not what was written",
        AGAIN,
    ),
    "tokenizer of another form": (
        other_tokenizer,
        "error[bad-tokenizer]: {package}/tokenizer.json is not a tokenizer file",
        "hint: ",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_package_is_one_error(
    name: str, package: Path, command: Command, tmp_path: Path
) -> None:
    damage, message, remedy = CASES[name]
    kernel = a_kernel(package).name
    damage(package)
    ended = command("run", package, "-p", "a", "--kernel-cache", tmp_path / "cache")
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(message.format(package=package, kernel=kernel))
    assert remedy in ended.error
    assert not (tmp_path / "cache").exists(), "kernels were built for a damaged package"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_any_file_is_noticed(
    data: st.DataObject, saved: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    package = Path(shutil.copytree(saved, tmp_path_factory.mktemp("flipped") / "pkg"))
    files = sorted(each for each in package.rglob("*") if each.is_file())
    file = data.draw(st.sampled_from(files).filter(lambda each: each.stat().st_size > 0))
    flip(file, data.draw(st.integers(0, file.stat().st_size - 1)))
    with pytest.raises(GraphError):
        load(package, kernel_cache=package / "cache")
    assert not (package / "cache").exists(), "kernels were built for a damaged package"
    shutil.rmtree(package)


def test_every_changed_end_of_a_line_of_the_list_of_hashes_is_noticed(
    saved: Path, tmp_path: Path
) -> None:
    package = Path(shutil.copytree(saved, tmp_path / "pkg"))
    whole = (package / "MANIFEST").read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == ord("\n")]
    for place in (ends[0], ends[len(ends) // 2], ends[-1]):
        for other in (b"\v", b"\f", b"\x1c", b"\r"):
            (package / "MANIFEST").write_bytes(whole[:place] + other + whole[place + 1 :])
            with pytest.raises(GraphError, match=r"error\[package-damaged\]"):
                load(package, kernel_cache=package / "cache")


def test_every_file_of_a_package_has_a_hash_that_sha256sum_confirms(saved: Path) -> None:
    listed = {line.split("  ", 1)[1] for line in (saved / "MANIFEST").read_text().splitlines()}
    files = {str(each.relative_to(saved)) for each in saved.rglob("*") if each.is_file()}
    assert listed == files - {"MANIFEST"}
    subprocess.run(["sha256sum", "--quiet", "-c", "MANIFEST"], cwd=saved, check=True)  # noqa: S607


def test_checking_weights_can_be_left_out_and_tells_how_far_it_is(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_package, "EmulatedExecutor", Unbuilt)
    seen: list[tuple[str, int, int]] = []
    load(package, progress=lambda *at: seen.append(at))
    checked = [at for at in seen if at[0] == "check weights.safetensors"]
    assert checked[0][1] == 0
    assert checked[-1][1] == checked[-1][2] > 0
    flip_a_weight(package)
    load(package, verify=False)
    with pytest.raises(GraphError, match="package-damaged"):
        load(package)


class _OneRow:
    """The sizes of the smallest plans; nothing is run."""

    def capacities(self, _: str) -> Capacities:
        return Capacities(1, 1, 128, 1, 1)


class Unbuilt(HostedSteps):
    """Stands for an executor whose kernels need not be built."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__(_OneRow(), 128)  # pyright: ignore[reportArgumentType]


def test_a_folder_that_is_no_package_is_left_alone(
    checkpoint: Path, command: Command, tmp_path: Path
) -> None:
    before = sorted(checkpoint.iterdir())
    ended = command("compile", checkpoint, "-o", checkpoint)
    assert ended.code == 1
    assert ended.error.startswith(f"error[not-a-package]: {checkpoint} exists and is not a package")
    assert sorted(checkpoint.iterdir()) == before
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_running_a_package_without_a_compiler_names_the_remedy(
    package: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On the builder itself: tests/emulator/test_kernel_cache.py.
    monkeypatch.setenv("PATH", "")
    ended = command("run", package, "-p", "a")
    assert ended.code == 1
    assert ended.error.startswith("error[no-compiler]: ")
    assert "apt-get install g++" in ended.error


def test_an_older_package_is_replaced_completely(
    package: Path, original: Path, command: Command, tmp_path: Path
) -> None:
    (package / "stray").write_text("from an older version")
    options = ("--max-batch", 1, "--max-context", 128, "--prefill-chunk", 8)
    assert command("compile", original, "-o", package, *options).code == 0
    assert not (package / "stray").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["pkg"]
    shutil.rmtree(package)
