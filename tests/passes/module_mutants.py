"""Every single change of one token in a module of rules: what a typing error would make of it."""

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FAMILIES = (
    ("Add", "Subtract", "Multiply", "Divide"),
    ("Maximum", "Minimum"),
    ("ReduceSum", "ReduceMean", "ReduceMax"),
    ("Sigmoid", "Silu"),
    ("Sqrt", "Rsqrt"),
    ("Sin", "Cos"),
    ("GatherRows", "TakeAlong"),
)
"""Operations that accept each other's operands."""
FRESH = "zz"
"""A letter that no rule uses."""
_COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
}


@dataclass(frozen=True)
class Mutant:
    """A changed module.

    Attributes:
        what: Line, and the piece before and after.
        source: The text of the changed module.
    """

    what: str
    source: str


def mutants_of(source: str, functions: Sequence[int]) -> Iterator[Mutant]:
    """Yield every mutant.

    Args:
        source: The module.
        functions: First lines of the functions and lambdas to be changed; the operands and the
            list of preconditions of every rule are changed, too.
    """
    tree = ast.parse(source)
    places = list(_places(tree, frozenset(functions)))
    for number, (node, names) in enumerate(places):
        for change in range(len(list(_changes(node, names)))):
            changed = copy.deepcopy(tree)
            target, _ = list(_places(changed, frozenset(functions)))[number]
            before = ast.unparse(target)
            replacement = list(_changes(target, names))[change]
            _replace(changed, target, replacement)
            what = f"line {getattr(node, 'lineno', 0)}: {before} -> {ast.unparse(replacement)}"
            yield Mutant(what, ast.unparse(ast.fix_missing_locations(changed)))


def _places(
    tree: ast.Module, functions: frozenset[int]
) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Yield the nodes to change, with the names that stand for values around them."""
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef | ast.Lambda) and _line(outer) in functions:
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            names = _names(outer)
            for statement in body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    continue  # a docstring
                for node in ast.walk(statement):
                    yield node, names
        if isinstance(outer, ast.Call):
            for keyword in outer.keywords:
                if keyword.arg == "operands" and isinstance(keyword.value, ast.Dict):
                    yield from ((each, ("axes",)) for each in keyword.value.values)
                if keyword.arg == "when":
                    yield keyword.value, ("when",)


def _names(function: ast.FunctionDef | ast.Lambda) -> tuple[str, ...]:
    """Return the operands, the holes as ``h.<name>`` and the words that a function uses."""
    operands = [each.arg for each in function.args.args if each.arg not in ("b", "h", "site")]
    nodes = list(ast.walk(function))
    holes = [
        f"h.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id == "h"
    ]
    words = [
        f"'{node.value}"
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.isidentifier()
    ]
    return tuple(dict.fromkeys((*operands, *holes, *words)))


def _line(function: ast.FunctionDef | ast.Lambda) -> int:
    decorators = getattr(function, "decorator_list", [])
    return decorators[0].lineno if decorators else function.lineno


def _changes(node: ast.AST, names: tuple[str, ...]) -> Iterator[ast.AST]:
    if names == ("axes",):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            changed = (each for each in _other_axes(node.value) if each != node.value)
            yield from map(ast.Constant, changed)
    elif names == ("when",):
        if isinstance(node, ast.Tuple):
            for i in range(len(node.elts)):
                yield ast.Tuple(node.elts[:i] + node.elts[i + 1 :], ast.Load())
    else:
        yield from _other_values(node, names)
        yield from _other_operators(node)
        yield from _other_names(node, names)


def _other_values(node: ast.AST, names: tuple[str, ...]) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=str() as word) if f"'{word}" in names:
            others = [each[1:] for each in names if each.startswith("'") and each[1:] != word]
            yield from map(ast.Constant, others[:2])
        case _:
            pass


def _other_operators(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for other in _COMPARE[type(op)]:
                yield ast.Compare(left, [other()], [right])
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for i in range(len(values)):
                rest = values[:i] + values[i + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            yield ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Return(value=value) if isinstance(value, ast.Compare | ast.BoolOp):
            yield ast.Return(ast.UnaryOp(ast.Not(), value))
        case ast.Call():
            yield from _other_calls(node)
        case _:
            pass


def _other_names(node: ast.AST, names: tuple[str, ...]) -> Iterator[ast.AST]:
    match node:
        case ast.Attribute(value=ast.Name(id="h") as holes, attr=attr):
            others = [each[2:] for each in names if each.startswith("h.") and each[2:] != attr]
            yield from (ast.Attribute(holes, each, ast.Load()) for each in others[:2])
        case ast.Name(id="all" | "any" as name):
            yield ast.Name("any" if name == "all" else "all", ast.Load())
        case ast.Name(id=name, ctx=ast.Load()) if name in names:
            others = [each for each in names if each.isidentifier() and each != name]
            yield from (ast.Name(each, ast.Load()) for each in others[:2])
        case ast.Name(id=name, ctx=ast.Load()):
            family = next((f for f in FAMILIES if name in f), ())
            yield from (ast.Name(each, ast.Load()) for each in family if each != name)
        case _:
            pass


def _other_calls(call: ast.Call) -> Iterator[ast.AST]:
    """Yield the call with two neighbouring operands exchanged: those of an operation, or any."""
    first = 1 if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("add") else 0
    for i in range(first, len(call.args) - 1):
        args = [*call.args]
        args[i], args[i + 1] = args[i + 1], args[i]
        yield ast.Call(call.func, args, call.keywords)


def _other_axes(text: str) -> Iterator[str]:
    """Yield declarations of an operand with one axis or the format changed."""
    head, colon, tail = text.rpartition(":")
    words = tail.split()
    prefix = f"{head}{colon} " if colon else ""
    for i in range(len(words) - 1):
        if words[i] != words[i + 1]:
            swapped = [*words[:i], words[i + 1], words[i], *words[i + 2 :]]
            if "*" not in words[i : i + 2]:
                yield prefix + " ".join(swapped)
    for i, word in enumerate(words):
        if word == "*":
            yield prefix + " ".join(words[:i] + words[i + 1 :])
            continue
        yield prefix + " ".join([*words[:i], FRESH, *words[i + 1 :]])
        yield prefix + " ".join([*words[:i], "1", *words[i + 1 :]])
    if "*" not in words:
        yield prefix + " ".join(["*", *words])
    if colon:
        yield " ".join(words)


def _replace(tree: ast.Module, target: ast.AST, replacement: ast.AST) -> None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, field, replacement)
                return
            if isinstance(value, list) and any(each is target for each in value):
                setattr(parent, field, [replacement if each is target else each for each in value])
                return
    raise AssertionError("the node is part of the tree")
