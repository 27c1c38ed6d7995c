"""A file names classes and rules: nothing else is called, and nothing of others is imported."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.describe_pass import PassForm, restore_pass
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.simplify import Simplify

SIMPLIFY = "ascendfx.passes.simplify:Simplify"
HERE = __name__
ran: list[str] = []


def function(**fields: str) -> None:
    ran.append(f"function {fields}")


@dataclass
class Open:
    """Not frozen: its constructor may do anything."""

    file: str

    def __post_init__(self) -> None:
        ran.append(self.file)


@dataclass(frozen=True)
class Value:
    """As parameters are; refuses by an error of its own."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise RuntimeError("below zero")


@dataclass(frozen=True)
class Takes(ProgramPass):
    """A pass with a parameter of any kind."""

    name: ClassVar[str] = "takes"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL
    x: Any = None

    def run(self, program: Any) -> PassResult:
        return PassResult(program)


class Asked:
    """An object whose attribute is code."""

    @property
    def inner(self) -> Any:
        ran.append("property")
        return Value


ASKED = Asked()


def restored(x: Any, code: str = f"{HERE}:Takes", *, allow_code: bool = False) -> Any:
    return restore_pass(PassForm("takes", code, {"x": x}), allow_code=allow_code)


def test_values_are_made() -> None:
    x = [{"class": f"{HERE}:Value", "fields": {"size": 3}}]
    assert restored(x) == Takes((Value(3),))
    fidelity = {"class": "ascendfx.passes.graph_pass:Fidelity", "member": "REAL"}
    assert restored(fidelity).x is Fidelity.REAL


@pytest.mark.parametrize(
    ("x", "why"),
    [
        ({"class": "subprocess:getoutput", "fields": {"cmd": "exit 3"}}, "is no class"),
        ({"class": "os:_exit", "fields": {"status": 0}}, "is no class"),
        ({"class": "pathlib:Path", "fields": {}}, "is no class|no frozen dataclass"),
        ({"class": "decimal:Decimal", "fields": {"value": "x"}}, "cannot be imported here"),
        ({"class": f"{HERE}:function", "fields": {}}, "is no class"),
        ({"class": f"{HERE}:Open", "fields": {"file": "x"}}, "is no frozen dataclass"),
        ({"class": f"{HERE}:Value", "fields": {"size": -1}}, "below zero"),
        ({"class": f"{HERE}:Value", "fields": {}}, "its parameters changed"),
        ({"class": f"{HERE}:ASKED.inner", "fields": {"size": 1}}, "has no `ASKED.inner`"),
        ({"class": f"{HERE}:sys.modules", "fields": {}}, "has no `sys.modules`"),
        ({"class": f"{HERE}:ran.0", "fields": {}}, "has no `ran.0`"),
        ({"class": "enum:Enum", "member": "x"}, "has no member `x`"),
        ({"class": f"{HERE}:Value", "member": "x"}, "is no enumeration"),
        ({"class": "ascendfx.passes.graph_pass:Fidelity", "member": "X"}, "has no member `X`"),
        ({"rule": f"{HERE}:function", "name": "x"}, "is no rule"),
        ({"opaque": "builtins:function"}, "cannot be written to a file"),
        ({"program": "nonsense"}, "error"),
        ({"class": 3, "fields": {}}, "is damaged"),
        ({"a": 1}, "is damaged"),
        ({"class": "ascendfx.__main__:main", "fields": {}}, "outside of ascendfx"),
        ({"class": "antigravity:webbrowser", "fields": {}}, "outside of ascendfx"),
    ],
)
def test_nothing_else_is_called(x: Any, why: str) -> None:
    with pytest.raises(GraphError, match=why):
        restored([x])
    with pytest.raises(GraphError, match=why):
        restored({"mapping": {"y": x}})
    assert not ran
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "code", [f"{HERE}:Value", f"{HERE}:function", "subprocess:Popen", SIMPLIFY]
)
def test_what_is_no_pass_or_takes_no_such_parameter_is_refused(code: str) -> None:
    with pytest.raises(GraphError, match=r"error\[pass-not-importable\]"):
        restored("x", code)
    assert isinstance(restore_pass(PassForm("simplify", SIMPLIFY, {})), Simplify)


def test_parameters_nested_too_deep_are_refused() -> None:
    x: Any = 1
    for _ in range(100_000):
        x = [x]
    with pytest.raises(GraphError, match="nested too deep"):
        restored(x)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that puts a module with a text on the path."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(text: str) -> str:
        name = f"a_module_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        return name

    return put


def test_a_module_of_others_is_imported_only_if_allowed(
    module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module(
        f"from {HERE} import Value, Takes, ran\nran.append('imported')\nclass V(Value): 0\n"
    )
    form = {"class": f"{name}:V", "fields": {"size": 2}}
    with pytest.raises(GraphError, match=r"a file alone does not make it run\n(.|\n)*--allow-code"):
        restored(form)
    assert not ran
    try:
        restored(form, allow_code=True)
        assert ran == ["imported"]
        assert restored(form).x.size == 2, "it is imported now"
    finally:
        ran.clear()
        sys.modules.pop(name, None)


@pytest.mark.parametrize("text", ["1 +", "raise RuntimeError('no')", "import nothing_of_this_name"])
def test_a_module_that_fails_to_import_is_one_error(
    text: str, module: Callable[[str], str]
) -> None:
    with pytest.raises(GraphError, match=r"error\[pass-not-importable\]"):
        restored({"class": f"{module(text)}:V", "fields": {}}, allow_code=True)


def test_lazy_names_of_a_module_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = ModuleType("a_lazy_module")
    lazy.__getattr__ = ran.append  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, lazy.__name__, lazy)
    with pytest.raises(GraphError, match="has no `V`"):
        restored({"class": "a_lazy_module:V", "fields": {}})
    assert not ran
