"""Make the axes of a case as short as the mistake allows."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import sympy

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import Input
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim, bind_size, simplify_size
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.reduction.case import FAILURES, Case, Judge

_SMALL = (1, 2, 3, 4, 6, 8, 16, 32)


def shrink_sizes(case: Case, judge: Judge, tried: Callable[[int], None] = lambda _: None) -> Case:
    """Return the case with shorter axes; numbers that count elements are changed with them."""
    count = 0
    changed = True
    while changed:
        changed = False
        for candidate in _candidates(case):
            count += 1
            tried(count)
            if _weight(candidate) < _weight(case) and judge.observe(candidate) is not None:
                case, changed = candidate, True
                break
    return case


def _weight(case: Case) -> int:
    """Return a number that is smaller for shorter axes, so that the search comes to an end."""
    lengths = (
        size
        for graph in case.program.graphs
        for node in graph.nodes
        for kind in node.types
        for size in kind.shape
        if isinstance(size, int)
    )
    return sum(lengths) + sum(case.sizes.values()) + sum(a.size for a in case.tensors.values())


def _candidates(case: Case) -> Iterator[Case]:
    for name, size in sorted(case.sizes.items(), key=lambda item: -item[1]):
        for smaller in _smaller(size):
            if case.tokens is None:
                yield from _made(lambda n=name, s=smaller: _with_size(case, n, s))
    for size in sorted(_numbers(case.program), reverse=True):
        for smaller in _smaller(size):
            for multiples in (True, False):
                for everywhere in (True, False):
                    change = _Change(size, smaller, multiples, everywhere)
                    yield from _made(lambda c=change: _with_number(case, c))


def _smaller(size: int) -> list[int]:
    return [each for each in _SMALL if each < size] + ([size // 2] if size > 64 else [])


def _made(make: Callable[[], Case]) -> Iterator[Case]:
    try:
        case = make()
    except FAILURES:
        return
    yield case


def _with_size(case: Case, name: str, smaller: int) -> Case:
    sizes = {**case.sizes, name: smaller}
    tensors = _cut(case.program, case.tensors, sizes)
    return replace(case, sizes=sizes, tensors=_cut(case.after or case.program, tensors, sizes))


@dataclasses.dataclass(frozen=True)
class _Change:
    """Every ``size`` becomes ``smaller``.

    Attributes:
        size: The number.
        smaller: The new number.
        multiples: Whether multiples of the number shrink with it.
        everywhere: Whether attributes that are single numbers change, too.
    """

    size: int
    smaller: int
    multiples: bool
    everywhere: bool

    def number(self, value: int) -> int:
        """Return a number after the change."""
        if value == self.size or (self.multiples and value > 0 and value % self.size == 0):
            return value // self.size * self.smaller
        return value

    def dim(self, size: Dim) -> Dim:
        """Return a size of an axis after the change."""
        if isinstance(size, int):
            return self.number(size)
        numbers = {
            each: sympy.Integer(self.number(int(each))) for each in size.atoms(sympy.Integer)
        }
        return simplify_size(size.xreplace(numbers))

    def attribute(self, value: Any) -> Any:
        """Return an attribute of an operation after the change."""
        match value:
            case TensorType():
                return value.with_shape(tuple(map(self.dim, value.shape)))
            case bool():
                return value
            case int():
                return self.number(value) if self.everywhere else value
            case sympy.Expr():
                return self.dim(value)
            case tuple() if all(isinstance(each, int | sympy.Expr) for each in value):  # pyright: ignore[reportUnknownVariableType]
                return tuple(map(self.dim, value))  # pyright: ignore[reportUnknownArgumentType]
            case tuple() if all(isinstance(each, TensorType) for each in value):  # pyright: ignore[reportUnknownVariableType]
                return tuple(map(self.attribute, value))  # pyright: ignore[reportUnknownArgumentType]
            case _:
                return value


def _with_number(case: Case, change: _Change) -> Case:
    changed = _changed_program(case.program, change)
    after = _changed_program(case.after, change) if case.after else None
    tensors = _cut(changed, case.tensors, case.sizes)
    if after:
        tensors = _cut(after, tensors, case.sizes)
    return replace(case, program=changed, after=after, tensors=tensors)


def _changed_program(program: Program, change: _Change) -> Program:
    graphs = tuple(_changed(graph, change) for graph in program.graphs)
    recipes = {key: _changed(graph, change) for key, graph in program.recipes.items()}
    return Program(graphs, recipes)


def _changed(graph: Graph, change: _Change) -> Graph:
    builder = GraphBuilder(graph.name)
    for node in graph.nodes:
        with builder.at(node.location):
            builder.add_multi(_op(node.op, change), *node.operands)
    return builder.build(*(Value(*each) for each in graph.outputs))


def _op(op: Op, change: _Change) -> Op:
    values = {
        field.name: change.attribute(getattr(op, field.name)) for field in dataclasses.fields(op)
    }
    return replace(op, **values)


def _is_empty(kinds: tuple[TensorType, ...]) -> bool:
    return any(isinstance(size, int) and size < 1 for kind in kinds for size in kind.shape)


def _numbers(program: Program) -> set[int]:
    found: set[int] = set()
    for graph in program.graphs:
        for node in graph.nodes:
            for kind in node.types:
                found |= {size for size in kind.shape if isinstance(size, int) and size > 1}
    return found


def _cut(
    program: Program, tensors: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """Return the first elements along each axis.

    Raises:
        ValueError: An axis would be empty, or longer than it is.
    """
    if any(_is_empty(node.types) for graph in program.graphs for node in graph.nodes):
        raise ValueError("an axis is empty")
    kinds = dict(checkpoint_types(program))
    kinds |= {n.op.name: n.op.type for n in program.main.nodes if isinstance(n.op, Input)}
    cut = dict(tensors)
    for name, kind in kinds.items():
        if name in tensors:
            wanted = [bind_size(size, sizes) for size in kind.shape]
            cut[name] = tensors[name][tuple(map(slice, wanted))]
            if list(cut[name].shape) != wanted:
                raise ValueError(f"{name} has no {wanted} elements")
    return cut
