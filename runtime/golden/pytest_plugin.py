"""The fixture ``golden_compile``; nothing but pytest is imported before it is used."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ascendfx.runtime.compiled_model import CompiledModel
    from ascendfx.runtime.golden.make_golden import Subject

UPDATE = "--update-ascendfx-golden"
FOLDER = "ascendfx_golden"
"""Golden directories lie in this folder beside the test."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records and rewrites."""
    parser.getgroup("ascendfx").addoption(
        UPDATE,
        action="store_true",
        help="record golden directories of compiled models, and rewrite those that differ",
    )


@dataclass(frozen=True)
class GoldenCompile:
    """What the fixture ``golden_compile`` is.

    Attributes:
        folder: Where the golden directories lie.
        update: Whether to record and rewrite.
    """

    folder: Path
    update: bool

    def __call__(
        self,
        model: Any,
        name: str,
        *,
        tokens: Sequence[Sequence[int]] | None = None,
        new_tokens: int = 0,
        **compile_options: Any,
    ) -> "CompiledModel":
        """Compile, compare with the golden directory ``name``, and return what was compiled.

        Args:
            model: A module, or a Hugging Face directory.
            name: Of the golden directory, one per model and options.
            tokens: Texts as token ids; None: the recorded ones, at first two random ones.
            new_tokens: How many tokens the emitted kernels generate from each text in the emulator;
                0: they are not run.
            compile_options: ``target``, ``dtype``, ``strategy``, ``rules``, ``passes``, ``draft``,
                ``draft_chaining`` and the limits: ``max_batch``, ``max_context``,
                ``prefill_chunk``, ``cache_blocks``, ``draft_tokens``, ``draft_tree``,
                ``group_steps``; as of `ascendfx.compile`.

        Raises:
            GraphError: The model cannot be compiled, or the golden directory is damaged.
        """
        from ascendfx.runtime.golden.check_golden import check_golden  # noqa: PLC0415  # slow
        from ascendfx.runtime.golden.golden_directory import HEADER  # noqa: PLC0415
        from ascendfx.runtime.golden.record_golden import record_golden  # noqa: PLC0415

        if not _NAME.fullmatch(name):
            pytest.fail(
                f"{name!r} is no name of a folder: letters, digits, `.`, `_` and `-`",
                pytrace=False,
            )
        directory = self.folder / name
        subject = _subject(model, tokens, new_tokens, compile_options)
        if self.update and not (directory / HEADER).is_file():
            return record_golden(subject, directory).compiled
        if not directory.exists():
            pytest.fail(f"{directory} is not recorded; record it with {UPDATE}", pytrace=False)
        found = check_golden(directory, lambda _: subject, update=self.update)
        if found.changes:
            report = "\n".join(found.lines)
            if not self.update:
                pytest.fail(
                    f"the model is not what {directory} has:\n{report}\n\n"
                    f"if all of that is meant, rewrite it with {UPDATE}",
                    pytrace=False,
                )
            print(f"{directory} is rewritten:\n{report}")  # noqa: T201  # pytest keeps it: -rP
        return found.compiled


def _subject(
    model: Any, tokens: Sequence[Sequence[int]] | None, new_tokens: int, options: dict[str, Any]
) -> "Subject":
    from ascendfx.runtime.golden.make_golden import Subject  # noqa: PLC0415  # slow
    from ascendfx.runtime.limits import Limits  # noqa: PLC0415

    names = [field.name for field in fields(Limits) if field.name in options]
    limits = Limits(**{name: options.pop(name) for name in names})
    return Subject(model, limits=limits, tokens=tokens, new_tokens=new_tokens, **options)


@pytest.fixture
def golden_compile(request: pytest.FixtureRequest) -> GoldenCompile:
    """Compile a model and compare it with what was recorded beside the test."""
    update = bool(request.config.getoption(UPDATE))
    return GoldenCompile(request.path.parent / FOLDER, update)
