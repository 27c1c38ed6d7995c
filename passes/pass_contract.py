"""What a pass has to be and to return; those of users are checked more, for they are not tested."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.program import Program
from ascendfx.ir.verify import verify_program, verify_values
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.line_of_user import line_of_user
from ascendfx.passes.registry import PASSES
from ascendfx.passes.result_parts import check_parts

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME = 100
"""Characters; a dump names files by passes, and a file system has a limit."""


def check_own_passes(passes: Iterable[ProgramPass]) -> tuple[ProgramPass, ...]:
    """Return the passes of a user as a tuple, if they are passes with names of their own.

    Raises:
        GraphError: One is no pass, is declared wrongly, or has the name of one of the library.
    """
    try:
        wanted = tuple(passes)
    except TypeError as error:
        raise GraphError(
            "pass-declaration",
            f"`passes` is {_shown(passes)}, not a sequence of passes",
            hint=f"pass a tuple: passes=({_called(passes)},)",
        ) from error
    for each in wanted:
        check_declared(each)
        known = PASSES.get(each.name)
        if known is not None and not _is_of_library(each):
            raise GraphError(
                "pass-name-taken",
                f"a pass or rule of the library is named `{each.name}`",
                hint="dumps and reports know passes by name: give yours one of its own",
            )
    return wanted


def _shown(given: Any) -> str:
    if isinstance(given, type):
        return f"the class {given.__name__}"
    return f"{type(given).__name__} {given!r:.80}"


def _called(given: Any) -> str:
    kind = given if isinstance(given, type) else type(given)
    return f"{kind.__name__ if issubclass(kind, ProgramPass) else 'MyPass'}()"


def check_declared(rewrite: Any) -> None:
    """Check that a pass is an object of a pass class with a name and a fidelity.

    Raises:
        GraphError: It is not.
    """
    if not isinstance(rewrite, ProgramPass):
        is_class = isinstance(rewrite, type) and issubclass(rewrite, ProgramPass)
        found = f"the class {rewrite.__name__}" if is_class else f"{rewrite!r:.80}"
        raise GraphError(
            "pass-declaration",
            f"{found} is no pass",
            hint=f"pass an object of it: {rewrite.__name__}()"
            if is_class
            else "pass an object of a subclass of ProgramPass, such as MyPass()",
        )
    kind = type(rewrite).__name__
    name, fidelity = (getattr(rewrite, each, None) for each in ("name", "fidelity"))
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise GraphError(
            "pass-declaration",
            f"the pass class {kind} has the `name` {name!r:.120}, which is not kebab-case",
            hint='write name: ClassVar[str] = "my-pass", of a-z, 0-9 and single hyphens',
        )
    if not isinstance(fidelity, Fidelity):
        raise GraphError(
            "pass-declaration",
            f"the pass class {kind} has the `fidelity` {fidelity!r:.80}",
            hint="write fidelity: ClassVar[Fidelity] = Fidelity.BITWISE, REAL or LOSSY",
        )


def checked_result(rewrite: ProgramPass, program: Program) -> PassResult:
    """Run a pass and return what it made.

    Raises:
        GraphError: The pass refuses the program or fails; or it does not return a result with a
            whole program in it.
    """
    try:
        result = rewrite.run(program)
    except GraphError:
        raise
    except Exception as error:
        if _is_of_library(rewrite):
            raise
        raise GraphError(
            "pass-failed",
            f"pass `{rewrite.name}` failed: {type(error).__name__}: {error}{line_of_user(error)}",
            hint="in Python, the cause of this error has the lines of the pass",
        ) from error
    _check_result(rewrite.name, result)
    made_by = f"pass `{rewrite.name}`"
    verify_values(result.program, made_by=made_by)
    if result.program is not program and not _is_of_library(rewrite):
        try:
            verify_program(result.program)
        except GraphError as error:
            error.reason = f"{made_by} made a wrong program: {error.reason}"
            raise
    return result


def _is_of_library(rewrite: ProgramPass) -> bool:
    return type(rewrite).__module__.partition(".")[0] == "ascendfx"


def _check_result(name: str, result: Any) -> None:
    if not isinstance(result, PassResult) or not isinstance(result.program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = result.program if isinstance(result, PassResult) else result
        raise GraphError(
            "pass-result",
            f"pass `{name}` returned `{type(found).__name__}`",
            hint="a pass returns PassResult(program), with the program it was given if nothing "
            "applied",
        )
    if fault := _fault_of_program(result.program):
        raise GraphError(
            "pass-result",
            f"pass `{name}` returned a program {fault}",
            hint="change graphs of the program that the pass is given; its first one is the entry",
        )
    check_parts(name, result.statistics, result.remarks)


def _fault_of_program(program: Any) -> str:
    if not isinstance(program.graphs, tuple) or not isinstance(program.recipes, Mapping):
        return "whose graphs are no tuple, or whose recipes are no mapping"
    if not program.graphs:
        return "without a graph"
    graphs = (*program.graphs, *program.recipes.values())
    strange = next((each for each in graphs if not isinstance(each, Graph)), None)
    return f"that holds `{type(strange).__name__}` instead of a Graph" if strange else ""
